"""Disk — the database on simulated hardware: slow, full, broken, or cut off in the middle of a commit.

SQLite itself is real, and so is the code that speaks to it; only the threads are missing. What was committed survives the
process; a process that is cut off can neither read nor write any more.
"""

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

import apsw

from agentvm.errors import StoreFailed
from agentvm.model.ids import DEFAULT_TENANT, TenantId
from agentvm.storage.engines import lane
from agentvm.storage.engines.sqlite.database import LaneJob, SqliteDatabase, Work, _connect, commit_together, read_one
from tests.simulation.loop import Dice

T = TypeVar("T")

FAILURES: dict[str, Callable[[], apsw.Error]] = {
    "full": lambda: apsw.FullError("database or disk is full"),
    "broken": lambda: apsw.IOError("disk I/O error"),
}


class Disk:
    """Outlives the processes that use it."""

    def __init__(self, dice: Dice) -> None:
        self.dice = dice
        self.connection = _connect(None, 0)[0]
        self.connection.raw.set_commit_hook(self._refuse)
        self.failing: str | None = None
        """What every commit fails with."""
        self.unreadable = 0.0
        """The part of reads that fail."""
        self.slow = False
        self.away = False
        """Whether no node reaches it, as while a server for databases is down."""
        self.unknown = 0.0
        """The part of commits of which a node hears late whether they were made."""
        self.commits = 0
        self.failed = 0
        self.on_commit: Callable[[], bool] = lambda: True
        """Asked at each commit before it is made: whether the process lives to see it."""
        self.after_commit: Callable[[], bool] = lambda: True
        """The same right after it is made, before the process hears of it."""
        self.lies = False
        """Acknowledges commits that a crash takes back: a disk no server can live with, to try the checker."""
        self._images: list[bytes] = []

    def close(self) -> None:
        """Lets go of the hooks, which the garbage collector does not see: else the whole history stays in memory."""
        self.connection.raw.close()

    def heal(self) -> None:
        self.failing, self.unreadable, self.slow, self.away, self.unknown = None, 0.0, False, False, 0.0

    def delay(self) -> float:
        """What one commit takes."""
        return 0.5 if self.slow else self.dice.uniform(0.0001, 0.004)

    def commit(self, jobs: list[LaneJob[Any]]) -> None:
        self.commits += 1
        if self.lies:
            self._images = [*self._images[-2:], self.connection.raw.serialize("main")]
        commit_together(self.connection, jobs)
        self.failed += any(job.error is not None for job in jobs)

    def lose(self) -> None:
        """The process is cut off; an honest disk has nothing to lose."""
        if self._images:
            self.connection.raw.deserialize("main", self._images[0])
            self._images.clear()

    def pay_in(self, amount: int) -> None:
        """The tenant is prepaid with so many nano-USD."""
        self.connection.execute(
            "INSERT INTO credits (tenant_id, reference, at, amount, actor) VALUES (?, 'first', 0, ?, 'operator')",
            (DEFAULT_TENANT, amount),
        )

    def query(self, sql: str, values: tuple[str | int, ...] = ()) -> list[tuple[Any, ...]]:
        """For the checks after the end."""
        return self.connection.fetch(sql, values)

    def _refuse(self) -> bool:
        if self.failing is not None:
            raise FAILURES[self.failing]()
        return False


class SimulatedDatabase(SqliteDatabase):
    """What one process has of the disk."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self._loop = asyncio.get_running_loop()
        self._waiting: list[LaneJob[Any]] = []
        self._committing: list[LaneJob[Any]] = []
        self._alive = True

    def of(self, tenant_id: TenantId | None) -> SqliteDatabase:
        return self

    async def write(self, work: Work[T]) -> T:
        job = self._job(work)
        self._waiting.append(job)
        if not self._committing:
            self._begin()
        return await job.future

    async def read(self, work: Work[T], *, heavy: bool = False, unhurried: bool = False) -> T:
        job = self._job(work)
        dice = self._disk.dice
        if dice.happens(0.5):
            self._loop.call_soon(self._read, job)
        else:
            self._loop.call_later(dice.uniform(0.0, 0.002), self._read, job)
        return await job.future

    def cut_off(self) -> None:
        """The process has died: whatever it still tries comes to nothing."""
        self._alive = False
        self._disk.lose()
        lost, self._committing, self._waiting = [*self._committing, *self._waiting], [], []
        for job in lost:
            self._fail(job)

    def _job(self, work: Work[T]) -> LaneJob[T]:
        if not self._alive:
            raise StoreFailed("The process is dead")
        return lane.LaneJob(work, self._loop.create_future())

    def _begin(self) -> None:
        self._committing, self._waiting = self._waiting, []
        self._loop.call_later(self._disk.delay(), self._commit)

    def _commit(self) -> None:
        if not self._alive or not self._disk.on_commit():
            return
        self._disk.commit(self._committing)
        if not self._disk.after_commit():
            return
        done, self._committing = self._committing, []
        for job in done:
            job.deliver()
        if self._waiting:
            self._begin()

    def _read(self, job: LaneJob[Any]) -> None:
        if not self._alive:
            self._fail(job)
            return
        if self._disk.unreadable and self._disk.dice.happens(self._disk.unreadable):
            job.fail("The database could not be read", apsw.IOError("disk I/O error"))
        else:
            read_one(self._disk.connection, (job,))
        job.deliver()

    @staticmethod
    def _fail(job: LaneJob[Any]) -> None:
        job.error = StoreFailed("The process is dead")
        job.deliver()
