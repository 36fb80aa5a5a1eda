"""PostgreSQL fails in the middle of turns, and a synchronous standby takes its place: nothing is lost, and nobody is dead."""

import json
from collections.abc import Iterator
from pathlib import Path

import anyio
import anyio.to_thread
import psycopg
import pytest
from tests.cluster.test_adoption import all_ended, begin, check, deltas_flow, open_nodes, rows
from tests.provision import Unavailable
from tests.provision.replication import Replicated, replicated
from websockets.asyncio.client import connect

SILENCE_SECONDS = 30
"""The bound for a busy machine; what was measured on others is in docs/cluster.md."""


@pytest.fixture
def servers() -> Iterator[Replicated]:
    try:
        with replicated() as running:
            with psycopg.connect(running.url(), autocommit=True) as connection:
                connection.execute("CREATE DATABASE avm")
            yield running
    except Unavailable as error:
        pytest.skip(f"PostgreSQL with a standby: {error}")


async def listen(url: str, session_id: str, silences: list[float]) -> None:
    """Notes the longest pause between two events until the turn ends."""
    async with connect(url) as socket:
        await socket.send(json.dumps({"type": "subscribe", "sessionId": session_id, "afterCursor": "0"}))
        last, longest = anyio.current_time(), 0.0
        async for text in socket:
            now = anyio.current_time()
            last, longest = now, max(longest, now - last)
            if '"turn_response"' in str(text):
                silences.append(longest)
                return


async def test_turns_go_on_after_the_database_has_failed_over_to_a_synchronous_standby(
    tmp_path: Path, servers: Replicated
) -> None:
    url, silences = servers.url("avm"), list[float]()
    async with open_nodes(tmp_path, url, "a", "b") as (a, b):
        sent = await begin(a)
        await deltas_flow(url)
        with anyio.fail_after(120):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(listen, a.url, sent[0]["sessionId"], silences)
                tasks.start_soon(listen, b.url, sent[0]["sessionId"], silences)
                await anyio.to_thread.run_sync(servers.fail_over)
                late = await begin(b)
        await all_ended(url)
        await check(url, b, [*sent, *late])
        # Nobody was declared dead, so no turn was begun again.
        assert {row[0] for row in rows(url, "SELECT attempts FROM turns")} == {0}
        assert rows(url, "SELECT state FROM nodes") == [("up",), ("up",)]
        assert max(silences) < SILENCE_SECONDS
