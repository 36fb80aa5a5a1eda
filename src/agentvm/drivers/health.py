"""Health — the state of one provider account: whether it answers, and when it may be called again.

`account_health` decides whose experience counts for which tenant. An unavailable provider is left alone until the moment it
named, or for a pause that doubles with each failure; then one call probes it, and no other call is made before the result. A
failure of a call that began before the last failure is old news: it makes no pause longer, unless the provider named a later
moment.

Errors are remembered by their kind only, because a provider's words about one tenant's call are not for another.
"""

import math
from typing import Literal

import anyio

from agentvm.errors import (
    ProviderAuthFailed,
    ProviderBadRequest,
    ProviderError,
    ProviderRateLimited,
    ProviderTimeout,
    ProviderUnreachable,
)
from agentvm.model.base import Record
from agentvm.model.ids import Clock

HealthState = Literal["ok", "limited", "down", "unknown"]

WAIT_MAX_SECONDS = 30.0
"""Longest wait for a provider; one that names a later moment is tried after this time."""

FIRST_PAUSE_SECONDS = 1.0
"""Seconds a provider is left alone that did not say for how long; doubled with each failure up to `WAIT_MAX_SECONDS`."""

PROBE_SECONDS = 30.0
"""Time for which other calls wait for a probe that gets no answer."""

_FAILURES: dict[type[ProviderError], str] = {
    ProviderAuthFailed: "refuses the key or the account",
    ProviderRateLimited: "limits the rate of requests",
    ProviderTimeout: "does not answer in time",
    ProviderUnreachable: "cannot be reached",
}


class ProviderHealth(Record):
    """The state of a provider, for people. Times are ms since 1970; no field is secret."""

    name: str
    driver: str
    default_model: str
    base_url: str | None = None
    """The address without credentials and query; absent for the provider's default address, and for users who do not run
    the server."""
    role: Literal["default", "fallback"] | None = None
    state: HealthState
    since: int | None = None
    """The start of this state."""
    last_error: str | None = None
    """A code, see docs/errors.md."""
    retry_at: int | None = None
    """Earliest time of the next call."""
    calls: int | None = None
    """Calls of all tenants together; like failures for operators only."""
    failures: int | None = None
    consecutive_failures: int
    last_success_at: int | None = None


def is_outage(error: ProviderError) -> bool:
    """Whether another provider may do better: this one fails all callers and requests now.

    A refused key counts, because users can do nothing about it. A refused request does not: the next provider would get the
    same.
    """
    return error.retryable or isinstance(error, ProviderAuthFailed)


class Attempt:
    """One call, as far as its provider's health is concerned; `leave` ends it in any case."""

    __slots__ = ("_health", "news", "spoken")

    def __init__(self, health: "HealthTracker", news: int) -> None:
        self._health = health
        self.news = news
        """The number of the last bad news when it was begun."""
        self.spoken = False
        """Whether the provider has begun to answer."""

    def sent(self) -> None:
        """Records that the request is being sent."""
        self._health.calls += 1

    def answered(self) -> None:
        self.spoken = True
        self._health.note_answer(self)

    def failed(self, error: ProviderError) -> None:
        self._health.note_failure(self, error)

    def leave(self) -> None:
        """Ends the call; without a result another call may probe."""
        self._health.allow_probe(self)


class HealthTracker:
    """The memory of one account."""

    def __init__(self, name: str, clock: Clock) -> None:
        self.name = name
        self._clock = clock
        self.state: HealthState = "unknown"
        self.since: int | None = None
        self.calls = 0
        self.failures = 0
        self.consecutive = 0
        self.last_error: str | None = None
        self.last_success_at: int | None = None
        self._kind: type[ProviderError] | None = None
        self._free_at = -math.inf
        self._said_at = -math.inf
        self._pause = FIRST_PAUSE_SECONDS
        self._news = 0
        self._probe: Attempt | None = None
        self._probed_at = -math.inf
        self._waiting: dict[anyio.Event, None] = {}

    @property
    def wait(self) -> float:
        """Seconds until it may be asked, as far as is known now."""
        if self._kind is None:
            return 0.0
        free_at = self._free_at if self._probe is None else max(self._free_at, self._probed_at + PROBE_SECONDS)
        return max(0.0, free_at - anyio.current_time())

    @property
    def reason(self) -> str:
        """The code of the current or the last error."""
        return self.last_error or ProviderError.code if self._kind is None else self._kind.code

    @property
    def is_out(self) -> bool:
        """Whether the last news was an outage."""
        return self._kind is not None

    @property
    def probed(self) -> bool:
        """Whether a probe is under way; its result may come earlier than `wait` says."""
        return self._probe is not None

    @property
    def worth_waiting(self) -> bool:
        """Whether time helps, and soon."""
        if self._kind is None:
            return True
        return self._kind.retryable and self._said_at - anyio.current_time() <= WAIT_MAX_SECONDS

    @property
    def retry_at(self) -> int | None:
        """Earliest time of the next call, in ms since 1970; None when it may be called now."""
        if self._kind is None or (wait := self._free_at - anyio.current_time()) <= 0:
            return None
        return self._clock() + math.ceil(wait * 1000)

    def begin(self) -> Attempt:
        """Begins a call. During an outage it is the probe."""
        attempt = Attempt(self, self._news)
        if self._kind is not None:
            self._probe, self._probed_at = attempt, anyio.current_time()
        return attempt

    def error(self, first_hand: ProviderError | None = None) -> ProviderError:
        """Returns the error of an unavailable provider, with the retry time; in the provider's words for the call that
        received them."""
        kind = self._kind or ProviderError
        wait = max(self._said_at - anyio.current_time(), self.wait)
        if first_hand is not None:
            if first_hand.retry_after is not None or not first_hand.retryable or wait <= 0:
                return first_hand
            kind, text = type(first_hand), str(first_hand)
        else:
            text = f"{self.name} {_FAILURES.get(kind, 'is overloaded or fails')}"
        seconds = max(1, math.ceil(wait))
        return kind(f"{text}; try again in {seconds} s", retry_after=float(seconds))

    def limited(self, seconds: float) -> None:
        """Records the retry time that the provider named to a call whose library retries by itself."""
        self._block(ProviderRateLimited, seconds)

    def note_answer(self, attempt: Attempt) -> None:
        self.last_success_at = self._clock()
        self.consecutive = 0
        if attempt.news == self._news or anyio.current_time() >= self._free_at:
            self._recover()

    def count_failure(self, error: ProviderError) -> None:
        """Counts a failure for people to see."""
        self.failures += 1
        self.last_error = error.code
        if is_outage(error):
            self.consecutive += 1

    def note_failure(self, attempt: Attempt, error: ProviderError) -> None:
        consecutive = self.consecutive
        self.count_failure(error)
        if attempt.spoken:
            self.consecutive = consecutive
            return
        if is_outage(error):
            if attempt.news == self._news or (error.retry_after or 0.0) > self.wait:
                self._block(type(error), error.retry_after)
        elif attempt.news == self._news and isinstance(error, ProviderBadRequest):
            # The provider reads requests again, and this one was at fault.
            self._recover()
        self.allow_probe(attempt)

    def allow_probe(self, attempt: Attempt) -> None:
        """Lets another call probe."""
        if self._probe is attempt:
            self._probe = None
            self._ring()

    def listen(self, changed: anyio.Event) -> None:
        """Sets the event at each change, until `ignore`."""
        self._waiting[changed] = None

    def ignore(self, changed: anyio.Event) -> None:
        self._waiting.pop(changed, None)

    def _block(self, kind: type[ProviderError], retry_after: float | None) -> None:
        now = anyio.current_time()
        if retry_after:
            pause = retry_after
        else:
            pause, self._pause = self._pause, min(WAIT_MAX_SECONDS, self._pause * 2)
        self._news += 1
        self._kind = kind
        self._free_at = now + min(pause, WAIT_MAX_SECONDS)
        self._said_at = now + pause
        self._enter("limited" if issubclass(kind, ProviderRateLimited) else "down")
        self._ring()

    def _recover(self) -> None:
        self._kind = self._probe = None
        self._pause = FIRST_PAUSE_SECONDS
        self._enter("ok")
        self._ring()

    def _enter(self, state: HealthState) -> None:
        if self.state != state:
            self.state, self.since = state, self._clock()

    def _ring(self) -> None:
        for changed in self._waiting:
            changed.set()
        self._waiting.clear()
