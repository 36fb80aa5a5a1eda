"""Arrivals — a crash at any commit of an import leaves all of it or nothing, and no arrival after the next start."""

from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest
from tests.conformance.attachments import digest_of, referring
from tests.conformance.records import SESSION, default_session, image, message, session, turn
from tests.conformance.store import ACME, settle
from tests.storage.crashing import CrashingDatabase

from agentvm.errors import StoreFailed
from agentvm.model.ids import ContainerId, MessageId, SessionId
from agentvm.storage.attachments import Upload
from agentvm.storage.carry import Attached, Carried, Continued, Present, SessionContent
from agentvm.storage.engine import open_store
from agentvm.storage.engines.sqlite.database import open_database
from agentvm.storage.engines.sqlite.migrations import load_migrations, migrate
from agentvm.storage.sql import arrivals
from agentvm.storage.sql.arrivals import finish_arrivals
from agentvm.storage.sql.connection import Database
from agentvm.storage.sql.importing import import_archive
from agentvm.storage.sql.store import Store

BODY = b"x" * 1_000
ELSEWHERE = ContainerId("elsewhere")


def archive() -> Iterator[Carried]:
    file = Attached(digest_of(BODY), len(BODY), Upload(media_type="text/plain"), BODY)
    other = image("img_9", ELSEWHERE)
    yield Present(image())
    for number in range(3):
        yield Continued(session(f"s{number}"), MessageId("old"))
        yield SessionContent((message(f"new{number}"),), (turn(f"t{number}", outcome="completed", ended=2),))
    yield session("fresh")
    yield file
    yield SessionContent((referring("m1", BODY),))
    yield other
    yield default_session(other)
    yield SessionContent((message("m1"),), (turn("t1", outcome="completed", ended=2),))


async def begin(database: Database) -> Store:
    store = Store(database)
    home = await settle(store, image())
    for number in range(3):
        await home.add_session(session(f"s{number}"), [message("old")])
    return store


async def counts(database: Database) -> dict[str, int]:
    tables = (
        "containers", "images", "snapshots", "sessions", "all_messages", "message_facts", "turns", "attachments", "blobs",
        "blob_chunks", "message_attachments", "arrivals", "arriving_messages",
    )  # fmt: skip
    return await database.read(
        lambda connection: {table: connection.fetch(f"SELECT count(*) FROM {table}")[0][0] for table in tables}
    )


async def look(store: Store) -> tuple[object, ...]:
    """The containers, and the messages, turns and files of each: what somebody sees who looks."""
    seen: list[object] = []
    for container_id in await store.tenant(ACME).list_containers():
        container = store.tenant(ACME).container(container_id)
        seen.append((container_id, len((await container.attachments.list()).items)))
        for found in await container.list_images():
            for each in await container.list_sessions(found.image_id):
                messages = [one.id for one in await container.list_messages(each.session_id)]
                turns = [one.turn_id for one in await container.log(each.session_id).list_turns()]
                seen.append((each.session_id, messages, turns))
    return tuple(seen)


async def test_a_crash_at_any_commit_leaves_all_or_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrivals, "SETTLED_MAX", 1)
    async with open_database(None) as database:
        before, empty = await look(await begin(database)), await counts(database)
    async with open_database(None) as database:
        store = await begin(database)
        await import_archive(database, ACME, archive, 7)
        after, full = await look(store), await counts(database)
    assert before != after
    results: list[bool] = []
    died = True
    while died:
        async with open_database(None) as database:
            store = await begin(database)
            crashing = CrashingDatabase(database, len(results))
            try:
                await import_archive(crashing, ACME, archive, 7)
            except StoreFailed:
                pass
            died = crashing.has_died
            seen = await look(store)
            assert seen in (before, after), f"a half is seen after {len(results)} commits"
            await finish_arrivals(database)
            assert await look(store) == seen
            assert await counts(database) == (full if seen == after else empty)
            results.append(seen == after)
    # Nothing, then all: the commit that publishes is one of them, and some commits that only settle come after it.
    assert results == sorted(results)
    assert results.count(False) > 5
    assert results.count(True) > 3


async def test_what_an_older_server_left_is_dropped(tmp_path: Path) -> None:
    """It wrote imports under the name of a tenant that nobody is, and hid long forks by the time of their deletion."""
    path = tmp_path / "x.db"
    with apsw.Connection(str(path)) as connection:
        migrate(connection, load_migrations()[:22])
        connection.execute("PRAGMA foreign_keys = ON")
        connection.execute("INSERT INTO snapshots VALUES ('d', x'7b7d')")
        for tenant in (ACME, "importing:0011"):
            connection.execute("INSERT INTO containers VALUES (NULL, ?, 'home', 1, 1, NULL)", (tenant,))
            connection.execute(
                "INSERT INTO images (tenant_id, container_id, image_id, session_id, name, definition_name, digest, config,"
                " created_at, updated_at) VALUES (?, 'home', 'i', 's', 'n', 'd', 'd', x'7b7d', 1, 1)",
                (tenant,),
            )
            for name, deleted_at in (("s", None), ("fork", 2**62)):
                connection.execute(
                    "INSERT INTO sessions (tenant_id, container_id, image_id, session_id, created_at, updated_at, deleted_at)"
                    " VALUES (?, 'home', 'i', ?, 1, 1, ?)",
                    (tenant, name, deleted_at),
                )
                add = "INSERT INTO all_messages (session_key, message_id, body) VALUES (last_insert_rowid(), 'm', x'7b7d')"
                connection.execute(add)
    connection.close()
    async with open_store(path):
        pass
    async with open_database(path) as database:
        left = await counts(database)
        assert [left[table] for table in ("containers", "images", "snapshots", "sessions", "all_messages")] == [1, 1, 1, 1, 1]
        assert await Store(database).tenant(ACME).find_session(SessionId("fork")) is None
        assert await Store(database).tenant(ACME).find_session(SESSION) is None
