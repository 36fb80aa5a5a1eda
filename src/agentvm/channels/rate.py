"""ChatSender rate — how many messages of each sender a channel takes in a minute."""

from typing import Literal

from agentvm.sharing.cache import Cache

WINDOW_MS = 60_000
SENDERS_MAX = 10_000


class SenderRate:
    """The messages of each sender in the present minute."""

    def __init__(self, per_minute: int) -> None:
        self._per_minute = per_minute
        self._counts: Cache[str, list[int]] = Cache(SENDERS_MAX, age_ms=WINDOW_MS)

    def take(self, sender: str, now: int) -> Literal["taken", "first_refused", "refused"]:
        """Counts a message. The first message above the limit is marked, because its sender is notified."""
        count = self._counts.get(sender, now)
        if count is None:
            self._counts.put(sender, count := [0], now)
        count[0] += 1
        if count[0] <= self._per_minute:
            return "taken"
        return "first_refused" if count[0] == self._per_minute + 1 else "refused"
