"""Fair slots — a bounded number of slots, or bytes, that tenants wait for in turn.

Theory of operation. A caller acquires slots, waiting as long as there are too few, and releases them. One tenant holds at most
its share, so the others always find room soon. Waiting callers are served tenant by tenant (`FairQueue`). A large request does
not block small ones: they pass it, but only `PASSES_MAX` times, then slots are kept free for it. Waiting is a suspended
coroutine; its deadline is that of the caller.
"""

from collections import Counter
from collections.abc import Hashable
from functools import partial

import anyio

from agentvm.sharing.fair_queue import FairQueue

PASSES_MAX = 64


class _Waiter:
    __slots__ = ("granted", "passed", "size")

    def __init__(self, size: int) -> None:
        self.size = size
        self.passed = 0
        self.granted = anyio.Event()


class HeldSlots:
    """Slots that one caller has; `release` may be called early, and more than once."""

    __slots__ = ("_key", "_size", "_slots")

    def __init__(self, slots: "FairSlots", key: Hashable, size: int) -> None:
        self._slots = slots
        self._key = key
        self._size = size

    def release(self) -> None:
        size, self._size = self._size, 0
        if size:
            self._slots.release(self._key, size)


class FairSlots:
    """Used from one event loop. A request for more than a share is granted as if it were for a whole share.

    The key None is the server's own work; no share bounds it.
    """

    def __init__(self, capacity: int, *, share: int | None = None, idle_first: bool = False) -> None:
        """With `idle_first` tenants that hold nothing go first, by their last release: waiting ahead gains nothing."""
        self.capacity = capacity
        self._idle_first = idle_first
        self.share = capacity if share is None else min(share, capacity)
        self._free = capacity
        self._held: Counter[Hashable] = Counter()
        self._line: FairQueue[Hashable, _Waiter] = FairQueue()

    @property
    def free(self) -> int:
        return self._free

    @property
    def waiting(self) -> int:
        """Callers that wait."""
        return len(self._line)

    def held_by(self, key: Hashable) -> int:
        return self._held[key]

    async def acquire(self, key: Hashable, size: int = 1) -> HeldSlots:
        """Waits until the slots are this caller's. A cancelled caller has none."""
        size = min(size, self._share_of(key))
        if not self._line and self._free >= size and self._held[key] + size <= self._share_of(key):
            self._grant(key, size)
            return HeldSlots(self, key, size)
        waiter = _Waiter(size)
        self._line.put(key, waiter)
        self._serve()
        served = False
        try:
            await waiter.granted.wait()
            served = True
        finally:
            if not served:
                self._leave(key, waiter)
        return HeldSlots(self, key, size)

    def hold(self, key: Hashable, size: int = 1) -> "_Holding":
        """The slots for the time of the block, or until they are released."""
        return _Holding(self, key, size)

    def release(self, key: Hashable, size: int = 1) -> None:
        """Releases slots that `acquire` granted."""
        self._free += size
        self._held[key] -= size
        if not self._held[key]:
            del self._held[key]
        if self._idle_first:
            self._line.postpone(key)
        self._serve()

    def _leave(self, key: Hashable, waiter: _Waiter) -> None:
        if waiter.granted.is_set():
            self.release(key, waiter.size)
        else:
            self._line.discard(key, waiter)
            # Slots may have been kept free for it.
            self._serve()

    def _share_of(self, key: Hashable) -> int:
        return self.capacity if key is None else self.share

    def _serve(self) -> None:
        while self._line:
            passed: list[_Waiter] = []
            item = self._line.take(self._is_idle) if self._idle_first else None
            item = item or self._line.take(partial(self._fits, passed))
            if item is None:
                return
            key, waiter = item
            for other in passed:
                other.passed += 1
            self._grant(key, waiter.size)
            waiter.granted.set()

    def _is_idle(self, key: Hashable, waiter: _Waiter) -> bool:
        return not self._held[key] and waiter.size <= self._free

    def _grant(self, key: Hashable, size: int) -> None:
        self._free -= size
        self._held[key] += size

    def _fits(self, passed: list[_Waiter], key: Hashable, waiter: _Waiter) -> bool:
        if self._held[key] + waiter.size > self._share_of(key):
            # Only its own tenant can release slots for it: no other waits for that.
            return False
        if any(other.passed >= PASSES_MAX for other in passed):
            return False
        if waiter.size > self._free:
            passed.append(waiter)
            return False
        return True


class _Holding:
    """The context of `FairSlots.hold`."""

    __slots__ = ("_held", "_key", "_size", "_slots")

    def __init__(self, slots: FairSlots, key: Hashable, size: int) -> None:
        self._slots, self._key, self._size = slots, key, size

    async def __aenter__(self) -> HeldSlots:
        self._held = await self._slots.acquire(self._key, self._size)
        return self._held

    async def __aexit__(self, *_: object) -> None:
        self._held.release()
