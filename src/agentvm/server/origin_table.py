"""Origin table — connections by the address that they come from, bounded in all and per address.

A connection that sends nothing costs its peer nothing, and must not keep others out. So a new one is never refused: at the
limit the oldest is evicted, of those from the same origin or else of the origin that has the most. An IPv6 network of 64 bits
is one origin.
"""

from collections.abc import Hashable, Iterator
from typing import Generic, TypeVar

from agentvm.model.address import origin_of

T = TypeVar("T", bound=Hashable)


class OriginTable(Generic[T]):
    """At most `most` entries in all and `most_of_origin` of one origin."""

    def __init__(self, most: int, most_of_origin: int) -> None:
        self._most, self._most_of_origin = most, most_of_origin
        self._origins: dict[T, str] = {}
        # Dicts for their order: the first is the oldest.
        self._entries: dict[str, dict[T, None]] = {}

    def __len__(self) -> int:
        return len(self._origins)

    def __iter__(self) -> Iterator[T]:
        return iter(tuple(self._origins))

    def add(self, entry: T, address: str) -> T | None:
        """Adds an entry; returns the one that is evicted for it, if any."""
        origin, evicted = origin_of(address), None
        if len(self._entries.get(origin, ())) >= self._most_of_origin:
            evicted = next(iter(self._entries[origin]))
        elif len(self) >= self._most:
            crowded = max(self._entries, key=lambda name: len(self._entries[name]))
            evicted = next(iter(self._entries[crowded]))
        if evicted is not None:
            self.remove(evicted)
        self._origins[entry] = origin
        self._entries.setdefault(origin, {})[entry] = None
        return evicted

    def remove(self, entry: T) -> None:
        """Removes an entry; one that was evicted is gone already."""
        origin = self._origins.pop(entry, None)
        if origin is not None:
            del self._entries[origin][entry]
            if not self._entries[origin]:
                del self._entries[origin]
