import re
from collections.abc import Iterator

import anyio
import apsw
import psycopg
import pytest

from agentvm.cluster.membership import Membership
from agentvm.errors import DataDirInUse, MigrationUnknown, StoreFailed
from agentvm.errors.cluster import NodeFenced
from agentvm.runtime.tasks import open_tasks
from agentvm.storage.engines.postgres import migrations
from agentvm.storage.engines.postgres.checks import explained
from agentvm.storage.engines.postgres.connection import Raw, connect
from agentvm.storage.engines.postgres.database_locks import USING_CODE, connect_node
from agentvm.storage.engines.postgres.migrations import Migrations, load_migrations, migrate, oldest_compatible
from agentvm.storage.engines.postgres.opening import open_shared_store
from agentvm.storage.engines.sqlite import migrations as sqlite_migrations

# The search index of each engine, and tables of the engines themselves.
OWN = re.compile(
    r"sqlite_|(message|resource|knowledge)_fts|(message|knowledge)_words|resource_texts|agentvm_(schema|server_key|commits)"
)
DIFFERENT = {("knowledge_signs", "signs"): "bit varying"}
"""Columns whose type only one engine has: PostgreSQL counts the bits that two rows share."""
TYPES = {"INTEGER": "bigint", "TEXT": "text", "BLOB": "bytea", "REAL": "double precision"}


@pytest.fixture
def raw(database_url: str) -> Iterator[Raw]:
    with connect(database_url) as opened:
        yield opened


def sqlite_columns(connection: apsw.Connection) -> dict[str, dict[str, tuple[str, bool]]]:
    tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")]
    return {
        table: {
            name: (DIFFERENT.get((str(table), str(name)), TYPES[kind]), bool(required) or bool(key))
            for _, name, kind, required, _, key, _ in connection.execute(f"PRAGMA table_xinfo({table})")
        }
        for table in tables
        if not OWN.match(str(table))
    }


def postgres_columns(raw: Raw) -> dict[str, dict[str, tuple[str, bool]]]:
    rows = raw.execute(
        "SELECT table_name, column_name, data_type, is_nullable = 'NO' FROM information_schema.columns "
        "WHERE table_schema = 'public' AND table_name NOT IN "
        "(SELECT table_name FROM information_schema.views WHERE table_schema = 'public')"
    )
    tables: dict[str, dict[str, tuple[str, bool]]] = {}
    for table, column, kind, required in rows:
        if not OWN.match(table):
            tables.setdefault(table, {})[column] = (kind, bool(required))
    return tables


def test_both_engines_have_the_same_tables_columns_and_version(raw: Raw) -> None:
    scripts = sqlite_migrations.load_migrations()
    sqlite = apsw.Connection(":memory:")
    sqlite_migrations.migrate(sqlite, scripts)
    assert postgres_columns(raw) == sqlite_columns(sqlite)
    assert load_migrations()[-1][0] == len(scripts)


def test_both_engines_have_the_same_indexes_views_and_triggers(raw: Raw) -> None:
    sqlite = apsw.Connection(":memory:")
    sqlite_migrations.migrate(sqlite, sqlite_migrations.load_migrations())
    asked = "SELECT name FROM sqlite_schema WHERE type IN ('index', 'view', 'trigger') AND sql IS NOT NULL"
    theirs = raw.execute(
        "SELECT indexname FROM pg_indexes WHERE schemaname = 'public' UNION SELECT viewname FROM pg_views "
        "UNION SELECT tgname FROM pg_trigger"
    )
    assert {name for (name,) in sqlite.execute(asked)} - {name for (name,) in theirs} == set()


def test_migrating_again_changes_nothing_and_a_newer_database_is_left_alone(raw: Raw) -> None:
    before = postgres_columns(raw)
    migrate(raw, load_migrations())
    assert postgres_columns(raw) == before
    raw.execute("INSERT INTO agentvm_schema (version) VALUES (9999)")
    with pytest.raises(MigrationUnknown, match="version 9999"):
        migrate(raw, load_migrations())


NEWEST = load_migrations()[-1][0]
ADDS = f"-- beside: {NEWEST}\nALTER TABLE sessions ADD COLUMN mood text"
REPLACES = "ALTER TABLE sessions RENAME COLUMN preview TO beginning"


def later(*scripts: str) -> Migrations:
    """The migrations of a later release."""
    return load_migrations() + tuple(enumerate(scripts, start=NEWEST + 1))


def has_column(raw: Raw, name: str) -> bool:
    return name in postgres_columns(raw)["sessions"]


def test_a_migration_that_adds_is_applied_beside_nodes_of_the_release_before(raw: Raw, database_url: str) -> None:
    with connect_node(database_url, NEWEST), connect_node(database_url, NEWEST + 1) as newer:
        migrate(newer, later(ADDS))
        assert has_column(raw, "mood")
        # The release before starts with it too.
        migrate(raw, load_migrations())


def test_a_migration_that_replaces_waits_until_nodes_of_the_release_before_have_ended(raw: Raw, database_url: str) -> None:
    with connect_node(database_url, NEWEST + 1) as newer:
        with connect_node(database_url, NEWEST), pytest.raises(DataDirInUse, match="nothing was changed"):
            migrate(newer, later(REPLACES))
        assert has_column(raw, "preview")
        with connect(database_url) as untold:
            # As a release did that told no schema.
            untold.execute(f"SELECT pg_advisory_lock_shared({USING_CODE})")
            with pytest.raises(DataDirInUse, match="earlier release"):
                migrate(newer, later(REPLACES))
        migrate(newer, later(REPLACES))
    assert not has_column(raw, "preview")
    with pytest.raises(MigrationUnknown, match=f"version {NEWEST + 1}"):
        migrate(raw, load_migrations())


def test_a_migration_does_not_keep_others_waiting_behind_a_long_read(
    raw: Raw, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(migrations, "TABLE_LOCK_MS", 10)
    monkeypatch.setattr(migrations, "TRIES_MAX", 3)
    monkeypatch.setattr(migrations, "RETRY_INTERVAL_SECONDS", 0)
    with connect(database_url) as reading:
        reading.execute("BEGIN")
        reading.execute("SELECT count(*) FROM sessions")
        with pytest.raises(StoreFailed, match="pg_stat_activity"), explained():
            migrate(raw, later(ADDS))
        assert not has_column(reading, "mood")
        waits = iter([None, reading.execute])
        monkeypatch.setattr(
            "agentvm.storage.engines.postgres.migrations.time.sleep",
            lambda seconds: end("COMMIT") if (end := next(waits)) else None,
        )
        migrate(raw, later(ADDS))
    assert has_column(raw, "mood")


def test_nodes_of_two_releases_before_bear_only_what_is_beside_them(raw: Raw, database_url: str) -> None:
    adds_more = f"-- beside: {NEWEST + 1}\nALTER TABLE sessions ADD COLUMN weather text"
    with connect_node(database_url, NEWEST + 2) as newest:
        with connect_node(database_url, NEWEST), pytest.raises(DataDirInUse):
            migrate(newest, later(ADDS, adds_more))
        assert (has_column(raw, "mood"), has_column(raw, "weather")) == (True, False)
        with connect_node(database_url, NEWEST + 1):
            migrate(newest, later(ADDS, adds_more))
    with pytest.raises(MigrationUnknown):
        migrate(raw, load_migrations())


async def test_a_node_that_was_cut_off_while_the_schema_changed_ends(database_url: str) -> None:
    async with open_shared_store(database_url, "a", "1.0") as (_, nodes), open_tasks() as tasks:
        membership = Membership(nodes, lease_seconds=0.1, clock=lambda: 0)
        with psycopg.connect(database_url, autocommit=True) as other:
            other.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )
        with connect_node(database_url, NEWEST + 1) as newer:
            migrate(newer, later(REPLACES))
        tasks.start_soon(membership.run)
        with anyio.fail_after(60), pytest.raises(NodeFenced):
            await membership.watch()
        with pytest.raises(MigrationUnknown):
            await nodes.hand_over()


CHANGES = re.compile(r"\b(DROP (?!TRIGGER)|RENAME|ALTER COLUMN|ADD CONSTRAINT|ADD CHECK|DELETE FROM|TRUNCATE)", re.IGNORECASE)
REQUIRED = re.compile(r"ADD COLUMN(?!.*\bDEFAULT\b).*\bNOT NULL\b", re.IGNORECASE)


def breaks(script: str) -> bool:
    """Whether a script takes something away, or asks for a value that older nodes do not give."""
    return bool(CHANGES.search(script) or REQUIRED.search(script))


def test_migrations_beside_earlier_releases_only_add() -> None:
    beside = [script for number, script in load_migrations() if oldest_compatible(number, script) < number]
    assert [script for script in beside if breaks(script)] == []


@pytest.mark.parametrize(
    "planted", [REPLACES, "ALTER TABLE a DROP COLUMN b", "ALTER TABLE a ADD COLUMN b text NOT NULL", "DROP TABLE a"]
)
def test_a_migration_that_breaks_earlier_releases_is_seen(planted: str) -> None:
    assert breaks(planted)
    assert not breaks(ADDS)
