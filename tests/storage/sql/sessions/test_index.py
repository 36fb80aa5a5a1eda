from pathlib import Path

import anyio
import apsw
from msgspec import convert, to_builtins
from tests.conformance.records import EVERY_KIND, HOME, SESSION, image, message
from tests.conformance.store import ACME, settle

from agentvm.model.definition import snapshot_of
from agentvm.model.ids import ContainerId, TenantId
from agentvm.model.message import Message, encode_message
from agentvm.storage.engines.sqlite.connection import SqliteConnection
from agentvm.storage.engines.sqlite.database import SqliteDatabase, open_database
from agentvm.storage.engines.sqlite.migrations import load_migrations, migrate
from agentvm.storage.sql.sessions.index import PREVIEW_CHARACTERS, TOOL_CHARACTERS, entry_of, index_older, key_of, tend
from agentvm.storage.sql.sessions.pending import index_pending
from agentvm.storage.sql.store import Store


def found(connection: SqliteConnection, word: str) -> list[int]:
    asked = f'"{key_of(ACME, HOME)}{word}"'
    rows = connection.fetch("SELECT rowid FROM message_fts WHERE message_fts MATCH ? ORDER BY rowid", (asked,))
    return [position for (position,) in rows]


def test_every_kind_of_message_says_what_can_be_found_of_it() -> None:
    entries = [entry_of(one) for one in EVERY_KIND]
    assert [entry.kind for entry in entries] == ["user", "user", "assistant", "tool-call", "tool-result", "error"]
    assert [entry.text for entry in entries] == ["北京 \0 🦀", "see", "yes", "", "no", ""]
    assert [entry.tool for entry in entries] == [None, None, None, "run", "run", None]
    assert [entry.preview for entry in entries] == ["北京 \0 🦀", "see", "yes", None, None, None]


def test_a_preview_is_one_short_line() -> None:
    preview = entry_of(message("m", "a\n\n b " + "c" * 500)).preview
    assert preview is not None
    assert preview.startswith("a b c")
    assert len(preview) == PREVIEW_CHARACTERS
    assert entry_of(message("m", " \n ")).preview is None


def test_of_what_a_tool_says_the_beginning_is_found() -> None:
    said = to_builtins(EVERY_KIND[4])
    said["toolResult"]["output"]["value"] = "x" * 10_000
    assert len(entry_of(convert(said, Message)).text) == TOOL_CHARACTERS


def test_containers_of_the_same_name_have_keys_of_their_own() -> None:
    keys = {key_of(TenantId(t), ContainerId(c)) for t, c in (("a", "b"), ("b", "b"), ("a:b", "c"), ("a", "b:c"))}
    assert len(keys) == 4


async def take_in_everything(store: Store) -> None:
    while await store.tend_search():
        pass


async def test_a_message_is_found_once_it_is_taken_in_and_gone_with_its_image(store: Store, database: SqliteDatabase) -> None:
    home = await settle(store, image())
    await home.log(SESSION).record(messages=[message("m1", "Hello 北京"), message("m1", "never")], now=2)
    await take_in_everything(store)
    assert await database.read(lambda connection: found(connection, "hello")) == [1]
    assert await database.read(lambda connection: found(connection, "never")) == []
    assert await home.delete_image(image().image_id)

    def left(connection: SqliteConnection) -> list[int]:
        counts = [connection.fetch(f"SELECT count(*) FROM {table}")[0][0] for table in ("message_facts", "message_fts")]
        return [*counts, *found(connection, "hello")]

    assert await database.read(left) == [0, 0]


def old_database(path: Path, bodies: list[bytes]) -> None:
    old = apsw.Connection(str(path))
    migrate(old, load_migrations()[:7])
    built = image()
    digest, body = snapshot_of(built.definition)
    old.execute("INSERT INTO containers (tenant_id, container_id, created_at, updated_at) VALUES ('acme', 'home', 1, 1)")
    old.execute("INSERT INTO snapshots VALUES (?, ?)", (digest, body))
    old.execute(
        "INSERT INTO images (tenant_id, container_id, image_id, session_id, name, definition_name, digest, config, created_at, "
        "updated_at) VALUES ('acme', 'home', ?, ?, 'n', 'd', ?, x'7b7d', 1, 1)",
        (built.image_id, built.session_id, digest),
    )
    old.execute(
        "INSERT INTO sessions (tenant_id, container_id, image_id, session_id, created_at, updated_at) "
        "VALUES ('acme', 'home', ?, ?, 1, 1)",
        (built.image_id, built.session_id),
    )
    for number, body in enumerate(bodies):
        old.execute("INSERT INTO messages (session_key, message_id, body) VALUES (1, ?, ?)", (f"m{number}", body))
    old.close()


async def test_messages_from_before_there_was_a_search_are_taken_in_some_at_a_time(tmp_path: Path) -> None:
    told = [encode_message(message(f"m{number}", f"word{number} 北京")) for number in range(7)]
    old_database(tmp_path / "a.db", [told[0], b"broken", *told[1:]])
    with anyio.fail_after(60):
        async with open_database(tmp_path / "a.db") as database:
            store = Store(database)
            home = store.tenant(ACME).container(HOME)
            read = await home.get_session(SESSION)
            assert read is not None
            assert (read.last_message_at, read.preview) == (1, None)
            assert await database.write(lambda connection: index_older(connection, 3))
            assert await index_pending(database)
            assert await database.read(lambda connection: found(connection, "北")) == [6, 7, 8]
            # What is said meanwhile is in once, also in a place below.
            await home.log(SESSION).record(messages=[message("new", "北")], now=2)
        # Goes on where it was, after a restart too.
        async with open_database(tmp_path / "a.db") as database:
            while await database.write(lambda connection: index_older(connection, 3)):
                pass
            assert await index_pending(database)
            assert await database.read(lambda connection: found(connection, "北")) == [1, 3, 4, 5, 6, 7, 8, 9]
            assert not await database.write(lambda connection: index_older(connection, 3))
            read = await Store(database).tenant(ACME).container(HOME).get_session(SESSION)
            assert read is not None
            assert read.preview == "北"


async def test_what_is_said_after_what_was_dropped_is_taken_in_once_and_in_no_old_place(tmp_path: Path) -> None:
    old_database(tmp_path / "a.db", [encode_message(message(f"m{number}", "old")) for number in range(3)])
    with anyio.fail_after(60):
        async with open_database(tmp_path / "a.db") as database:
            await database.write(lambda connection: connection.fetch("DELETE FROM all_messages WHERE position > 1"))
            home = Store(database).tenant(ACME).container(HOME)
            await home.log(SESSION).record(messages=[message("new", "fresh")], now=2)
            assert not await database.write(lambda connection: index_older(connection, 9))
            assert await index_pending(database)
            assert await database.read(lambda connection: found(connection, "fresh")) == [4]
            assert await database.read(lambda connection: found(connection, "old")) == [1]


async def test_what_was_written_in_pieces_is_put_together_beside_the_turns(store: Store, database: SqliteDatabase) -> None:
    home = await settle(store, image())
    for number in range(12):
        await home.log(SESSION).record(messages=[message(f"m{number}", f"word{number} same")], now=2)
        assert await index_pending(database)

    def pieces(connection: SqliteConnection) -> int:
        return int(connection.fetch("SELECT count(DISTINCT segid) FROM message_fts_idx")[0][0])

    assert await database.read(pieces) == 12
    while await database.write(lambda connection: tend(connection, 200)):
        pass
    assert await database.read(pieces) < 4
    assert len(await database.read(lambda connection: found(connection, "same"))) == 12
