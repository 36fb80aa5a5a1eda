import os
import threading
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import anyio
import apsw
import pytest
from anyio import wait_all_tasks_blocked
from anyio.lowlevel import checkpoint

from agentvm.errors import ConstraintFailed, SessionNotFound, StoreFailed
from agentvm.storage.engines.sqlite.connection import SqliteConnection
from agentvm.storage.engines.sqlite.database import SqliteDatabase, Work, open_database


def put(name: str) -> Work[None]:
    def work(connection: SqliteConnection) -> None:
        connection.execute(
            "INSERT INTO containers (tenant_id, container_id, created_at, updated_at) VALUES ('t', ?, 1, 1)", (name,)
        )

    return work


def names(connection: SqliteConnection) -> list[str]:
    return [name for (name,) in connection.fetch("SELECT container_id FROM containers WHERE tenant_id = 't' ORDER BY position")]


def bug(connection: SqliteConnection) -> None:
    raise LookupError


class Gate:
    """Holds the writer's thread inside a job until it is opened."""

    def __init__(self) -> None:
        self._reached = threading.Event()
        self._opened = threading.Event()

    def __call__(self, connection: SqliteConnection) -> None:
        self._reached.set()
        assert self._opened.wait(60)

    def open(self) -> None:
        self._opened.set()

    async def wait_reached(self) -> None:
        while not self._reached.is_set():
            await checkpoint()


@contextmanager
def at_the_end(gate: Gate) -> Generator[None]:
    try:
        yield
    finally:
        gate.open()


def count_commits(counter: Counter[str]) -> Work[None]:
    def hook() -> bool:
        counter["commits"] += 1
        return False

    return lambda connection: connection.raw.set_commit_hook(hook)


async def test_writes_that_wait_together_share_one_commit(database: SqliteDatabase) -> None:
    counter: Counter[str] = Counter()
    await database.write(count_commits(counter))
    gate = Gate()
    with anyio.fail_after(60), at_the_end(gate):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(database.write, gate)
            await gate.wait_reached()
            for number in range(500):
                tasks.start_soon(database.write, put(f"c{number}"))
            await wait_all_tasks_blocked()
            gate.open()
        assert len(await database.read(names)) == 500
    # One for the hook's own job, one for the gate, one for all that waited behind it.
    assert counter["commits"] == 3


async def test_a_write_is_acknowledged_only_after_its_commit(database: SqliteDatabase) -> None:
    told: list[str] = []

    def hook() -> bool:
        told.append("commit")
        return False

    with anyio.fail_after(60):
        await database.write(lambda connection: connection.raw.set_commit_hook(hook))
        told.clear()
        await database.write(put("a"))
    told.append("acknowledged")
    assert told == ["commit", "acknowledged"]


async def test_one_failing_job_does_not_fail_its_neighbours(database: SqliteDatabase) -> None:
    gate, failures = Gate(), []

    def refuse(connection: SqliteConnection) -> None:
        put("refused")(connection)
        raise SessionNotFound("s")

    async def attempt(work: Work[None]) -> None:
        try:
            await database.write(work)
        except (StoreFailed, SessionNotFound) as error:
            failures.append(error)

    with anyio.fail_after(60), at_the_end(gate):
        async with anyio.create_task_group() as tasks:
            for work in (gate, put("a"), put("a"), refuse, put("\ud800"), put("b")):
                tasks.start_soon(attempt, work)
                await wait_all_tasks_blocked()
            gate.open()
        assert await database.read(names) == ["a", "b"]
    assert [type(error) for error in failures] == [ConstraintFailed, SessionNotFound, StoreFailed]
    assert [type(error.__cause__) for error in failures] == [apsw.ConstraintError, type(None), UnicodeEncodeError]


async def test_a_failed_commit_fails_the_whole_batch_and_the_next_one_succeeds(database: SqliteDatabase) -> None:
    refusing, failures = False, []

    async def attempt(name: str) -> None:
        with pytest.raises(StoreFailed) as caught:
            await database.write(put(name))
        failures.append(caught.value)

    with anyio.fail_after(60):
        await database.write(lambda connection: connection.raw.set_commit_hook(lambda: refusing))
        refusing = True
        async with anyio.create_task_group() as tasks:
            for name in ("a", "b"):
                tasks.start_soon(attempt, name)
        assert await database.read(names) == []
        refusing = False
        await database.write(put("c"))
        assert await database.read(names) == ["c"]
    assert len(set(map(id, failures))) == 2
    assert all(isinstance(error.__cause__, apsw.Error) for error in failures)


async def test_reads_do_not_wait_for_a_busy_writer(database: SqliteDatabase) -> None:
    gate = Gate()
    with anyio.fail_after(60), at_the_end(gate):
        await database.write(put("a"))
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(database.write, gate)
            await gate.wait_reached()
            assert await database.read(names) == ["a"]
            gate.open()


async def test_without_readers_the_writer_reads(tmp_path: Path) -> None:
    with anyio.fail_after(60):
        async with open_database(tmp_path / "a.db", readers=0) as database:
            await database.write(put("a"))
            assert await database.read(names) == ["a"]


async def test_a_reader_cannot_write(database: SqliteDatabase) -> None:
    with anyio.fail_after(60), pytest.raises(StoreFailed) as caught:
        await database.read(put("a"))
    assert isinstance(caught.value.__cause__, apsw.ReadOnlyError)


async def test_a_full_queue_makes_the_caller_wait_on_the_event_loop(tmp_path: Path) -> None:
    counter: Counter[str] = Counter()
    batches: list[int] = []
    gate = Gate()

    def put_and_note(name: str) -> Work[None]:
        def work(connection: SqliteConnection) -> None:
            put(name)(connection)
            batches.append(counter["commits"])

        return work

    with anyio.fail_after(60), at_the_end(gate):
        async with open_database(tmp_path / "a.db", capacity=4) as database:
            await database.write(count_commits(counter))
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(database.write, gate)
                await gate.wait_reached()
                for number in range(20):
                    tasks.start_soon(database.write, put_and_note(f"c{number}"))
                await wait_all_tasks_blocked()
                gate.open()
            assert len(await database.read(names)) == 20
    assert max(Counter(batches).values()) <= 4


async def test_a_cancelled_write_gives_its_place_back_and_may_still_commit(tmp_path: Path) -> None:
    gate = Gate()
    with anyio.fail_after(60), at_the_end(gate):
        async with open_database(tmp_path / "a.db", capacity=2) as database:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(database.write, gate)
                await gate.wait_reached()
                tasks.start_soon(database.write, put("cancelled"))
                await wait_all_tasks_blocked()
                tasks.cancel_scope.cancel()
            gate.open()
            async with anyio.create_task_group() as tasks:
                for name in ("a", "b", "c"):
                    tasks.start_soon(database.write, put(name))
            first, *others = await database.read(names)
            assert (first, sorted(others)) == ("cancelled", ["a", "b", "c"]), "writes at once are in no order"


async def test_leaving_finishes_what_was_accepted_and_refuses_what_was_not(tmp_path: Path) -> None:
    gate, refused = Gate(), []

    async def attempt(database: SqliteDatabase, name: str) -> None:
        try:
            await database.write(put(name))
        except StoreFailed:
            refused.append(name)

    with anyio.fail_after(60), at_the_end(gate):
        async with anyio.create_task_group() as tasks:
            async with open_database(tmp_path / "a.db", capacity=3) as database:
                tasks.start_soon(database.write, gate)
                await gate.wait_reached()
                for name in ("a", "b", "no room"):
                    tasks.start_soon(attempt, database, name)
                    await wait_all_tasks_blocked()
                threading.Timer(0, gate.open).start()
            await attempt(database, "late")
        async with open_database(tmp_path / "a.db") as database:
            assert await database.read(names) == ["a", "b"]
    assert sorted(refused) == ["late", "no room"]


async def test_leaving_while_cancelled_still_flushes_and_joins_the_threads(tmp_path: Path) -> None:
    with anyio.fail_after(60):
        with anyio.CancelScope() as scope:
            async with open_database(tmp_path / "a.db") as database:
                await database.write(put("a"))
                scope.cancel()
                await checkpoint()
        assert scope.cancelled_caught
        assert [thread.name for thread in threading.enumerate() if thread.name.startswith("sqlite-")] == []
        assert not (tmp_path / "a.db-wal").exists()
        async with open_database(tmp_path / "a.db") as database:
            assert await database.read(names) == ["a"]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.parametrize("lane", ["write", "read"])
async def test_a_bug_in_a_thread_leaves_nobody_waiting(tmp_path: Path, lane: str) -> None:
    with anyio.fail_after(60):
        async with open_database(tmp_path / "a.db", readers=1) as database:
            submit = database.write if lane == "write" else database.read
            for work in (bug, names):
                with pytest.raises(StoreFailed):
                    await submit(work)


@pytest.mark.parametrize("lane", ["write", "read"])
async def test_a_job_that_nests_too_deeply_fails_alone(tmp_path: Path, lane: str) -> None:
    def fall(connection: SqliteConnection) -> None:
        fall(connection)

    with anyio.fail_after(60):
        async with open_database(tmp_path / "a.db", readers=1) as database:
            submit = database.write if lane == "write" else database.read
            with pytest.raises(StoreFailed) as caught:
                await submit(fall)
            assert isinstance(caught.value.__cause__, RecursionError)
            await database.write(put("a"))
            assert await submit(names) == ["a"]


async def test_neighbours_of_a_job_that_nests_too_deeply_are_stored(database: SqliteDatabase) -> None:
    gate, failures = Gate(), []

    def fall(connection: SqliteConnection) -> None:
        put("lost")(connection)
        raise RecursionError

    async def attempt(work: Work[None]) -> None:
        try:
            await database.write(work)
        except StoreFailed as error:
            failures.append(error)

    with anyio.fail_after(60), at_the_end(gate):
        async with anyio.create_task_group() as tasks:
            for work in (gate, put("a"), fall, put("b")):
                tasks.start_soon(attempt, work)
                await wait_all_tasks_blocked()
            gate.open()
        assert await database.read(names) == ["a", "b"]
    assert len(failures) == 1


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
async def test_readers_serve_until_the_last_of_them_is_gone(tmp_path: Path) -> None:
    with anyio.fail_after(60):
        async with open_database(tmp_path / "a.db", readers=3) as database:
            await database.write(put("a"))
            for _ in range(2):
                with pytest.raises(StoreFailed, match="thread stopped"):
                    await database.read(bug)
                assert await database.read(names) == ["a"]
            with pytest.raises(StoreFailed, match="thread stopped"):
                await database.read(bug)
            with pytest.raises(StoreFailed, match="closed"):
                await database.read(names)
            await database.write(put("b"))
        async with open_database(tmp_path / "a.db") as database:
            assert await database.read(names) == ["a", "b"]


async def test_the_journal_is_synced_before_a_write_is_acknowledged(database: SqliteDatabase) -> None:
    with anyio.fail_after(60):
        assert await database.write(lambda connection: connection.raw.pragma("journal_mode")) == "wal"
        assert await database.write(lambda connection: connection.raw.pragma("synchronous")) == 2
        assert await database.write(lambda connection: connection.raw.pragma("foreign_keys")) == 1


async def test_a_file_that_is_no_database_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.db").write_bytes(b"not a database, but long enough to be read as one" * 20)
    with anyio.fail_after(60), pytest.raises(StoreFailed):
        async with open_database(tmp_path / "a.db"):
            pass


async def test_a_file_in_a_directory_that_is_missing_is_refused(tmp_path: Path) -> None:
    with anyio.fail_after(60), pytest.raises(StoreFailed):
        async with open_database(tmp_path / "missing" / "a.db"):
            pass


def open_files() -> set[str]:
    return {os.path.realpath(f"/proc/self/fd/{number}") for number in os.listdir("/proc/self/fd")}


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs Linux")
async def test_a_large_job_leaves_no_copy_of_its_pages_in_a_file_outside_of_the_database(tmp_path: Path) -> None:
    def work(connection: SqliteConnection) -> set[str]:
        before = open_files()
        for _ in range(2):
            connection.execute("SAVEPOINT inner")
            connection.execute("UPDATE containers SET updated_at = updated_at + 1")
        return {file for file in open_files() - before if "(deleted)" in file}

    async with open_database(tmp_path / "a.db") as database:
        await database.write(lambda connection: [put(f"c{number}" + "x" * 100)(connection) for number in range(2_000)])
        assert await database.write(work) == set()
