"""Races, failures in the middle and sudden deaths: a version is there as a whole or not at all."""

import os
import signal
import sys
from pathlib import Path

import anyio
import apsw
import pytest
from anyio.streams.text import TextReceiveStream
from tests.conformance.resources import on, publication, put, resource_id, version_id
from tests.conformance.store import ACME, raises

from agentvm.errors import AgentVMError, StoreFailed
from agentvm.errors.resource import ResourceExists, ResourceVersionExists
from agentvm.model.resource import digest_of
from agentvm.storage.engine import open_store
from agentvm.storage.engines.sqlite.database import SqliteDatabase
from agentvm.storage.sql.connection import Connection
from agentvm.storage.sql.store import Store

# A row that points to nothing, in either direction; and a blob that nobody holds and nobody would ever drop.
DANGLING = """
SELECT (SELECT count(*) FROM resource_versions WHERE content NOT IN (SELECT digest FROM resource_blobs))
     + (SELECT count(*) FROM version_blobs WHERE digest NOT IN (SELECT digest FROM resource_blobs))
     + (SELECT count(*) FROM resources WHERE resource_key NOT IN (SELECT resource_key FROM resource_versions))
     + (SELECT count(*) FROM resource_blobs
        WHERE unused_since IS NULL
          AND digest NOT IN (SELECT content FROM resource_versions UNION SELECT digest FROM version_blobs))
"""


def dangling(connection: Connection) -> int:
    assert connection.fetch("PRAGMA foreign_key_check") == []
    return int(connection.fetch(DANGLING)[0][0])


async def test_of_many_who_publish_one_version_one_wins(database: SqliteDatabase, store: Store) -> None:
    outcomes: list[str] = []

    async def publish(number: int, of: Store) -> None:
        wanted = publication(text=f"by {number}", resource_id=f"res {number}", version_id=f"rver {number}")
        try:
            await put(of, wanted)
        except ResourceVersionExists:
            outcomes.append("lost")
        else:
            outcomes.append(f"by {number}")

    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            for number in range(20):
                tasks.start_soon(publish, number, store)
        (winner,) = [each for each in outcomes if each != "lost"]
        found = await store.resources(ACME).find("prompts", "greeting")
        assert found is not None
        history = await store.resources(ACME).history(found.resource_id)
        assert [each.digest for each in history.versions] == [publication(text=winner).digest]
        assert await database.read(dangling) == 0


async def test_two_servers_on_one_file_agree_on_who_was_first(tmp_path: Path) -> None:
    """Each has a writing thread of its own, as two processes would."""
    with anyio.fail_after(60):
        async with open_store(tmp_path / "a.db") as one, open_store(tmp_path / "a.db") as other:
            for number in range(20):
                won: list[int] = []

                async def publish(place: int, of: Store, number: int = number, won: list[int] = won) -> None:
                    ids = {"resource_id": f"res {number} {place}", "version_id": f"rver {number} {place}"}
                    wanted = publication(f"r{number}", text=f"by {place}", is_new=True, **ids)
                    if not await raises(ResourceExists, put(of, wanted)):
                        won.append(place)

                async with anyio.create_task_group() as tasks:
                    for place, of in enumerate((one, other)):
                        tasks.start_soon(publish, place, of)
                assert len(won) == 1
            assert await one.resources(ACME).count() == await other.resources(ACME).count() == 20


async def test_a_failure_between_a_blob_and_its_version_leaves_neither(database: SqliteDatabase, store: Store) -> None:
    body = b"part"
    await put(store, publication("base"))
    for table in ("resource_versions", "version_blobs", "resource_deps", "resource_tags", "resource_words"):

        def plant(connection: Connection, table: str = table) -> None:
            raised = "SELECT RAISE (ABORT, 'planted')"
            connection.execute(f"CREATE TEMP TRIGGER planted BEFORE INSERT ON main.{table} BEGIN {raised}; END")

        await database.write(plant)
        wanted = publication(
            blobs={digest_of(body): body}, dependencies=[on(version_id("base"))], pointer="stable", tags=("t",), text="word"
        )
        with pytest.raises(StoreFailed, match="planted"):
            await put(store, wanted)
        await database.write(lambda connection: connection.fetch("DROP TRIGGER planted"))
        assert await store.resources(ACME).get(resource_id()) is None
        assert await database.read(lambda connection: connection.fetch("SELECT count(*) FROM resource_blobs")[0][0]) == 1
        assert await database.read(dangling) == 0
    await put(store, wanted)


async def test_what_comes_under_a_false_digest_is_refused(store: Store) -> None:
    with pytest.raises(ValueError, match="digest"):
        await put(store, publication(blobs={digest_of(b"good"): b"evil"}))
    with pytest.raises(ValueError, match="not in the batch"):
        await put(store, publication(dependencies=[on(7)]))
    assert await store.resources(ACME).count() == 0


async def test_a_very_long_text_does_not_hold_up_the_others(store: Store) -> None:
    (published,) = await put(store, publication(text="needle " + "hay " * 50_000))
    assert published.created
    hits = await store.resources(ACME).dependents(resource_id())
    assert hits.foreign == 0


PUBLISHER = """
import sys
from pathlib import Path

import anyio

from agentvm.model.resource import digest_of
from agentvm.storage.engine import open_store
from tests.conformance.resources import on, publication, put, version_id, resource_id
from tests.conformance.store import ACME


async def main():
    async with open_store(Path(sys.argv[1])) as store:

        async def publish(writer):
            for number in range(1_000_000):
                name = f"{writer}-{number}"
                body = name.encode() * 300
                base = publication(f"{name}-base", text="word " * 50, blobs={digest_of(body): body})
                await put(store, publication(name, dependencies=[on(1)], tags=("t",), pointer="stable"), base)
                if number % 5 == 4:
                    await store.resources(ACME).delete(resource_id(name), force=False, now=2)
                    await store.collect(number, grace=0)
                else:
                    print(name, flush=True)

        async with anyio.create_task_group() as tasks:
            for writer in range(4):
                tasks.start_soon(publish, writer)


anyio.run(main)
"""


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="no SIGKILL here")
async def test_everything_published_survives_a_kill_as_a_whole(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with anyio.fail_after(60):
        async with await anyio.open_process(
            [sys.executable, "-c", PUBLISHER, str(path)], env=environment, stderr=None
        ) as child:
            assert child.stdout is not None
            heard = ""
            async for text in TextReceiveStream(child.stdout):
                heard += text
                if heard.count("\n") >= 200 and child.returncode is None:
                    child.kill()
            assert await child.wait() == -signal.SIGKILL
        acknowledged = heard.splitlines() if heard.endswith("\n") else heard.splitlines()[:-1]
        async with open_store(path) as store:
            ours = store.resources(ACME)
            for name in acknowledged:
                nodes = await ours.closure(version_id(name), limit=9)
                assert list(nodes) == [version_id(name), version_id(f"{name}-base")]
                body = name.encode() * 300
                assert await ours.blob(version_id(f"{name}-base"), digest_of(body)) == body
            assert await store._database.read(dangling) == 0
            for now in (10**9, 10**9 + 1):
                await store.collect(now, grace=0)
            assert await store._database.read(dangling) == 0
            assert len(await ours.closure(version_id(acknowledged[-1]), limit=9)) == 2
    assert apsw.Connection(str(path)).pragma("integrity_check") == "ok"


async def test_a_store_that_refuses_says_so_with_its_own_errors(store: Store) -> None:
    """An id that is taken is nobody's conflict but a fault; it is reported, and nothing is stored."""
    await put(store, publication("one"))
    with pytest.raises(AgentVMError):
        await put(store, publication("two", resource_id=resource_id("one")))
    assert await store.resources(ACME).count() == 1
