"""Recent — a cache of valid credentials, so that not every request asks the database.

Bounded by number and by age: a change by another process is noticed after `RECENT_AGE_MS` at the latest, one by this process
at once, through `drop`.
"""

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from agentvm.model.principal import Principal

RECENT_AGE_MS = 30_000
RECENT_MAX = 10_000


@dataclass(frozen=True, slots=True)
class Verified:
    """`digest` is that of the credential, which is itself nowhere kept."""

    digest: bytes
    principal: Principal
    until: int


class Recent:
    """Credentials by name: the id of a key, or the digest of a token. The least recently used one is evicted."""

    def __init__(self, *, most: int = RECENT_MAX) -> None:
        self._entries: OrderedDict[str, Verified] = OrderedDict()
        self._most = most

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, name: str, now: int) -> Verified | None:
        """Returns the entry; None when it is missing or too old, also because the clock was set back."""
        entry = self._entries.get(name)
        if entry is None:
            return None
        if not entry.until - RECENT_AGE_MS <= now < entry.until:
            del self._entries[name]
            return None
        self._entries.move_to_end(name)
        return entry

    def put(self, name: str, digest: bytes, principal: Principal, now: int) -> None:
        self._entries[name] = Verified(digest, principal, now + RECENT_AGE_MS)
        self._entries.move_to_end(name)
        if len(self._entries) > self._most:
            self._entries.popitem(last=False)

    def drop(self, selects: Callable[[Principal], bool]) -> None:
        """Drops the entries of all principals that the predicate selects."""
        for name in [name for name, entry in self._entries.items() if selects(entry.principal)]:
            del self._entries[name]
