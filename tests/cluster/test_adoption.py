"""Nodes die, freeze and leave in the middle of turns: every turn goes on on another node, ends once, and is billed once."""

import json
import signal
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx2
import psycopg
import pytest
from anyio.abc import TaskStatus
from tests.cluster.program import text_of
from tests.faults.invariants import Frame
from tests.faults.process import Server, open_server, read_log, until
from tests.provision.postgres import Postgres
from websockets.asyncio.client import connect

SESSIONS = 3
PACE = "0.1"
SILENCE_SECONDS = 30
"""The bound for a busy machine; what was measured on others is in docs/benchmarks.md."""


@pytest.fixture
def database_url(postgres: Postgres, request: pytest.FixtureRequest) -> str:
    name = f"kill_{abs(hash(request.node.name))}"
    with psycopg.connect(postgres.url(), autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    return postgres.url(name)


@asynccontextmanager
async def open_nodes(tmp_path: Path, url: str, *names: str, pace: str = PACE) -> AsyncIterator[list[Server]]:
    async with AsyncExitStack() as stack:
        yield [
            await stack.enter_async_context(open_server(tmp_path / name, "tests.cluster.program", url, name, pace))
            for name in names
        ]


async def ask(server: Server, text: str, **more: object) -> dict[str, Any]:
    async with httpx2.AsyncClient(base_url=f"http://127.0.0.1:{server.port}", timeout=60) as client:
        answer = await client.post("/v1/messages", json={"content": text, "wait": False, **more})
        assert answer.status_code == 200, answer.text
        body: dict[str, Any] = answer.json()
        return body


def rows(url: str, sql: str) -> list[tuple[Any, ...]]:
    with psycopg.connect(url) as connection:
        return connection.execute(sql).fetchall()


async def measure_silence(
    server: Server,
    sent: list[dict[str, Any]],
    silences: list[float],
    *,
    task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED,
) -> None:
    """Notes the longest pause between two events of each of the sessions, until its turn ends. Starts when all are heard."""

    async def listen(session_id: str, *, task_status: TaskStatus[None]) -> None:
        async with connect(server.url) as socket:
            await socket.send(json.dumps({"type": "subscribe", "sessionId": session_id, "afterCursor": "0"}))
            await socket.recv()
            task_status.started()
            last, longest = anyio.current_time(), 0.0
            async for text in socket:
                now = anyio.current_time()
                last, longest = now, max(longest, now - last)
                if '"turn_response"' in str(text):
                    silences.append(longest)
                    return

    async with anyio.create_task_group() as tasks:
        for each in sent:
            await tasks.start(listen, each["sessionId"])
        task_status.started()


async def all_ended(url: str) -> None:
    with anyio.fail_after(90):
        await until(lambda: {row[0] for row in rows(url, "SELECT outcome FROM turns")} == {"completed"})


async def check(url: str, other: Server, sent: list[dict[str, Any]]) -> None:
    """Each turn has ended once with the whole answer, its events have consecutive numbers, and no call is billed twice."""
    logs: dict[str, list[Frame]] = {}

    async def read(session_id: str) -> None:
        logs[session_id] = await read_log(other.url, session_id)

    # At the same time: each waits until no other node can have more.
    async with anyio.create_task_group() as tasks:
        for each in sent:
            tasks.start_soon(read, each["sessionId"])
    for each in sent:
        events = logs[each["sessionId"]]
        assert [int(event["cursor"]) for event in events] == list(range(1, len(events) + 1))
        ends = [event for event in events if event["type"] == "turn_response"]
        assert [end["data"]["turnId"] for end in ends] == [each["turnId"]]
        answers = [event["data"]["content"] for event in events if event["type"] == "assistant_message"]
        assert "".join(map(str, answers)).count(text_of(each["text"])) == 1
    calls = rows(url, "SELECT key FROM ledger")
    assert len(calls) == len(set(calls))
    assert rows(url, "SELECT 1 FROM sessions WHERE runner IS NOT NULL OR tail_of IS NOT NULL") == []
    assert rows(url, "SELECT 1 FROM asked") == []


async def begin(server: Server) -> list[dict[str, Any]]:
    return [{**await ask(server, text), "text": text} for text in (f"number {number}" for number in range(SESSIONS))]


async def deltas_flow(url: str) -> None:
    """Returns in the middle of the answers: the model has been asked for each."""
    with anyio.fail_after(60):
        await until(lambda: rows(url, "SELECT count(*) FROM asked") == [(SESSIONS,)])
        await until(lambda: rows(url, "SELECT count(*) FROM journal")[0][0] > 8)


async def test_turns_of_a_killed_node_go_on_on_the_other_and_end_once(tmp_path: Path, database_url: str) -> None:
    async with open_nodes(tmp_path, database_url, "a", "b") as (a, b):
        sent = await begin(a)
        await deltas_flow(database_url)
        silences: list[float] = []
        with anyio.fail_after(90):
            async with anyio.create_task_group() as tasks:
                await tasks.start(measure_silence, b, sent, silences)
                await a.end(signal.SIGKILL)
        assert max(silences) < SILENCE_SECONDS
        await all_ended(database_url)
        await check(database_url, b, sent)
        assert {row[0] for row in rows(database_url, "SELECT attempts FROM turns")} == {1}
        # Each answer was cut off once: two calls were made for it, and both are billed.
        assert rows(database_url, "SELECT count(*) FROM ledger") == [(2 * SESSIONS,)]


async def test_a_node_that_is_stopped_lets_its_turns_go_and_the_other_goes_on_with_them(
    tmp_path: Path, database_url: str
) -> None:
    async with open_nodes(tmp_path, database_url, "a", "b") as (a, b):
        sent = await begin(a)
        await deltas_flow(database_url)
        silences: list[float] = []
        with anyio.fail_after(90):
            async with anyio.create_task_group() as tasks:
                await tasks.start(measure_silence, b, sent, silences)
                assert await a.end(signal.SIGTERM) == 0
        assert max(silences) < SILENCE_SECONDS
        await all_ended(database_url)
        await check(database_url, b, sent)
        # They were put off, and did not die.
        assert {row[0] for row in rows(database_url, "SELECT attempts FROM turns")} == {0}


async def test_a_node_that_was_frozen_and_thaws_stores_nothing_and_ends(tmp_path: Path, database_url: str) -> None:
    async with open_nodes(tmp_path, database_url, "a", "b") as (a, b):
        sent = await begin(a)
        await deltas_flow(database_url)
        a.send(signal.SIGSTOP)
        await all_ended(database_url)
        a.send(signal.SIGCONT)
        with anyio.fail_after(60):
            await a.died()
        await check(database_url, b, sent)
