"""Recent — the credentials that were found good a moment ago, so that not every request asks the database.

Bounded by number and by age: what another process changes is noticed after `AGE_MS` at the latest, what this one changes at
once, because it says so with `drop`.
"""

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from agentvm.model.principal import Principal

AGE_MS = 30_000
MOST = 10_000


@dataclass(frozen=True, slots=True)
class Verified:
    """`digest` is that of the credential, which is itself nowhere kept."""

    digest: bytes
    principal: Principal
    until: int


class Recent:
    """By name: the id of a key, or the digest of a token. The one that was used least recently gives way."""

    def __init__(self, *, most: int = MOST) -> None:
        self._entries: OrderedDict[str, Verified] = OrderedDict()
        self._most = most

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, name: str, now: int) -> Verified | None:
        """None when it is not there or too old, also because the clock was set back."""
        entry = self._entries.get(name)
        if entry is None:
            return None
        if not entry.until - AGE_MS <= now < entry.until:
            del self._entries[name]
            return None
        self._entries.move_to_end(name)
        return entry

    def put(self, name: str, digest: bytes, principal: Principal, now: int) -> None:
        self._entries[name] = Verified(digest, principal, now + AGE_MS)
        self._entries.move_to_end(name)
        if len(self._entries) > self._most:
            self._entries.popitem(last=False)

    def drop(self, gone: Callable[[Principal], bool]) -> None:
        """Forgets all whom the predicate names."""
        for name in [name for name, entry in self._entries.items() if gone(entry.principal)]:
            del self._entries[name]
