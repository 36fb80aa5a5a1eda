"""F33: deleting is deleting. A server that is killed while it erases finishes by itself, and no byte of what was said stays."""

import json
import signal
import urllib.request
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import anyio
import anyio.to_thread
import apsw
import pytest
from tests.conformance.records import image
from tests.conformance.store import settle
from tests.faults.process import Server, open_server

from agentvm import create_agentx, remote_runtime
from agentvm.model.ids import DEFAULT_TENANT, ContainerId, MessageId, SessionId
from agentvm.model.message import UserMessage
from agentvm.storage.base import SessionWrite
from agentvm.storage.engine import open_store
from agentvm.storage.engines.sqlite.datadir import DATABASE

pytestmark = pytest.mark.usefixtures("sqlite_file")

MESSAGES, AT_ONCE = 2_000, 50
VICTIM, NEIGHBOUR = ContainerId("victim"), ContainerId("neighbour")
PLANTED, NEARBY = "plantedpin", "nearbyword"
WAIT = 60.0


async def fill(data_dir: Path) -> None:
    """Two containers whose messages lie between each other."""
    async with open_store(data_dir / DATABASE) as store:
        for container in (VICTIM, NEIGHBOUR):
            await settle(store, image(f"img-{container}", container), tenant=DEFAULT_TENANT, container=container)
        for first in range(0, MESSAGES, AT_ONCE):
            await store.commit([said(container, word, first) for container, word in ((VICTIM, PLANTED), (NEIGHBOUR, NEARBY))])


def said(container: ContainerId, word: str, first: int) -> SessionWrite:
    messages = [
        UserMessage(
            id=MessageId(f"{container}-{number}"), timestamp=1, role="user", content=f"{word}{number} is what I said " * 5
        )
        for number in range(first, first + AT_ONCE)
    ]
    return SessionWrite(
        tenant_id=DEFAULT_TENANT,
        container_id=container,
        session_id=SessionId(f"img-{container}-default"),
        now=1,
        messages=messages,
    )


async def pending(server: Server) -> Sequence[dict[str, object]]:
    def ask() -> Sequence[dict[str, object]]:
        with urllib.request.urlopen(f"http://127.0.0.1:{server.port}/v1/erasures", timeout=WAIT) as answer:
            found: Sequence[dict[str, object]] = json.load(answer)["items"]
            return found

    return await anyio.to_thread.run_sync(ask)


def left_rows(data_dir: Path) -> int:
    """Messages of the container that is being erased, as nobody's server would see them."""
    with closing(apsw.Connection(str(data_dir / DATABASE), flags=apsw.SQLITE_OPEN_READONLY)) as connection:
        query = "SELECT count(*) FROM all_messages JOIN sessions USING (session_key) WHERE container_id = ?"
        return int(connection.execute(query, (VICTIM,)).get)


async def test_f33_a_server_that_is_killed_while_it_erases_finishes_by_itself(tmp_path: Path) -> None:
    await fill(tmp_path)
    async with open_server(tmp_path) as server:
        async with create_agentx(remote_runtime(server.url, timeout=WAIT)) as agentx:
            weighed = (await agentx.containers.delete(VICTIM, dry_run=True)).owned
            assert weighed is not None
            assert (weighed.sessions, weighed.messages) == (1, MESSAGES)
            assert (await agentx.containers.delete(VICTIM)).deleted
            await server.end(signal.SIGKILL)
        between = left_rows(tmp_path)
        assert 0 < between <= MESSAGES
        # Some go, then it is killed again.
        await server.start()
        with anyio.fail_after(WAIT):
            while left_rows(tmp_path) == between:  # noqa: ASYNC110  # there is no event to wait for
                await anyio.sleep(0.01)
        await server.end(signal.SIGKILL)
        await server.start()
        with anyio.fail_after(WAIT):
            while await pending(server):  # noqa: ASYNC110  # there is no event to wait for
                await anyio.sleep(0.05)
        # While it still runs: nothing is left to a shutdown.
        files = {name: (tmp_path / name).read_bytes() for name in (DATABASE, f"{DATABASE}-wal")}
        assert {name: found.count(PLANTED.encode()) for name, found in files.items()} == dict.fromkeys(files, 0)
        async with create_agentx(remote_runtime(server.url, timeout=WAIT)) as agentx:
            assert await agentx.containers.list() == (NEIGHBOUR,)
            found = await agentx.sessions.search(f"{NEARBY}{MESSAGES - 1}")
            assert found.total == 1
            await agentx.containers.create(VICTIM)
            assert await agentx.images.list(VICTIM) == ()
    assert b"what I said" in (tmp_path / DATABASE).read_bytes()
