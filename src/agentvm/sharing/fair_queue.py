"""Fair queue — waiting items, first come first served within a tenant, and the tenants served in turn.

Theory of operation. Each tenant has a queue of its own. The next item is that of the tenant that was served longest ago, so a
tenant with one item never waits behind more than one item of each other tenant, however many those have. There are no weights.
Bounds in all and per tenant keep the queue small; an item beyond them is refused, and its owner decides how to continue.

Not safe for threads by itself: a caller with several threads holds a lock of its own.
"""

from collections import OrderedDict, deque
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")


class FairQueue(Generic[K, T]):
    """Items by the tenant that they belong to. `capacity` bounds all of them, `share` those of one tenant; None is no bound."""

    def __init__(self, *, capacity: int | None = None, share: int | None = None) -> None:
        self._capacity = capacity
        self._share = share
        self._size = 0
        # In the order in which tenants are served next. A tenant without items is not in it.
        self._queues: OrderedDict[K, deque[T]] = OrderedDict()

    def __len__(self) -> int:
        return self._size

    def waiting(self, key: K) -> int:
        """Items of one tenant."""
        return len(self._queues.get(key, ()))

    def put(self, key: K, item: T) -> bool:
        """Appends to the tenant's queue, or returns False when that is full, or all of them together are."""
        if self._capacity is not None and self._size >= self._capacity:
            return False
        if self._share is not None and self.waiting(key) >= self._share:
            return False
        self._queues.setdefault(key, deque()).append(item)
        self._size += 1
        return True

    def take(self, ready: Callable[[K, T], bool] | None = None) -> tuple[K, T] | None:
        """Returns the oldest item of the next tenant; None when there is none.

        A tenant whose oldest item is not `ready` is passed over and keeps its place.
        """
        for key, queue in self._queues.items():
            if ready is None or ready(key, queue[0]):
                item = queue.popleft()
                self._served(key, queue)
                return key, item
        return None

    def postpone(self, key: K) -> None:
        """Puts a tenant behind all others, as if its items had come only now."""
        if key in self._queues:
            self._queues.move_to_end(key)

    def discard(self, key: K, item: T) -> bool:
        """Removes an item that is no longer needed. False when it is not there, for example because it was taken."""
        queue = self._queues.get(key)
        if queue is None or item not in queue:
            return False
        queue.remove(item)
        self._size -= 1
        if not queue:
            del self._queues[key]
        return True

    def _served(self, key: K, queue: deque[T]) -> None:
        self._size -= 1
        if queue:
            self._queues.move_to_end(key)
        else:
            del self._queues[key]
