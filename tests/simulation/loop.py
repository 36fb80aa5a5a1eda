"""Loop — an asyncio event loop whose time is virtual: it never waits, it jumps to the next timer."""

import asyncio
import gc
import random
from collections import deque
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from contextvars import Context, ContextVar
from heapq import heappop, heappush
from typing import Any, TypeVar

import anyio.lowlevel
import anyio.to_thread
import sniffio
from anyio._backends import _asyncio as backend

T = TypeVar("T")

LONGEST = 1_000_000.0
"""Virtual seconds after which a history that has not ended is taken for one that never will."""


NODE: ContextVar[int] = ContextVar("NODE", default=0)
"""The process to which what runs belongs; 0 for the world around them."""


class Stuck(AssertionError):
    """Everybody waits, and nothing will ever happen."""


class VirtualLoop(asyncio.BaseEventLoop):
    """Callbacks run in the order they became due; when none is, it is at once as late as the next timer.

    There is no selector: nothing comes from outside. What asyncio would check for people's mistakes is left out for speed.
    """

    def __init__(self) -> None:
        super().__init__()
        self._now = 0.0
        self._due: deque[asyncio.Handle] = deque()
        self._timers: list[tuple[float, int, asyncio.TimerHandle]] = []
        self._count = 0
        self._held: dict[int, list[asyncio.Handle]] = {}
        """What processes that are frozen would do."""

    def freeze(self, node: int) -> None:
        """Stops a process as SIGSTOP does: nothing of it runs, and its time goes on."""
        self._held.setdefault(node, [])

    def thaw(self, node: int) -> None:
        self._due.extend(self._held.pop(node, ()))

    def is_frozen(self, node: int) -> bool:
        return node in self._held

    def time(self) -> float:
        return self._now

    def call_soon(  # type: ignore[override]  # asyncio ties the arguments to the callback, which helps nobody here
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        handle = asyncio.Handle(callback, args, self, context)
        self._due.append(handle)
        return handle

    def call_later(  # type: ignore[override]
        self, delay: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        return self.call_at(self._now + delay, callback, *args, context=context)

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        handle = asyncio.TimerHandle(when, callback, args, self, context)
        self._count += 1
        # The number decides between two of the same time, so that handles are never compared.
        heappush(self._timers, (when, self._count, handle))
        return handle

    def _run_once(self) -> None:
        due, timers = self._due, self._timers
        if not due:
            while timers and timers[0][2].cancelled():
                heappop(timers)
            if not timers:
                raise Stuck("everybody waits, and no timer is set")
            self._now = max(self._now, timers[0][0])
            if self._now > LONGEST:
                raise Stuck(f"no end after {LONGEST:g} seconds")
        while timers and timers[0][0] <= self._now:
            due.append(heappop(timers)[2])
        for _ in range(len(due)):
            handle = due.popleft()
            if handle.cancelled():
                continue
            if self._held and (held := self._held.get(handle._context.get(NODE, 0))) is not None:  # type: ignore[attr-defined]
                held.append(handle)
            else:
                handle._run()


class _Ordered(dict[Any, None]):
    """A set that is iterated in the order of insertion."""

    def add(self, item: Any) -> None:
        self[item] = None

    def remove(self, item: Any) -> None:
        del self[item]

    def discard(self, item: Any) -> None:
        self.pop(item, None)


@contextmanager
def ordered_cancellation() -> Iterator[None]:
    """anyio cancels the tasks of a scope in the order of a set, that is, of memory addresses; here in the order they began."""
    original = backend.CancelScope.__init__

    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        self._tasks = _Ordered()
        self._child_scopes = _Ordered()

    backend.CancelScope.__init__ = init  # type: ignore[method-assign]
    try:
        yield
    finally:
        backend.CancelScope.__init__ = original  # type: ignore[method-assign]


@contextmanager
def garbage_on_demand() -> Iterator[None]:
    """Objects in cycles vanish when the history says so and not when the collector happens to run: weak references tell.

    What was there before is not looked at, and what came since is gone at the end: many histories need no more memory than one.
    """
    enabled = gc.isenabled()
    gc.disable()
    gc.freeze()
    try:
        yield
        gc.collect()
    finally:
        gc.unfreeze()
        if enabled:
            gc.enable()


@contextmanager
def no_threads() -> Iterator[None]:
    """Runs the work of threads on the loop: a thread's end would come from outside, at a moment that no seed decides."""

    async def run_here(work: Callable[..., T], *args: Any, **options: Any) -> T:
        await anyio.lowlevel.checkpoint()
        return work(*args)

    run_sync = anyio.to_thread.run_sync
    anyio.to_thread.run_sync = run_here  # type: ignore[assignment]
    try:
        yield
    finally:
        anyio.to_thread.run_sync = run_sync


@contextmanager
def named_library() -> Iterator[None]:
    """Says once that everything here is asyncio, also callbacks outside of tasks: to find it out for each wait costs time."""
    before = sniffio.thread_local.name
    sniffio.thread_local.name = "asyncio"
    try:
        yield
    finally:
        sniffio.thread_local.name = before


def run_virtual(main: Coroutine[Any, Any, T]) -> tuple[T, float]:
    """Runs to the end without waiting; the result, and the virtual seconds it took. No task may be left over."""
    loop = VirtualLoop()
    problems: list[dict[str, Any]] = []
    loop.set_exception_handler(lambda loop, context: problems.append(context))
    try:
        with ordered_cancellation(), no_threads(), named_library():
            result = loop.run_until_complete(main)
            left = asyncio.all_tasks(loop)
            assert not left, f"tasks are left over: {left}"
            loop.run_until_complete(loop.shutdown_asyncgens())
            gc.collect()
        for context in problems:
            raise context.get("exception") or AssertionError(context["message"])
        return result, loop.time()
    finally:
        loop.close()


class Dice(random.Random):
    """The one source of chance."""

    def happens(self, probability: float) -> bool:
        return self.random() < probability

    def pause(self, mean: float) -> float:
        """A while of that mean length; often short, sometimes long."""
        return self.expovariate(1.0 / mean)
