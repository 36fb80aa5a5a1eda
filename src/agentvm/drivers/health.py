"""Health — what is known of one provider's account: whether it answers, and when it may be asked again.

Whose experience counts for whom is decided in `account_health`. A provider that is out is left alone until the moment it
named, or for a pause that doubles with each failure; then one call finds out how things are, and nobody else asks before
that one knows. A failure of a call that was begun before the last bad news is old news: it makes no pause longer, unless the
provider named a later moment.

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

MAX_WAIT = 30.0
"""Seconds. Nobody waits longer for a provider, and a provider that names a later moment is tried after this time."""

FIRST_PAUSE = 1.0
"""Seconds a provider is left alone that did not say for how long; doubled with each failure up to `MAX_WAIT`."""

PROBE_SECONDS = 30.0
"""How long the others leave the finding out to one call that hears nothing."""

_DID: dict[type[ProviderError], str] = {
    ProviderAuthFailed: "refuses the key or the account",
    ProviderRateLimited: "limits the rate of requests",
    ProviderTimeout: "does not answer in time",
    ProviderUnreachable: "cannot be reached",
}


class ProviderHealth(Record):
    """How a provider is, for people to see. Times are ms since 1970; nothing in it is secret."""

    name: str
    driver: str
    default_model: str
    base_url: str | None = None
    """Without credentials and query; absent for the provider's own address, and for who does not run the server."""
    role: Literal["default", "fallback"] | None = None
    state: HealthState
    since: int | None = None
    """When it came into this state."""
    last_error: str | None = None
    """A code, see docs/errors.md."""
    retry_at: int | None = None
    """It is not asked before."""
    calls: int | None = None
    """Of all tenants together; for who runs the server, as are failures."""
    failures: int | None = None
    consecutive_failures: int
    last_success_at: int | None = None


def is_outage(error: ProviderError) -> bool:
    """Whether another provider may do better: this one fails everybody now, whatever they ask.

    A key that is refused counts, because users can do nothing about it. A request that is refused does not: the next provider
    would be asked the same.
    """
    return error.retryable or isinstance(error, ProviderAuthFailed)


class Attempt:
    """One call, as far as its provider's health is concerned; `leave` ends it, whatever came before."""

    __slots__ = ("_health", "news", "spoken")

    def __init__(self, health: "HealthTracker", news: int) -> None:
        self._health = health
        self.news = news
        """The number of the last bad news when it was begun."""
        self.spoken = False
        """Whether the provider has begun to answer."""

    def made(self) -> None:
        """Nothing is in its way any more: the provider is asked now."""
        self._health.calls += 1

    def answered(self) -> None:
        self.spoken = True
        self._health.note_answer(self)

    def failed(self, error: ProviderError) -> None:
        self._health.note_failure(self, error)

    def leave(self) -> None:
        """It is over; if nobody knows how it would have gone, somebody else finds out."""
        self._health.let_probe(self)


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
        self._pause = FIRST_PAUSE
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
        """Why it is out, or what was wrong last: a code."""
        return self.last_error or ProviderError.code if self._kind is None else self._kind.code

    @property
    def is_out(self) -> bool:
        """Whether the last news was an outage."""
        return self._kind is not None

    @property
    def probed(self) -> bool:
        """Whether somebody is finding out; it may be known earlier than `wait` says."""
        return self._probe is not None

    @property
    def worth_waiting(self) -> bool:
        """Whether time helps, and soon."""
        if self._kind is None:
            return True
        return self._kind.retryable and self._said_at - anyio.current_time() <= MAX_WAIT

    @property
    def retry_at(self) -> int | None:
        """When it may be asked again, in ms since 1970; None when it may be asked now."""
        if self._kind is None or (wait := self._free_at - anyio.current_time()) <= 0:
            return None
        return self._clock() + math.ceil(wait * 1000)

    def begin(self) -> Attempt:
        """A call is to be made. During an outage it is the one that finds out."""
        attempt = Attempt(self, self._news)
        if self._kind is not None:
            self._probe, self._probed_at = attempt, anyio.current_time()
        return attempt

    def error(self, first_hand: ProviderError | None = None) -> ProviderError:
        """Why it cannot be asked, and when to try again; in its own words for the call that heard them."""
        kind = self._kind or ProviderError
        wait = max(self._said_at - anyio.current_time(), self.wait)
        if first_hand is not None:
            if first_hand.retry_after is not None or not first_hand.retryable or wait <= 0:
                return first_hand
            kind, text = type(first_hand), str(first_hand)
        else:
            text = f"{self.name} {_DID.get(kind, 'is overloaded or fails')}"
        seconds = max(1, math.ceil(wait))
        return kind(f"{text}; try again in {seconds} s", retry_after=float(seconds))

    def limited(self, seconds: float) -> None:
        """It named the moment to come back to a call whose library tries again by itself."""
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
            # It reads requests again, and this one deserved it.
            self._recover()
        self.let_probe(attempt)

    def let_probe(self, attempt: Attempt) -> None:
        """Somebody else may find out."""
        if self._probe is attempt:
            self._probe = None
            self._ring()

    def listen(self, changed: anyio.Event) -> None:
        """Sets the event when something is known anew, until `ignore`."""
        self._waiting[changed] = None

    def ignore(self, changed: anyio.Event) -> None:
        self._waiting.pop(changed, None)

    def _block(self, kind: type[ProviderError], said: float | None) -> None:
        now = anyio.current_time()
        if said:
            pause = said
        else:
            pause, self._pause = self._pause, min(MAX_WAIT, self._pause * 2)
        self._news += 1
        self._kind = kind
        self._free_at = now + min(pause, MAX_WAIT)
        self._said_at = now + pause
        self._enter("limited" if issubclass(kind, ProviderRateLimited) else "down")
        self._ring()

    def _recover(self) -> None:
        self._kind = self._probe = None
        self._pause = FIRST_PAUSE
        self._enter("ok")
        self._ring()

    def _enter(self, state: HealthState) -> None:
        if self.state != state:
            self.state, self.since = state, self._clock()

    def _ring(self) -> None:
        for changed in self._waiting:
            changed.set()
        self._waiting.clear()
