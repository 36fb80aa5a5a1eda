"""Cache — values by key, bounded in number or weight, and if need be in age. The least recently used one is evicted first."""

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Cache(Generic[K, V]):
    """At most `most` values, or as many as weigh that much together; with `age_ms` each for that long after it was put.

    Times are those that the caller passes. A clock that was set back makes entries too old, not younger.
    """

    __slots__ = ("_age_ms", "_entries", "_most", "_weigh", "_weight")

    def __init__(self, most: int, *, age_ms: int | None = None, weigh: Callable[[V], int] = lambda value: 1) -> None:
        self._most, self._age_ms, self._weigh = most, age_ms, weigh
        self._entries: OrderedDict[K, tuple[V, int]] = OrderedDict()
        self._weight = 0

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: K, now: int = 0) -> V | None:
        """Returns the value; None when it is missing or too old."""
        entry = self._entries.get(key)
        if entry is None:
            return None
        value, put_at = entry
        if self._age_ms is not None and not 0 <= now - put_at < self._age_ms:
            self.drop(key)
            return None
        self._entries.move_to_end(key)
        return value

    def put(self, key: K, value: V, now: int = 0) -> None:
        self.drop(key)
        self._entries[key] = (value, now)
        self._weight += self._weigh(value)
        while self._weight > self._most:
            self.drop(next(iter(self._entries)))

    def drop(self, key: K) -> None:
        entry = self._entries.pop(key, None)
        if entry is not None:
            self._weight -= self._weigh(entry[0])

    def drop_if(self, selects: Callable[[K, V], bool]) -> None:
        """Drops every entry that the predicate selects."""
        for key in [key for key, (value, _) in self._entries.items() if selects(key, value)]:
            self.drop(key)

    def clear(self) -> None:
        self._entries.clear()
        self._weight = 0
