"""Account health — the experience of tenants with one provider account, each for itself and all together.

Theory of operation. A tenant chooses models, prompts and timeouts, so its failed calls may be its own doing. Therefore a
failure keeps only that tenant's calls away from the provider (`TenantHealth`). It counts for all tenants when the failure
before it was another tenant's and no call was answered in between: two tenants rarely make the same mistake at the same
moment, and in a real outage the second failing call arrives soon. During an outage for all tenants a failed probe extends it
only if it belongs to another tenant than the failure before, so one tenant cannot prolong it.
"""

from contextvars import ContextVar

import anyio

from agentvm.drivers.health import Attempt, HealthTracker, is_outage
from agentvm.errors import ProviderError, ProviderTimeout
from agentvm.model.ids import Clock, TenantId
from agentvm.sharing.cache import Cache

TENANTS_MAX = 10_000
"""Tenants whose experience is remembered; beyond, the least recent caller's is forgotten."""

_calling: ContextVar["TenantHealth | None"] = ContextVar("calling", default=None)
"""The tenant that the current task calls a provider for: the response hooks of a client pool serve all tenants."""


def note_rate_limit(seconds: float) -> None:
    """Remembers that the provider asked the current call to wait, while its library retries by itself."""
    health = _calling.get()
    if health is not None:
        health.limited(seconds)


class AccountHealth:
    """The health of one provider account; `of` gives one tenant's view, which its calls are made with."""

    def __init__(self, name: str, clock: Clock, *, silence_seconds: float | None = None) -> None:
        self.name = name
        self.silence_seconds = silence_seconds
        """Time that the operator lets this provider be silent; None for the value of `defaults.timeout`."""
        self.everybody = HealthTracker(name, clock)
        self._clock = clock
        self._tenants: Cache[TenantId | None, TenantHealth] = Cache(TENANTS_MAX)
        self._last_failed: HealthTracker | None = None
        """The tracker of the last failure; None since a call was answered."""

    def of(self, tenant_id: TenantId | None) -> "TenantHealth":
        """The view of one tenant; None for calls that belong to no tenant."""
        health = self._tenants.get(tenant_id)
        if health is None:
            health = TenantHealth(self, HealthTracker(self.name, self._clock))
            self._tenants.put(tenant_id, health)
        return health

    @property
    def shown(self) -> HealthTracker:
        """State for the operator: the outage of a single tenant is shown until any call is answered."""
        return self.everybody if self._last_failed is None or self.everybody.is_out else self._last_failed

    def note_answer(self, attempt: Attempt) -> None:
        self._last_failed = None
        attempt.answered()

    def note_failure(self, own: HealthTracker, attempt: Attempt, error: ProviderError) -> None:
        """Records a failure of the tenant whose own experience is `own`."""
        outage = is_outage(error) and not attempt.spoken
        if outage and (self._last_failed is None or self._last_failed is own):
            self.everybody.count_failure(error)
            attempt.leave()
        else:
            attempt.failed(error)
        if outage:
            self._last_failed = own

    def note_rate_limit(self, own: HealthTracker, seconds: float) -> None:
        if self._last_failed is not None and self._last_failed is not own:
            self.everybody.limited(seconds)
        self._last_failed = own


class TenantHealth:
    """One tenant's experience with an account. Its calls are also held back during an outage for all tenants."""

    __slots__ = ("_account", "own")

    def __init__(self, account: AccountHealth, own: HealthTracker) -> None:
        self._account = account
        self.own = own

    @property
    def wait(self) -> float:
        """Seconds until the provider may be asked, as far as is known now."""
        return max(self.own.wait, self._account.everybody.wait)

    @property
    def reason(self) -> str:
        return self.shown.reason

    @property
    def probed(self) -> bool:
        return self.shown.probed

    @property
    def worth_waiting(self) -> bool:
        return self.own.worth_waiting and self._account.everybody.worth_waiting

    @property
    def retry_at(self) -> int | None:
        return self.shown.retry_at

    @property
    def shown(self) -> HealthTracker:
        """The experience that holds calls back longest: the tenant's own, or that of all."""
        own, everybody = self.own, self._account.everybody
        return everybody if everybody.is_out and everybody.wait >= own.wait else own

    def begin(self) -> "TenantAttempt":
        """A call is to be made."""
        return TenantAttempt(self._account, self.own)

    def error(self, first_hand: ProviderError | None = None) -> ProviderError:
        """The reason why the provider cannot be asked, and when to try again."""
        return self.shown.error(first_hand)

    def listen(self, changed: anyio.Event) -> None:
        """Sets the event at each change, until `ignore`."""
        self.own.listen(changed)
        self._account.everybody.listen(changed)

    def ignore(self, changed: anyio.Event) -> None:
        self.own.ignore(changed)
        self._account.everybody.ignore(changed)

    def limited(self, seconds: float) -> None:
        """Records the retry time that the provider named to a call whose library retries by itself."""
        self.own.limited(seconds)
        self._account.note_rate_limit(self.own, seconds)


class TenantAttempt:
    """One call of one tenant; `leave` ends it in any case."""

    __slots__ = ("_account", "_everybody", "_own", "_own_health")

    def __init__(self, account: AccountHealth, own: HealthTracker) -> None:
        self._account = account
        self._own_health = own
        self._own = own.begin()
        self._everybody = account.everybody.begin()

    @property
    def spoken(self) -> bool:
        """Whether the provider has begun to answer."""
        return self._own.spoken

    def sent(self) -> None:
        """The provider is asked now."""
        _calling.set(TenantHealth(self._account, self._own_health))
        self._own.sent()
        self._everybody.sent()

    def answered(self) -> None:
        self._own.answered()
        self._account.note_answer(self._everybody)

    def failed(self, error: ProviderError, *, silence_seconds: float | None = None) -> bool:
        """Records a failure, and returns whether it tells anything about the provider.

        A timeout shorter than the operator's own (`silence_seconds`) does not.
        """
        least = self._account.silence_seconds or silence_seconds or 0.0
        if isinstance(error, ProviderTimeout) and error.waited is not None and error.waited < least:
            for health in (self._own_health, self._account.everybody):
                health.count_failure(error)
            self.leave()
            return False
        self._own.failed(error)
        self._account.note_failure(self._own_health, self._everybody, error)
        return True

    def leave(self) -> None:
        _calling.set(None)
        self._own.leave()
        self._everybody.leave()
