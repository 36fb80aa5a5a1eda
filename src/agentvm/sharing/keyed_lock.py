"""Keyed lock — one lock per key; a key that is neither held nor waited for takes no memory."""

from collections.abc import AsyncGenerator, Hashable
from contextlib import asynccontextmanager
from typing import Generic, TypeVar
from weakref import WeakValueDictionary

import anyio

K = TypeVar("K", bound=Hashable)


class KeyedLock(Generic[K]):
    """Locks by key. Callers with the same key go one at a time, in the order in which they came; others do not wait."""

    def __init__(self) -> None:
        # Held by the callers alone: the last of them takes the lock along.
        self._locks: WeakValueDictionary[K, anyio.Lock] = WeakValueDictionary()

    def __len__(self) -> int:
        return len(self._locks)

    @asynccontextmanager
    async def hold(self, key: K) -> AsyncGenerator[None]:
        async with self._locks.setdefault(key, anyio.Lock(fast_acquire=True)):
            yield
