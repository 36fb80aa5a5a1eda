"""Provider chain — the providers that one model call may ask: the chosen one, then the fallbacks while that one is unavailable.

The first available provider in order is called. When none may, the call waits for the provider that is available first, if
that is soon; otherwise it fails with the last error of the chosen one. Each is asked a few times at most, so a call always
ends. A background call tries each provider once, without waiting for one to recover.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import anyio

from agentvm.drivers.models import Chosen, TenantAttempt, is_outage
from agentvm.errors import ProviderError
from agentvm.log import get_logger

logger = get_logger(__name__)

RETRY_TIMEOUT_SECONDS = 30.0
"""One model call waits this long altogether for providers that are unavailable."""


class ProviderAttempt(NamedTuple):
    """The provider to ask. `instead_of` is the chosen one, if it is another; `again` when this call has asked it before."""

    chosen: Chosen
    attempt: TenantAttempt
    place: int
    instead_of: Chosen | None = None
    again: bool = False


class ProviderChain:
    """The candidates of one model call, in order; at least one."""

    def __init__(self, candidates: Sequence[Chosen], *, silence_seconds: float | None = None, patient: bool = True) -> None:
        """`silence_seconds` is the operator's own timeout: giving up earlier says nothing about the provider."""
        self._candidates = candidates
        self._silence_seconds = silence_seconds
        self._patient = patient
        self._asks = [candidate.asks if patient else 1 for candidate in candidates]
        self._first_hand: ProviderError | None = None
        """The error of the chosen provider for this call."""
        self._first_failure: ProviderError | None = None
        """Why the first of them that could be asked anything has not answered."""
        self._until: float | None = None
        self.attempts = 0
        """The number of attempts."""

    @property
    def empty(self) -> bool:
        """Whether each of them was passed over, and none has failed."""
        return self._first_failure is None and not any(self._asks)

    async def next(self) -> ProviderAttempt:
        """Returns the next provider, whose attempt has begun. Raises a ProviderError when there is none."""
        while True:
            for place, candidate in enumerate(self._candidates):
                if self._asks[place] <= 0:
                    continue
                if candidate.health.wait <= 0:
                    again = self._asks[place] < candidate.asks
                    self._asks[place] -= 1
                    self.attempts += 1
                    return ProviderAttempt(
                        candidate, candidate.health.begin(), place, self._candidates[0] if place else None, again
                    )
                if not self._patient:
                    self._asks[place] = 0
                    self._first_failure = self._first_failure or candidate.health.error()
            if not self._patient and self._first_failure is not None:
                raise self._first_failure
            await self._wait()

    def patience(self, provider: ProviderAttempt) -> float:
        """Deadline for the first output, in the loop's time: half of the remaining time, so that a fallback has as much."""
        if not self._patient or not any(asks > 0 for place, asks in enumerate(self._asks) if place != provider.place):
            return math.inf
        now = anyio.current_time()
        return now + (anyio.current_effective_deadline() - now) / 2

    def failed(self, provider: ProviderAttempt, error: ProviderError) -> None:
        """Records a failure without output. Raises the error if no fallback can help."""
        self._first_failure = self._first_failure or error
        if not provider.attempt.failed(error, silence_seconds=self._silence_seconds):
            # It was too slow for this call, and would be so again.
            self._asks[provider.place] = 0
        if provider.place == 0:
            if not is_outage(error):
                raise error
            self._first_hand = error
            if not error.retryable:
                self._asks[0] = 0
        else:
            logger.warning("fallback_failed", provider=provider.chosen.provider, code=error.code, error=str(error))
            if not is_outage(error):
                # It cannot take this request; whoever is next may.
                self._asks[provider.place] = 0

    def skip(self, provider: ProviderAttempt) -> None:
        """Excludes a provider from this call for a reason that is not its fault."""
        self.attempts -= 1
        self._asks[provider.place] = 0

    async def _wait(self) -> None:
        now = anyio.current_time()
        if self._until is None:
            self._until = now + RETRY_TIMEOUT_SECONDS
        able = [
            candidate
            for place, candidate in enumerate(self._candidates)
            if self._asks[place] > 0 and candidate.health.worth_waiting
        ]
        left = min(self._until, anyio.current_effective_deadline()) - now
        # Nobody knows how long it takes to find out, so that is waited for as long as there is time.
        waits = [min(candidate.health.wait, left) if candidate.health.probed else candidate.health.wait for candidate in able]
        seconds = min(waits, default=left)
        if not able or left <= 0 or seconds > left:
            raise self._failure()
        changed = anyio.Event()
        for candidate in able:
            candidate.health.listen(changed)
        try:
            with anyio.move_on_after(seconds):
                await changed.wait()
        finally:
            for candidate in able:
                candidate.health.ignore(changed)

    def _failure(self) -> ProviderError:
        first = self._candidates[0]
        if self._first_hand is not None and len(self._candidates) == 1:
            return self._first_hand
        return first.health.error(self._first_hand)
