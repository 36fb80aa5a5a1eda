"""PostgreSQL fails in the middle of turns, and it or a synchronous standby is back: nothing is lost, and nobody is dead."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import anyio
import anyio.to_thread
import psycopg
import pytest
from tests.cluster.chaos_servers import Infrastructure
from tests.cluster.test_adoption import SILENCE_SECONDS, all_ended, begin, check, deltas_flow, measure_silence, open_nodes, rows
from tests.provision import Unavailable
from tests.provision.replication import Replicated, replicated


@pytest.fixture
def servers() -> Iterator[Replicated]:
    try:
        with replicated() as running:
            with psycopg.connect(running.url(), autocommit=True) as connection:
                connection.execute("CREATE DATABASE avm")
            yield running
    except Unavailable as error:
        pytest.skip(f"PostgreSQL with a standby: {error}")


@pytest.fixture
def restartable() -> Iterator[Infrastructure]:
    try:
        with ExitStack() as stack:
            yield Infrastructure(stack)
    except Unavailable as error:
        pytest.skip(f"PostgreSQL and NATS: {error}")


async def test_turns_go_on_after_the_database_has_crashed_and_is_back(tmp_path: Path, restartable: Infrastructure) -> None:
    url, silences = restartable.url, list[float]()
    async with open_nodes(tmp_path, url, "a", "b") as (a, b):
        sent = await begin(a)
        await deltas_flow(url)
        with anyio.fail_after(120):
            async with anyio.create_task_group() as tasks:
                for node in (a, b):
                    await tasks.start(measure_silence, node, sent[:1], silences)
                await anyio.to_thread.run_sync(restartable.crash_database)
                gone = anyio.current_time()
                await anyio.to_thread.run_sync(restartable.start_database)
                away = anyio.current_time() - gone
        await all_ended(url)
        await check(url, b, sent)
        assert {row[0] for row in rows(url, "SELECT attempts FROM turns")} == {0}
        assert rows(url, "SELECT state FROM nodes") == [("up",), ("up",)]
        # From the moment in which PostgreSQL answers again.
        assert max(silences) - away < SILENCE_SECONDS


async def test_turns_go_on_after_the_database_has_failed_over_to_a_synchronous_standby(
    tmp_path: Path, servers: Replicated
) -> None:
    url, silences = servers.url("avm"), list[float]()
    async with open_nodes(tmp_path, url, "a", "b") as (a, b):
        sent = await begin(a)
        await deltas_flow(url)
        with anyio.fail_after(120):
            async with anyio.create_task_group() as tasks:
                for node in (a, b):
                    await tasks.start(measure_silence, node, sent[:1], silences)
                await anyio.to_thread.run_sync(servers.fail_over)
                late = await begin(b)
        await all_ended(url)
        await check(url, b, [*sent, *late])
        # Nobody was declared dead, so no turn was begun again.
        assert {row[0] for row in rows(url, "SELECT attempts FROM turns")} == {0}
        assert rows(url, "SELECT state FROM nodes") == [("up",), ("up",)]
        assert max(silences) < SILENCE_SECONDS
