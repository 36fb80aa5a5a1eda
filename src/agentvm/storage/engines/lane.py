"""Lane — the jobs that wait for a database's threads, and the threads that serve them, tenant by tenant.

Theory of operation. Jobs wait in a fair queue; a thread that is free is handed the next job that may run, so no thread is
woken for nothing. Where there are several threads (readers):

- A tenant occupies all threads but two, at most, so the others find one for a heavy job and one for light ones. - A heavy job
  (a search, a long history, a page of an export) waits in a queue of its own, so it delays no light one. A tenant has one heavy
  job running at a time, and all tenants together leave two threads to the light ones. - After a heavy job its tenant's next one
  waits twice as long as it took, if other tenants are about: so heavy jobs of one tenant take a third of a processor at most,
  and most of the time the others notice nothing of them. - A heavy job is stopped when it has used `HEAVY_CPU_SECONDS` of a
  processor or `HEAVY_WALL_SECONDS` have passed, and any read when its caller is cancelled, by those engines that can ask within
  a statement whether to continue. An unhurried job is a heavy job of the server itself, without a time limit.

The one thread of the writer takes a batch at a time. It continues while there are jobs, but once it contains jobs of two
tenants only for `BATCH_SECONDS`, so that small writes do not wait for large ones of others.
"""

import asyncio
import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from queue import SimpleQueue
from typing import Generic, Protocol, TypeVar

import anyio
import msgspec

from agentvm.errors import AgentVMError, RecordUnreadable, StoreFailed
from agentvm.errors.bounds import QueryTimeout
from agentvm.model.ids import TenantId
from agentvm.sharing.fair_queue import FairQueue
from agentvm.sharing.fair_slots import FairSlots

T = TypeVar("T")


class LaneConnection(Protocol):
    """A connection of an engine, as its thread uses it."""

    def watch(self, is_over: Callable[[], bool], /) -> None:
        """From now on the engine checks, within statements if it can, whether the job is cancelled."""

    def close(self) -> None: ...


C = TypeVar("C", bound=LaneConnection)
Work = Callable[[C], T]


class StatementEnded(Exception):
    """The engine has ended a statement because its caller was cancelled, or because it took too long."""


BATCH_SECONDS = 0.02
HEAVY_CPU_SECONDS = 2.0
HEAVY_WALL_SECONDS = 10.0
REST_FACTOR = 2.0
REST_MAX_SECONDS = 1.0
ACTIVE_SECONDS = 1.0
"""A tenant is about when its last job came less than this long ago."""


class LaneJob(Generic[C, T]):
    """One piece of work, whose outcome the thread writes and the event loop hands to the waiter."""

    __slots__ = ("apart", "begun", "error", "future", "heavy", "is_bounded", "result", "tenant_id", "work")

    def __init__(
        self,
        work: Work[C, T],
        future: asyncio.Future[T],
        tenant_id: TenantId | None = None,
        *,
        heavy: bool = False,
        unhurried: bool = False,
        apart: bool = False,
    ) -> None:
        self.work = work
        self.future = future
        self.tenant_id = tenant_id
        self.heavy = heavy or unhurried
        self.is_bounded = heavy and not unhurried
        self.apart = apart
        """Whether the job runs outside of a transaction."""
        self.begun = 0.0
        self.result: T
        self.error: AgentVMError | None = None

    def fail(self, complaint: str, cause: BaseException) -> None:
        if isinstance(cause, AgentVMError):
            self.error = cause
        elif isinstance(cause, StatementEnded):
            self.error = QueryTimeout(
                "It takes too long to find this; ask for less: fewer or longer words, one session or container, a shorter time"
            )
        else:
            # One exception each: waiters in different tasks would otherwise share a traceback.
            kind = RecordUnreadable if isinstance(cause, msgspec.DecodeError) else StoreFailed
            self.error = kind(f"{complaint}: {cause}")
            self.error.__cause__ = cause

    def deliver(self) -> None:
        if self.future.done():
            return
        if self.error is not None:
            self.future.set_exception(self.error)
        elif hasattr(self, "result"):
            self.future.set_result(self.result)
        else:
            self.future.set_exception(StoreFailed("The database thread stopped; see the log of the server"))


Serve = Callable[[C, Iterable[LaneJob[C, object]]], None]
"""Runs the jobs that it is given, each once, and leaves their outcomes in them."""


class _Worker(Generic[C]):
    """One thread. Jobs arrive through its inbox; None ends it."""

    __slots__ = ("connection", "cpu_until", "inbox", "job", "thread", "wall_until")

    def __init__(self, connection: C) -> None:
        self.connection = connection
        self.inbox: SimpleQueue[LaneJob[C, object] | None] = SimpleQueue()
        self.thread: threading.Thread
        self.job: LaneJob[C, object] | None = None
        self.cpu_until = self.wall_until = 0.0

    def watch(self) -> None:
        self.connection.watch(self._is_over)

    def begin(self, job: LaneJob[C, object]) -> None:
        self.cpu_until = time.thread_time() + HEAVY_CPU_SECONDS
        job.begun = time.monotonic()
        self.wall_until = job.begun + HEAVY_WALL_SECONDS
        self.job = job

    def _is_over(self) -> bool:
        job = self.job
        if job is None:
            return False
        return job.future.cancelled() or (
            job.is_bounded and (time.thread_time() > self.cpu_until or time.monotonic() > self.wall_until)
        )


class Lane(Generic[C]):
    """Threads with a connection each, and the jobs that wait for them. Used from the event loop that made it."""

    def __init__(self, serve: Serve[C], connections: Sequence[C], *, name: str, batch: int, capacity: int, reads: bool) -> None:
        self._serve = serve
        self._batch = batch
        self._reads = reads
        self._loop = asyncio.get_running_loop()
        self._room = FairSlots(capacity, share=max(1, capacity // 2))
        self._lock = threading.Lock()
        # Not bounded as such: `_room` bounds both.
        self._light: FairQueue[TenantId | None, LaneJob[C, object]] = FairQueue()
        self._heavy: FairQueue[TenantId | None, LaneJob[C, object]] = FairQueue()
        self._running: Counter[TenantId | None] = Counter()
        self._running_heavy: set[TenantId | None] = set()
        self._resting: set[TenantId | None] = set()
        # The two tenants that came last, and when.
        self._about: OrderedDict[TenantId | None, float] = OrderedDict()
        # Of one tenant, and heavy ones of all; a single thread serves everybody.
        self._most = max(1, len(connections) - 2)
        self._prefer_heavy = False
        self._closed = self._stopping = False
        self._stopped = anyio.Event()
        self._workers = [_Worker(connection) for connection in connections]
        self._alive = len(self._workers)
        self._idle = list(self._workers)
        for number, worker in enumerate(self._workers):
            # Daemons, because a process that dies without leaving the context must not hang; a database survives that.
            worker.thread = threading.Thread(target=self._run, args=(worker,), name=f"{name}-{number}", daemon=True)
            worker.thread.start()

    @property
    def waiting(self) -> int:
        """Jobs that no thread has taken yet."""
        return len(self._light) + len(self._heavy)

    async def submit(
        self,
        work: Work[C, T],
        tenant_id: TenantId | None,
        *,
        heavy: bool = False,
        unhurried: bool = False,
        apart: bool = False,
    ) -> T:
        held = await self._room.acquire(tenant_id)
        if self._closed:
            held.release()
            raise StoreFailed("The database is closed")
        future: asyncio.Future[T] = self._loop.create_future()
        job: LaneJob[C, T] = LaneJob(work, future, tenant_id, heavy=heavy, unhurried=unhurried, apart=apart)
        queue = self._heavy if job.heavy and self._reads else self._light
        with self._lock:
            queue.put(tenant_id, job)  # type: ignore[arg-type]  # jobs of all result types share the queue
            self._note(tenant_id)
            self._hand_out()
        try:
            return await job.future
        except asyncio.CancelledError:
            # A write that was queued is committed; nobody misses a read.
            if self._reads:
                with self._lock:
                    dropped = queue.discard(tenant_id, job)  # type: ignore[arg-type]  # as above
                if dropped:
                    self._room.release(tenant_id)
            raise

    def refuse(self) -> None:
        """From now on no work is accepted."""
        self._closed = True

    async def aclose(self) -> None:
        """Finishes accepted jobs, then ends the threads; not interruptible, because half a shutdown is none."""
        self.refuse()
        with anyio.CancelScope(shield=True):
            with self._lock:
                self._stopping = True
                self._resting.clear()
                self._hand_out()
            await self._stopped.wait()
        for worker in self._workers:
            worker.thread.join()

    def _run(self, worker: _Worker[C]) -> None:
        done: list[LaneJob[C, object]] = []
        try:
            if self._reads:
                worker.watch()
            job = worker.inbox.get()
            while job is not None:
                done = []
                self._serve(worker.connection, self._jobs(worker, job, done))
                job = self._finish(worker, done)
                self._loop.call_soon_threadsafe(self._deliver, done)
                done = []
                if job is None:
                    job = worker.inbox.get()
        finally:
            try:
                worker.connection.close()
            finally:
                self._loop.call_soon_threadsafe(self._thread_ended, worker, done)

    def _jobs(
        self, worker: _Worker[C], first: LaneJob[C, object], done: list[LaneJob[C, object]]
    ) -> Iterator[LaneJob[C, object]]:
        """The jobs of one batch, beginning with `first`; each is added to `done` before it is run."""
        until = time.monotonic() + BATCH_SECONDS
        # No more than waited when it began, or a tenant that writes on and on would keep the first waiting for the last.
        most = min(self._batch, 1 + self.waiting)
        job: LaneJob[C, object] | None = first
        tenants = set()
        while job is not None:
            done.append(job)
            tenants.add(job.tenant_id)
            worker.begin(job)
            yield job
            worker.job = None
            if len(done) == most or (len(tenants) > 1 and time.monotonic() >= until):
                return
            with self._lock:
                job = self._pick()

    def _finish(self, worker: _Worker[C], done: Sequence[LaneJob[C, object]]) -> LaneJob[C, object] | None:
        """The next job of the thread; None when it is to wait for its inbox."""
        with self._lock:
            for job in done:
                self._ended(job)
            following = self._pick()
            if following is None:
                self._idle.append(worker)
            # What ended may have been in the way of more than one.
            self._hand_out()
            return following

    def _hand_out(self) -> None:
        """Under the lock: gives jobs that may run to threads that have none."""
        # The one that was busy last first: its connection has pages of the file in memory.
        for worker in self._idle[::-1]:
            job = self._pick()
            if job is not None:
                self._idle.remove(worker)
                worker.inbox.put(job)
            elif self._stopping and not self.waiting:
                self._idle.remove(worker)
                worker.inbox.put(None)

    def _pick(self) -> LaneJob[C, object] | None:
        """Under the lock: the next job that may run."""
        queues = (self._light, self._heavy)
        for queue in reversed(queues) if self._prefer_heavy else queues:
            turn = queue.take(self._may_run)
            if turn is not None:
                tenant_id, job = turn
                self._running[tenant_id] += 1
                if queue is self._heavy:
                    self._running_heavy.add(tenant_id)
                # In turn, so that neither keeps the other waiting for ever.
                self._prefer_heavy = queue is self._light
                return job
        return None

    def _may_run(self, tenant_id: TenantId | None, job: LaneJob[C, object]) -> bool:
        if not self._reads:
            return True
        if job.heavy and (
            tenant_id in self._running_heavy or tenant_id in self._resting or len(self._running_heavy) >= self._most
        ):
            return False
        return self._running[tenant_id] < self._most

    def _ended(self, job: LaneJob[C, object]) -> None:
        self._running[job.tenant_id] -= 1
        if not self._running[job.tenant_id]:
            del self._running[job.tenant_id]
        if job.heavy and self._reads:
            self._running_heavy.discard(job.tenant_id)
            self._rest(job)

    def _note(self, tenant_id: TenantId | None) -> None:
        self._about[tenant_id] = time.monotonic()
        self._about.move_to_end(tenant_id)
        if len(self._about) > 2:
            self._about.popitem(last=False)

    def _rest(self, job: LaneJob[C, object]) -> None:
        """Under the lock, from any thread: the tenant's next heavy job waits, unless no other tenant waits."""
        now = time.monotonic()
        others = (at for tenant_id, at in self._about.items() if tenant_id not in (job.tenant_id, None))
        if self._stopping or not any(now - at < ACTIVE_SECONDS for at in others):
            return
        seconds = min(REST_FACTOR * (now - job.begun), REST_MAX_SECONDS)
        self._resting.add(job.tenant_id)
        self._loop.call_soon_threadsafe(self._loop.call_later, seconds, self._rested, job.tenant_id)

    def _rested(self, tenant_id: TenantId | None) -> None:
        with self._lock:
            self._resting.discard(tenant_id)
            self._hand_out()

    def _deliver(self, jobs: Sequence[LaneJob[C, object]]) -> None:
        for job in jobs:
            self._room.release(job.tenant_id)
            job.deliver()

    def _thread_ended(self, worker: _Worker[C], unfinished: Sequence[LaneJob[C, object]]) -> None:
        with self._lock:
            for job in unfinished:
                self._ended(job)
            self._alive -= 1
            if worker in self._idle:
                self._idle.remove(worker)
            left: list[LaneJob[C, object]] = []
            if not self._alive:
                self._closed = True
                for queue in (self._light, self._heavy):
                    while (queued := queue.take()) is not None:
                        left.append(queued[1])
            else:
                self._hand_out()
        self._deliver(unfinished)
        self._deliver(left)
        if not self._alive:
            self._stopped.set()
