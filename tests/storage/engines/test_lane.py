"""Threads of a database serve tenants in turn; heavy reads are few, and end."""

import threading
from collections.abc import AsyncGenerator, Generator
from contextlib import contextmanager
from pathlib import Path

import anyio
import pytest
from anyio import wait_all_tasks_blocked
from anyio.lowlevel import checkpoint

from agentvm.errors.bounds import QueryTimeout
from agentvm.model.ids import TenantId
from agentvm.storage.engines import lane
from agentvm.storage.engines.sqlite.connection import SqliteConnection
from agentvm.storage.engines.sqlite.database import SqliteDatabase, Work, open_database

A, B, C = TenantId("tnt_a"), TenantId("tnt_b"), TenantId("tnt_c")

ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT max(i) FROM n"


class Gate:
    """Holds threads inside jobs until it is opened."""

    def __init__(self) -> None:
        self.inside = 0
        self._opened = threading.Event()

    def __call__(self, connection: SqliteConnection) -> None:
        self.inside += 1
        assert self._opened.wait(60)

    def open(self) -> None:
        self._opened.set()

    async def wait_inside(self, count: int) -> None:
        while self.inside < count:
            await checkpoint()


@contextmanager
def at_the_end(*gates: Gate) -> Generator[None]:
    try:
        yield
    finally:
        for gate in gates:
            gate.open()


@pytest.fixture
async def database(tmp_path: Path) -> AsyncGenerator[SqliteDatabase]:
    async with open_database(tmp_path / "a.db", readers=4) as opened:
        yield opened


def note(told: list[str], name: str) -> Work[None]:
    return lambda connection: told.append(name)


def one(connection: SqliteConnection) -> int:
    return len(connection.fetch("SELECT 1"))


def endless(connection: SqliteConnection) -> int:
    return len(connection.fetch(ENDLESS))


async def test_a_tenant_that_blocks_every_reader_it_gets_leaves_two_to_others(database: SqliteDatabase) -> None:
    gate = Gate()
    with anyio.fail_after(60), at_the_end(gate):
        async with anyio.create_task_group() as tasks:
            for _ in range(20):
                tasks.start_soon(database.of(A).read, gate)
            await gate.wait_inside(2)
            tasks.start_soon(lambda: database.of(B).read(gate, heavy=True))
            await gate.wait_inside(3)
            assert [await database.of(C).read(one), await database.read(one)] == [1, 1]
            assert gate.inside == 3
            gate.open()


async def test_reads_one_after_the_other_are_served_by_one_connection(database: SqliteDatabase) -> None:
    with anyio.fail_after(60):
        served = {await database.read(id) for _ in range(8)}
    assert len(served) == 1


async def test_a_tenant_has_one_heavy_read_at_a_time_and_its_light_ones_pass(database: SqliteDatabase) -> None:
    gate = Gate()
    with anyio.fail_after(60), at_the_end(gate):
        async with anyio.create_task_group() as tasks:
            for number in range(5):
                of_server = number % 2 == 0
                tasks.start_soon(lambda own: database.of(A).read(gate, heavy=not own, unhurried=own), of_server)
            await gate.wait_inside(1)
            await wait_all_tasks_blocked()
            assert await database.of(A).read(one) == 1
            assert gate.inside == 1
            gate.open()
    assert gate.inside == 5


async def test_heavy_reads_of_all_tenants_leave_threads_to_light_ones(database: SqliteDatabase) -> None:
    gate = Gate()
    with anyio.fail_after(60), at_the_end(gate):
        async with anyio.create_task_group() as tasks:
            for number in range(6):
                tasks.start_soon(lambda tenant: database.of(tenant).read(gate, heavy=True), TenantId(f"tnt_{number}"))
            await gate.wait_inside(2)
            await wait_all_tasks_blocked()
            assert await database.of(TenantId("tnt_5")).read(one) == 1
            assert gate.inside == 2
            gate.open()
    assert gate.inside == 6


async def test_readers_serve_tenants_in_turn(tmp_path: Path) -> None:
    gate, told = Gate(), list[str]()
    with anyio.fail_after(60), at_the_end(gate):
        async with open_database(tmp_path / "b.db", readers=1) as database, anyio.create_task_group() as tasks:
            tasks.start_soon(database.read, gate)
            await gate.wait_inside(1)
            for number in range(4):
                tasks.start_soon(database.of(A).read, note(told, f"a{number}"))
            await wait_all_tasks_blocked()
            tasks.start_soon(database.of(B).read, note(told, "b0"))
            await wait_all_tasks_blocked()
            gate.open()
    assert told == ["a0", "b0", "a1", "a2", "a3"]


async def test_a_heavy_read_is_interrupted_and_its_thread_serves_the_next(
    database: SqliteDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lane, "HEAVY_CPU_SECONDS", 0.0)
    with anyio.fail_after(60):
        with pytest.raises(QueryTimeout):
            await database.of(A).read(endless, heavy=True)
        assert await database.of(A).read(one, heavy=True) == 1


async def test_an_unhurried_read_takes_as_long_as_it_needs(database: SqliteDatabase, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lane, "HEAVY_CPU_SECONDS", 0.0)
    monkeypatch.setattr(lane, "HEAVY_WALL_SECONDS", 0.0)
    long = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 100000) SELECT count(*) FROM n"

    def count(connection: SqliteConnection) -> int:
        return int(connection.fetch(long)[0][0])

    with anyio.fail_after(60):
        with pytest.raises(QueryTimeout):
            await database.of(A).read(count, heavy=True)
        assert await database.of(A).read(count, unhurried=True) == 100_000


async def test_a_read_that_waits_too_long_for_the_disk_is_interrupted(
    database: SqliteDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lane, "HEAVY_WALL_SECONDS", 0.0)
    with anyio.fail_after(60), pytest.raises(QueryTimeout):
        await database.of(A).read(endless, heavy=True)


@pytest.mark.parametrize("heavy", [False, True])
async def test_a_cancelled_read_is_interrupted(database: SqliteDatabase, heavy: bool) -> None:
    begun = threading.Event()

    def read(connection: SqliteConnection) -> int:
        begun.set()
        return endless(connection)

    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(lambda: database.of(A).read(read, heavy=heavy))
            while not begun.is_set():
                await checkpoint()
            tasks.cancel_scope.cancel()
        # Every thread is free again, or this would wait for ever.
        gate = Gate()
        with at_the_end(gate):
            async with anyio.create_task_group() as tasks:
                for tenant in (A, A, B, C):
                    tasks.start_soon(database.of(tenant).read, gate)
                await gate.wait_inside(4)
                gate.open()


async def test_a_cancelled_read_that_waited_is_never_begun_and_gives_its_place_back(tmp_path: Path) -> None:
    gate, told = Gate(), list[str]()
    with anyio.fail_after(60), at_the_end(gate):
        async with open_database(tmp_path / "b.db", readers=1, capacity=2) as database:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(database.read, gate)
                await gate.wait_inside(1)
                async with anyio.create_task_group() as waiting:
                    waiting.start_soon(database.read, note(told, "cancelled"))
                    await wait_all_tasks_blocked()
                    waiting.cancel_scope.cancel()
                gate.open()
            assert await database.read(one) == 1
    assert told == []


async def test_a_small_write_is_committed_in_the_next_batch_whatever_another_tenant_has_queued(
    database: SqliteDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lane, "BATCH_SECONDS", 0.0)
    gate, told = Gate(), list[str]()

    def hook() -> bool:
        told.append("commit")
        return False

    def put(name: str) -> Work[None]:
        def work(connection: SqliteConnection) -> None:
            connection.execute(
                "INSERT INTO containers (tenant_id, container_id, created_at, updated_at) VALUES ('t', ?, 1, 1)", (name,)
            )
            told.append(name)

        return work

    with anyio.fail_after(60), at_the_end(gate):
        await database.write(lambda connection: connection.raw.set_commit_hook(hook))
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(database.write, gate)
            await gate.wait_inside(1)
            for number in range(500):
                tasks.start_soon(database.of(A).write, put(f"a{number}"))
            await wait_all_tasks_blocked()
            tasks.start_soon(database.of(B).write, put("b"))
            await wait_all_tasks_blocked()
            told.clear()
            gate.open()
    assert told[told.index("a0") :][:3] == ["a0", "b", "commit"]


async def test_one_tenant_alone_still_shares_commits(database: SqliteDatabase, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lane, "BATCH_SECONDS", 0.0)
    gate, commits = Gate(), list[int]()

    def hook() -> bool:
        commits.append(1)
        return False

    with anyio.fail_after(60), at_the_end(gate):
        await database.write(lambda connection: connection.raw.set_commit_hook(hook))
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(database.of(A).write, gate)
            await gate.wait_inside(1)
            commits.clear()
            for _ in range(100):
                tasks.start_soon(database.of(A).write, lambda connection: connection.fetch("DELETE FROM containers"))
            await wait_all_tasks_blocked()
            gate.open()
    assert len(commits) == 2


async def test_one_tenant_that_fills_its_queue_leaves_room_for_another(tmp_path: Path) -> None:
    gate, told = Gate(), list[str]()
    with anyio.fail_after(60), at_the_end(gate):
        async with open_database(tmp_path / "b.db", capacity=4) as database, anyio.create_task_group() as tasks:
            tasks.start_soon(database.of(A).write, gate)
            await gate.wait_inside(1)
            for number in range(20):
                tasks.start_soon(database.of(A).write, note(told, f"a{number}"))
            await wait_all_tasks_blocked()
            tasks.start_soon(database.of(B).write, note(told, "b"))
            await wait_all_tasks_blocked()
            gate.open()
    assert told.index("b") <= 2
    assert len(told) == 21


async def test_heavy_reads_of_a_tenant_rest_in_between_while_another_is_about(
    database: SqliteDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lane, "REST_FACTOR", 1e9)
    monkeypatch.setattr(lane, "REST_MAX_SECONDS", 0.2)
    told: list[str] = []
    with anyio.fail_after(60):
        await database.of(B).read(one)
        await database.of(A).read(note(told, "a0"), heavy=True)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(lambda: database.of(A).read(note(told, "a1"), heavy=True))
            await wait_all_tasks_blocked()
            # Others, and its own light reads, do not wait for it.
            await database.of(B).read(note(told, "b"), heavy=True)
            await database.of(A).read(note(told, "light"))
    assert told == ["a0", "b", "light", "a1"]


async def test_a_tenant_that_is_alone_need_not_rest(database: SqliteDatabase, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lane, "REST_FACTOR", 1e9)
    monkeypatch.setattr(lane, "REST_MAX_SECONDS", 1e9)
    with anyio.fail_after(60):
        # What the server itself does is nobody's neighbour.
        await database.read(one)
        for _ in range(3):
            assert await database.of(A).read(one, heavy=True) == 1


async def test_leaving_waits_for_no_rest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lane, "REST_FACTOR", 1e9)
    monkeypatch.setattr(lane, "REST_MAX_SECONDS", 1e9)
    told: list[str] = []
    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks, open_database(tmp_path / "b.db") as database:
            await database.of(B).read(one)
            await database.of(A).read(one, heavy=True)
            tasks.start_soon(lambda: database.of(A).read(note(told, "a"), heavy=True))
            await wait_all_tasks_blocked()
            assert told == []
    assert told == ["a"]
