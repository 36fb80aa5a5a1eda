import os
from contextlib import closing
from importlib import resources
from pathlib import Path

import anyio
import apsw
import pytest
from msgspec import structs
from tests.conformance.records import image
from tests.conformance.resource_life import locked
from tests.conformance.resources import publication, put, resource_id, version_id
from tests.conformance.store import ACME

from agentvm.errors import MigrationUnknown, StoreFailed
from agentvm.model.definition import Definition, snapshot_of
from agentvm.storage.engine import open_store
from agentvm.storage.engines.sqlite.database import open_database
from agentvm.storage.engines.sqlite.migrations import (
    create_file,
    distrust_schema,
    load_migrations,
    migrate,
    read_schema,
    schema_at,
)

MIGRATIONS = load_migrations()


def schema(connection: apsw.Connection) -> list[str]:
    return [sql for (sql,) in connection.execute("SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY name")]


def test_every_migration_is_found_in_the_package_in_order() -> None:
    folder = resources.files("agentvm.storage.engines.sqlite") / "schema"
    numbers = [int(file.name.partition("_")[0]) for file in folder.iterdir() if file.name.endswith(".sql")]
    # One of each number: two who add one at the same time notice it here.
    assert len(set(numbers)) == len(numbers) == len(MIGRATIONS)
    assert "CREATE TABLE messages" in MIGRATIONS[0]


def test_a_database_that_is_migrated_release_by_release_has_the_schema_of_each() -> None:
    with closing(apsw.Connection(":memory:")) as old:
        for version in range(1, len(MIGRATIONS) + 1):
            migrate(old, MIGRATIONS[:version])
            # Its statistics are no part of it.
            old.execute("ANALYZE")
            assert old.pragma("user_version") == version
            assert read_schema(old) == schema_at(version)
    assert schema_at(1) != schema_at(len(MIGRATIONS))


async def test_an_image_of_every_earlier_schema_is_read_and_can_be_locked(tmp_path: Path) -> None:
    """Each of them has gone through all the migrations after its own."""
    versions = range(1, len(MIGRATIONS))
    images = [image(f"img_{version}", f"c{version}", definition=Definition(name=f"helper{version}")) for version in versions]
    with closing(apsw.Connection(str(tmp_path / "a.db"))) as old:
        for version, built in zip(versions, images, strict=True):
            migrate(old, MIGRATIONS[:version])
            old.execute(
                "INSERT INTO containers (tenant_id, container_id, created_at, updated_at) VALUES ('acme', ?, 1, 1)",
                (built.container_id,),
            )
            digest, body = snapshot_of(built.definition)
            old.execute("INSERT INTO snapshots VALUES (?, ?)", (digest, body))
            old.execute(
                "INSERT INTO images (tenant_id, container_id, image_id, session_id, name, definition_name, digest, config, "
                "created_at, updated_at) VALUES ('acme', ?, ?, ?, ?, ?, ?, x'7b7d', 1, 1)",
                (built.container_id, built.image_id, built.session_id, built.name, built.definition_name, digest),
            )
    with anyio.fail_after(60):
        async with open_store(tmp_path / "a.db") as store:
            await put(store, publication())
            for built in images:
                home = store.tenant(ACME).container(built.container_id)
                assert await home.get_image(built.image_id) == built
                lock = locked(version_id()).lock
                assert await home.rebuild_image(structs.replace(built, lock=lock)) is True
            dependents = (await store.resources(ACME).dependents(resource_id())).images
    assert sorted(dependents) == sorted(built.image_id for built in images)


def test_a_new_file_has_the_schema_of_a_migrated_one_and_nothing_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    create_file(path, MIGRATIONS)
    assert [file.name for file in tmp_path.iterdir()] == ["a.db"]
    assert path.stat().st_mode & 0o777 == 0o600
    with closing(apsw.Connection(str(path))) as connection:
        assert connection.pragma("journal_mode") == "wal"
        assert connection.pragma("user_version") == len(MIGRATIONS)
        assert connection.pragma("integrity_check") == "ok"
        assert read_schema(connection) == schema_at(len(MIGRATIONS))


@pytest.mark.parametrize("name", ["a.db", "a.db-wal", "a.db-shm", "a.db-journal"])
def test_no_file_is_created_over_another_or_beside_the_log_of_another(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(b"theirs")
    create_file(tmp_path / "a.db", MIGRATIONS)
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == {name: b"theirs"}


async def test_the_log_of_a_database_that_is_gone_is_not_taken_for_that_of_a_new_one(tmp_path: Path) -> None:
    with closing(apsw.Connection(str(tmp_path / "a.db"))) as connection:
        connection.pragma("journal_mode", "wal")
        connection.execute("CREATE TABLE gone (a)")
        os.rename(tmp_path / "a.db-wal", tmp_path / "b.db-wal")
    async with open_database(tmp_path / "b.db") as database:
        found = await database.read(lambda connection: read_schema(connection.raw))
    assert found == schema_at(len(MIGRATIONS))


@pytest.mark.parametrize("error", [FileExistsError(17, "somebody was faster"), PermissionError(1, "no links here")])
async def test_where_a_new_file_cannot_get_its_name_it_is_migrated(
    error: OSError, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def link(source: str, target: Path) -> None:
        assert Path(source).parent == target.parent
        raise error

    monkeypatch.setattr(os, "link", link)
    create_file(tmp_path / "a.db", MIGRATIONS)
    assert not os.listdir(tmp_path)
    async with open_database(tmp_path / "a.db") as database:
        assert await database.read(lambda connection: read_schema(connection.raw)) == schema_at(len(MIGRATIONS))


def test_what_was_migrated_is_not_migrated_again() -> None:
    connection = apsw.Connection(":memory:")
    migrate(connection, MIGRATIONS)
    connection.execute("INSERT INTO snapshots VALUES ('d', x'00')")
    migrate(connection, MIGRATIONS)
    assert connection.execute("SELECT count(*) FROM snapshots").get == 1


async def test_a_database_in_memory_has_the_schema_of_a_file_and_is_nobody_elses(tmp_path: Path) -> None:
    migrated = apsw.Connection(":memory:")
    migrate(migrated, MIGRATIONS)

    def look(connection: apsw.Connection) -> tuple[int, list[str]]:
        return connection.pragma("user_version"), schema(connection)

    async with open_database(None) as first, open_database(None) as second, open_database(tmp_path / "a.db") as file:
        looks = [await database.read(lambda connection: look(connection.raw)) for database in (first, second, file)]
        assert looks == [look(migrated)] * 3
        await first.write(lambda connection: connection.execute("INSERT INTO snapshots VALUES ('d', x'00')"))
        assert await second.read(lambda connection: connection.fetch("SELECT count(*) FROM snapshots")) == [(0,)]


def test_a_migration_that_fails_leaves_the_version_before_it() -> None:
    connection = apsw.Connection(":memory:")
    with pytest.raises(apsw.SQLError):
        migrate(connection, ("CREATE TABLE a (x)", "CREATE TABLE b (x); CREATE TABLE a (x)", "CREATE TABLE c (x)"))
    assert connection.pragma("user_version") == 1
    assert schema(connection) == ["CREATE TABLE a (x)"]
    migrate(connection, ("CREATE TABLE a (x)", "CREATE TABLE b (x)"))
    assert connection.pragma("user_version") == 2


async def test_a_database_of_a_newer_version_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    newer = apsw.Connection(str(path))
    newer.execute("CREATE TABLE future (x); PRAGMA user_version = 99")
    newer.close()
    before = path.read_bytes()
    with anyio.fail_after(60), pytest.raises(MigrationUnknown):
        async with open_database(path):
            pass
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["a.db"]


async def test_a_database_of_another_program_is_refused(tmp_path: Path) -> None:
    other = apsw.Connection(str(tmp_path / "a.db"))
    other.execute("CREATE TABLE images (x)")
    other.close()
    with anyio.fail_after(60), pytest.raises(StoreFailed):
        async with open_database(tmp_path / "a.db"):
            pass


def test_keys_that_were_made_while_authentication_was_off_are_in_force_no_more() -> None:
    number = next(index for index, script in enumerate(MIGRATIONS) if "made_open" in script)
    connection = apsw.Connection(":memory:")
    migrate(connection, MIGRATIONS[:number])
    connection.execute("INSERT INTO users VALUES (1, 'acme', 'usr_1', 'bob', NULL, 'owner', 'active', 1, 1)")
    made = {
        "open00000000": "anonymous",
        "child0000000": "open00000000",
        "grandchild00": "usr_1/child0000000",
        "first0000000": "first start",
        "second000000": "first0000000",
        "third0000000": "usr_1/second000000",
    }
    for at, (key_id, created_by) in enumerate(made.items(), start=1):
        connection.execute(
            "INSERT INTO api_keys (key_id, tenant_id, user_id, name, digest, permissions, created_by, created_at) "
            "VALUES (?, 'acme', ?, 'k', x'00', x'5b5d', ?, ?)",
            (key_id, "usr_1" if "/" in created_by else None, created_by, at),
        )
    migrate(connection, MIGRATIONS)
    rows = connection.execute("SELECT key_id, revoked_at, role FROM api_keys ORDER BY created_at")
    found = {key_id: (revoked, role) for key_id, revoked, role in rows}
    assert [key_id for key_id, (revoked, _) in found.items() if revoked is None] == list(made)[3:]
    assert (found["third0000000"][1], found["first0000000"][1]) == ("owner", None)


def test_a_database_of_before_goes_on_numbering_messages_where_it_was() -> None:
    with closing(apsw.Connection(":memory:")) as connection:
        distrust_schema(connection)
        migrate(connection, load_migrations()[:20])
        connection.execute(
            """
            INSERT INTO containers (tenant_id, container_id, created_at, updated_at) VALUES ('t', 'c', 1, 1);
            INSERT INTO snapshots VALUES ('d', x'00');
            INSERT INTO images (tenant_id, container_id, image_id, session_id, name, definition_name, digest, config,
                                created_at, updated_at)
            VALUES ('t', 'c', 'i', 's', 'n', 'n', 'd', x'00', 1, 1);
            INSERT INTO sessions (tenant_id, container_id, image_id, session_id, created_at, updated_at)
            VALUES ('t', 'c', 'i', 's', 1, 1);
            INSERT INTO all_messages (position, session_key, message_id, body) VALUES (7, 1, 'a', x'00'), (9, 1, 'b', x'00');
            DELETE FROM all_messages WHERE position = 9;
            """
        ).fetchall()
        migrate(connection, load_migrations())
        assert connection.config(apsw.SQLITE_DBCONFIG_DEFENSIVE, -1) == 1
        add = "INSERT INTO all_messages (session_key, message_id, body) VALUES (1, ?, x'00') RETURNING position"
        assert connection.execute(add, ("c",)).fetchall() == [(10,)]
        connection.execute("DELETE FROM all_messages WHERE position = 10")
        assert connection.execute(add, ("d",)).fetchall() == [(11,)]
        assert [row[0] for row in connection.execute("SELECT position FROM all_messages ORDER BY position")] == [7, 11]
        assert connection.pragma("integrity_check") == "ok"
