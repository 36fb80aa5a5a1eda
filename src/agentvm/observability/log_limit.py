"""Log limit — how many entries one tenant may make of each kind of event, so that nobody pushes others out of the log.

Each tenant and event has a bucket of tokens. An entry with an error's code costs its maker nothing but a bad request, so there
are few tokens for those; an entry without one stands for work that was done, so there are many. What is of no tenant has a
bucket for each event too: strangers cause some of it. Entries for which there is no token are left out and counted, and one
entry says later how many they were.
"""

import threading
from collections import OrderedDict
from dataclasses import dataclass
from typing import Final

from structlog.typing import EventDict

from agentvm.log import get_logger
from agentvm.model.ids import Clock

logger = get_logger(__name__)

SUPPRESSED: Final = "log_entries_suppressed"
SUMMARY_MS = 60_000
"""A summary is made so long after the first entry that was left out, with the next entry of anybody."""
MOST_BUCKETS = 10_000


@dataclass(frozen=True, slots=True)
class Rate:
    """Entries that may come at once, and each second after that."""

    burst: int
    per_second: float


REFUSED = Rate(60, 0.5)
DONE = Rate(2_000, 20.0)


@dataclass(slots=True)
class _Bucket:
    tokens: float
    at: int
    suppressed: int = 0
    since: int = 0


_Key = tuple[str | None, str, bool]
"""A tenant, an event, and whether the entries have a code."""


class LogLimit:
    """A gate; see `agentvm.log`. Safe for threads."""

    def __init__(self, clock: Clock, *, refused: Rate = REFUSED, done: Rate = DONE) -> None:
        self._clock = clock
        self._rates = {True: refused, False: done}
        self._lock = threading.Lock()
        self._buckets: OrderedDict[_Key, _Bucket] = OrderedDict()
        self._suppressing: OrderedDict[_Key, _Bucket] = OrderedDict()

    def admit(self, facts: EventDict) -> bool:
        """Whether the entry is kept and shown."""
        event = str(facts.get("event", ""))
        if event == SUPPRESSED:
            return True
        tenant_id = facts.get("tenant_id")
        key = (None if tenant_id is None else str(tenant_id), event, facts.get("code") is not None)
        now = self._clock()
        with self._lock:
            admitted = self._take(key, now)
            due = self._due(now)
        for told, bucket in due:
            _summarise(told, bucket)
        return admitted

    def flush(self) -> None:
        """Tells of all that was left out."""
        with self._lock:
            due = list(self._suppressing.items())
            self._suppressing.clear()
        for key, bucket in due:
            _summarise(key, bucket)

    def _take(self, key: _Key, now: int) -> bool:
        rate = self._rates[key[2]]
        bucket = self._buckets.get(key)
        if bucket is None:
            bucket = self._buckets[key] = _Bucket(float(rate.burst), now)
            if len(self._buckets) > MOST_BUCKETS:
                self._buckets.popitem(last=False)
        self._buckets.move_to_end(key)
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
            # A clock that was set back must not keep it for ever.
            if bucket.since <= now < bucket.since + SUMMARY_MS:
                break
            del self._suppressing[key]
            due.append((key, bucket))
        return due


def _summarise(key: _Key, bucket: _Bucket) -> None:
    tenant_id, event, _ = key
    count, bucket.suppressed = bucket.suppressed, 0
    logger.warning(SUPPRESSED, tenant_id=tenant_id, of=event, count=count, since=bucket.since)
