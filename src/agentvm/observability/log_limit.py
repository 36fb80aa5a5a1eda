"""Log limit — rate limits of log entries by tenant and event, so that no tenant pushes others out of the log.

Each tenant and event has a token bucket. An entry with an error code costs a client only a bad request, so its bucket is small;
an entry without one stands for work that was done, so its bucket is large. Entries without a tenant have a bucket for each
event, too: strangers cause some of them. Entries without a token are dropped and counted; a later entry has the count.
"""

import threading
from dataclasses import dataclass
from typing import Final

from structlog.typing import EventDict

from agentvm.log import get_logger
from agentvm.model.ids import Clock
from agentvm.sharing.cache import Cache

logger = get_logger(__name__)

SUPPRESSED: Final = "log_entries_suppressed"
SUMMARY_MS = 60_000
"""Time from the first dropped entry to its summary, which is logged with the next entry of any tenant."""
BUCKETS_MAX = 10_000


@dataclass(frozen=True, slots=True)
class LogRate:
    """Entries that are allowed at once, and per second after that."""

    burst: int
    per_second: float


REFUSED_RATE = LogRate(60, 0.5)
DONE_RATE = LogRate(2_000, 20.0)


@dataclass(slots=True)
class _Bucket:
    tokens: float
    at: int
    suppressed: int = 0
    since: int = 0


_Key = tuple[str | None, str, bool]
"""A tenant, an event, and whether the entries have a code."""


class LogLimit:
    """A gate of `agentvm.log`. Thread-safe."""

    def __init__(self, clock: Clock, *, refused: LogRate = REFUSED_RATE, done: LogRate = DONE_RATE) -> None:
        self._clock = clock
        self._rates = {True: refused, False: done}
        self._lock = threading.Lock()
        self._buckets: Cache[_Key, _Bucket] = Cache(BUCKETS_MAX)
        self._suppressing: dict[_Key, _Bucket] = {}

    def admit(self, facts: EventDict) -> bool:
        """Returns whether an entry is logged."""
        event = str(facts.get("event", ""))
        if event == SUPPRESSED:
            return True
        tenant_id = facts.get("tenant_id")
        key = (None if tenant_id is None else str(tenant_id), event, facts.get("code") is not None)
        now = self._clock()
        with self._lock:
            admitted = self._take(key, now)
            due = self._due(now)
        for suppressed, bucket in due:
            _summarize(suppressed, bucket)
        return admitted

    def flush(self) -> None:
        """Logs the summaries of all dropped entries."""
        with self._lock:
            due = list(self._suppressing.items())
            self._suppressing.clear()
        for key, bucket in due:
            _summarize(key, bucket)

    def _take(self, key: _Key, now: int) -> bool:
        rate = self._rates[key[2]]
        bucket = self._buckets.get(key)
        if bucket is None:
            bucket = _Bucket(float(rate.burst), now)
            self._buckets.put(key, bucket)
        bucket.tokens = min(rate.burst, bucket.tokens + max(0, now - bucket.at) / 1000 * rate.per_second)
        bucket.at = now
        if bucket.tokens >= 1:
            bucket.tokens -= 1
            return True
        if not bucket.suppressed:
            bucket.since = now
            self._suppressing[key] = bucket
        bucket.suppressed += 1
        return False

    def _due(self, now: int) -> list[tuple[_Key, _Bucket]]:
        due = []
        while self._suppressing:
            key, bucket = next(iter(self._suppressing.items()))
            # A clock that was set back must not delay it for ever.
            if bucket.since <= now < bucket.since + SUMMARY_MS:
                break
            del self._suppressing[key]
            due.append((key, bucket))
        return due


def _summarize(key: _Key, bucket: _Bucket) -> None:
    tenant_id, event, _ = key
    count, bucket.suppressed = bucket.suppressed, 0
    logger.warning(SUPPRESSED, tenant_id=tenant_id, of=event, count=count, since=bucket.since)
