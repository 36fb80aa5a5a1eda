"""Models — the providers of this process under their names, the default one, and the fallbacks.

`<provider>/<model>`, `<provider>` alone, or nothing for the default. A driver's own name is the name of the plain provider of
that kind. `configure` may be called at any time: running turns keep the drivers they began with, and a driver that is no
longer configured is closed when its last turn has ended.

A provider with fallbacks is opened without retries of its own: while its library waits, another could answer. One call then
tries it up to `ATTEMPTS_MAX` times, in between the others. Without fallbacks the library's retries stay.
"""

import re
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import NamedTuple
from urllib.parse import urlsplit

import anyio
import anyio.abc

from agentvm.drivers.abilities import ModelAbilities, abilities_of
from agentvm.drivers.account_health import AccountHealth, TenantAttempt, TenantHealth
from agentvm.drivers.base import Driver, DriverSettings
from agentvm.drivers.health import HealthTracker, ProviderHealth, is_outage
from agentvm.errors import ConfigInvalid, DriverNotFound, MissingKey, ShuttingDown, shorten
from agentvm.log import get_logger
from agentvm.model.ids import Clock, TenantId
from agentvm.sharing.fair_slots import FairSlots

__all__ = [
    "AccountHealth",
    "Chosen",
    "Models",
    "Open",
    "Provider",
    "ProviderHealth",
    "TenantAttempt",
    "TenantHealth",
    "is_outage",
]

logger = get_logger(__name__)

DEFAULT_CALLS_MAX = 200
"""Calls that a provider answers at a time by default."""

SHARED_CALLS_MIN = 8

ATTEMPTS_MAX = 3
"""Attempts of one model call at a provider whose library does not retry by itself."""

_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")

Open = Callable[[str, DriverSettings], AbstractAsyncContextManager[Driver]]
"""Opens a driver by its name; see `agentvm.drivers.registry.open_driver`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Provider:
    """A provider of models under a name of the operator's; `name` equals `driver` for the plain ones."""

    name: str
    driver: str
    settings: DriverSettings


class Chosen(NamedTuple):
    """The chosen driver and model; `own_key` when the tenant pays the provider itself."""

    driver: Driver
    model: str
    health: TenantHealth
    own_key: bool = False
    provider: str = ""
    """The name of the provider."""
    asks: int = 1
    """Attempts that one model call may make."""
    hosted: bool = False
    """Whether the tenant's own key goes to an address of the operator, who may charge for it."""
    slots: FairSlots | None = None
    """Calls at a time, of all tenants together; None for no bound."""

    @property
    def name(self) -> str:
        return f"{self.provider}/{self.model}"

    @property
    def abilities(self) -> ModelAbilities:
        return abilities_of(self.driver, self.model)

    def slot(self, tenant_id: TenantId) -> AbstractAsyncContextManager[object]:
        """Holds a slot for one call. At the provider's limit calls wait, tenant by tenant."""
        return nullcontext() if self.slots is None else self.slots.hold(tenant_id)


@dataclass(slots=True, eq=False)
class _OpenedProvider:
    provider: Provider
    health: AccountHealth
    asks: int
    driver: Driver
    users: int = 0
    gone: bool = False
    over: anyio.Event | None = None
    """Set to close it; None for a driver that the caller has opened."""
    slots: FairSlots = field(init=False)

    def __post_init__(self) -> None:
        self.slots = slots_of(self.provider.settings, self.driver)

    def release(self) -> None:
        self.gone = True
        if not self.users and self.over is not None:
            self.over.set()


@dataclass(frozen=True, slots=True)
class _Configuration:
    """The configuration; replaced as a whole."""

    opened: Mapping[str, _OpenedProvider] = field(default_factory=dict)
    default: str = ""
    fallback: tuple[str, ...] = ()


class Models:
    """The providers of this process. `drivers` are open already, and stay so; entered, it can `configure` others."""

    def __init__(
        self,
        drivers: Mapping[str, Driver] | None = None,
        default: str = "",
        *,
        fallback: Sequence[str] = (),
        open_one: Open | None = None,
        clock: Clock = lambda: 0,
    ) -> None:
        self._open_one = open_one
        self._clock = clock
        self._tasks: anyio.abc.TaskGroup | None = None
        self._alive: set[anyio.Event] = set()
        self._configuring: anyio.Lock | None = None
        preset = {name: self._preset(name, driver) for name, driver in (drivers or {}).items()}
        self._now = _Configuration(preset, default, tuple(fallback))

    async def __aenter__(self) -> "Models":
        self._tasks, self._configuring = anyio.create_task_group(), anyio.Lock()
        await self._tasks.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._now = _Configuration()
        for over in self._alive:
            over.set()
        if self._tasks is not None:
            # Not with the error: it would come back in an exception group.
            await self._tasks.__aexit__(None, None, None)

    async def configure(self, providers: Sequence[Provider], *, default: str, fallback: Sequence[str] = ()) -> None:
        """Opens new and changed providers, and closes removed ones when their last turn has ended.

        All or nothing: raises ConfigInvalid, MissingKey or DriverNotFound and changes nothing if one cannot be opened.
        """
        if self._configuring is None:
            raise RuntimeError("Models must be entered before they are configured")
        fallback = tuple(dict.fromkeys(fallback))
        _check(providers, default, fallback)
        async with self._configuring:
            before, fresh = self._now.opened, list[_OpenedProvider]()
            result: dict[str, _OpenedProvider] = {}
            complete = False
            try:
                for provider in providers:
                    effective = _impatient(provider) if _is_backed(provider.name, fallback) else provider
                    current = before.get(provider.name)
                    if current is None or current.provider != effective or current.over is None:
                        current = await self._open(effective, None if current is None else _health_of(current, effective))
                        fresh.append(current)
                    result[provider.name] = current
                complete = True
            finally:
                if not complete:
                    for opened in fresh:
                        opened.release()
            self._now = _Configuration(result, default, fallback)
            for name, opened in before.items():
                if result.get(name) is not opened:
                    opened.release()
        logger.debug("providers_configured", providers=list(result), default=default, fallback=list(fallback))

    def parse(self, name: str | None) -> tuple[str, str]:
        """The provider's name, and its own for the model, which may be empty."""
        provider, _, model = (name or self._now.default).partition("/")
        return provider, model

    def chain(self, name: str | None) -> tuple[str, ...]:
        """Returns the models in the order in which they are tried: the named one, then the fallbacks; each provider once."""
        first = name or self._now.default
        chain = {self.parse(first)[0]: first}
        for other in self._now.fallback:
            chain.setdefault(self.parse(other)[0], other)
        return tuple(chain.values())

    def provider(self, name: str) -> Provider | None:
        opened = self._now.opened.get(name)
        return None if opened is None else opened.provider

    def choose(self, name: str | None) -> Chosen:
        """Returns the driver and model under this name, without fallbacks. Does not keep the driver open: see `use`."""
        return _choose(self._find(name), self.parse(name)[1])

    @asynccontextmanager
    async def use(self, name: str | None, tenant_id: TenantId | None = None) -> AsyncIterator[Chosen]:
        """The same for one tenant, for as long as the context lasts."""
        opened = self._find(name)
        opened.users += 1
        try:
            yield _choose(opened, self.parse(name)[1], tenant_id)
        finally:
            opened.users -= 1
            if opened.gone:
                opened.release()

    @asynccontextmanager
    async def use_chain(self, name: str | None) -> AsyncIterator[tuple[Chosen, ...]]:
        """Yields the named model and its fallbacks, with the server's own keys."""
        async with AsyncExitStack() as stack:
            yield tuple([await stack.enter_async_context(self.use(model)) for model in self.chain(name)])

    def new_health(self, name: str, silence_seconds: float | None) -> AccountHealth:
        """Returns a tracker for a tenant's own account."""
        return AccountHealth(name, self._clock, silence_seconds=silence_seconds)

    def health(self, tenant_id: TenantId | None = None) -> tuple[ProviderHealth, ...]:
        """The health of each provider with the server's own account, for the operator or as one tenant experiences it."""
        now = self._now
        default, backing = self.parse(None)[0], {self.parse(name)[0] for name in now.fallback}
        return tuple(
            ProviderHealth(
                name=name,
                driver=opened.provider.driver,
                default_model=opened.driver.default_model,
                base_url=_without_secrets(opened.provider.settings.base_url),
                role="default" if name == default else "fallback" if name in backing else None,
                state=shown.state,
                since=shown.since,
                last_error=counted.last_error,
                retry_at=shown.retry_at,
                calls=counted.calls,
                failures=counted.failures,
                consecutive_failures=counted.consecutive,
                last_success_at=counted.last_success_at,
            )
            for name, opened in now.opened.items()
            for shown, counted in (_views(opened.health, tenant_id),)
        )

    def _find(self, name: str | None) -> _OpenedProvider:
        provider = self.parse(name)[0]
        opened = self._now.opened.get(provider)
        if not self._now.opened:
            # All of them are closed: a definite answer would keep the client from asking again.
            raise ShuttingDown("The server is shutting down; reconnect and try again")
        if opened is None:
            names = ", ".join(sorted(self._now.opened))
            raise DriverNotFound(f"No driver named {provider!r} is configured for model {name!r}; configured: {names}")
        return opened

    def _preset(self, name: str, driver: Driver) -> _OpenedProvider:
        provider = Provider(name=name, driver=name, settings=DriverSettings())
        return _OpenedProvider(provider, AccountHealth(name, self._clock), 1, driver)

    async def _open(self, provider: Provider, health: AccountHealth | None) -> _OpenedProvider:
        assert self._tasks is not None
        health = health or AccountHealth(provider.name, self._clock)
        health.silence_seconds = provider.settings.silence
        with naming(provider.name, provider.driver):
            opened: _OpenedProvider = await self._tasks.start(self._keep, provider, health)
        return opened

    async def _keep(
        self,
        provider: Provider,
        health: AccountHealth,
        *,
        task_status: anyio.abc.TaskStatus[_OpenedProvider] = anyio.TASK_STATUS_IGNORED,
    ) -> None:
        """Runs a driver's whole life in one task: a task group must be left by the task that entered it."""
        assert self._open_one is not None
        async with self._open_one(provider.driver, replace(provider.settings, name=provider.name)) as driver:
            over = anyio.Event()
            self._alive.add(over)
            task_status.started(_OpenedProvider(provider, health, attempts_of(provider.settings), driver, over=over))
            await over.wait()
            self._alive.discard(over)


@contextmanager
def naming(name: str, driver: str) -> Iterator[None]:
    """Names the provider in an error of opening it: drivers serve several."""
    try:
        yield
    except MissingKey as error:
        if name == driver:
            raise
        text = f"llm.providers.{name} needs a key: set llm.providers.{name}.apiKey as well, in the same file or change"
        raise type(error)(text) from None
    except ConfigInvalid as error:
        if name == driver:
            raise
        raise type(error)(f"llm.providers.{name}: {error}") from None


def attempts_of(settings: DriverSettings) -> int:
    """Returns the attempts of one model call at a driver with these settings."""
    return 1 if settings.max_retries else ATTEMPTS_MAX


def slots_of(settings: DriverSettings, driver: Driver) -> FairSlots:
    """Returns the operator's limit, else the driver's own (`max_calls`), else the default.

    Of many slots a quarter is always left to other tenants.
    """
    calls: int = settings.max_calls or getattr(driver, "max_calls", None) or DEFAULT_CALLS_MAX
    return FairSlots(calls, share=calls - calls // 4 if calls >= SHARED_CALLS_MIN else calls)


def _health_of(before: _OpenedProvider, provider: Provider) -> AccountHealth | None:
    """Keeps the health of an account when only the way of calling it changes, its retry time included."""
    old, new = before.provider, provider
    is_same_account = (old.driver, old.settings.base_url, old.settings.api_key) == (
        new.driver,
        new.settings.base_url,
        new.settings.api_key,
    )
    return before.health if is_same_account and before.over is not None else None


def _views(account: AccountHealth, tenant_id: TenantId | None) -> tuple[HealthTracker, HealthTracker]:
    """Returns the tracker to show, and the trackers whose calls are counted."""
    if tenant_id is None:
        return account.shown, account.everybody
    health = account.of(tenant_id)
    return health.shown, health.own


def _choose(opened: _OpenedProvider, model: str, tenant_id: TenantId | None = None) -> Chosen:
    driver = opened.driver
    health = opened.health.of(tenant_id)
    name = opened.provider.name
    return Chosen(driver, model or driver.default_model, health, provider=name, asks=opened.asks, slots=opened.slots)


def _is_backed(name: str, fallback: Sequence[str]) -> bool:
    return any(other.partition("/")[0] != name for other in fallback)


def _impatient(provider: Provider) -> Provider:
    return replace(provider, settings=replace(provider.settings, max_retries=0))


def _check(providers: Sequence[Provider], default: str, fallback: Sequence[str]) -> None:
    for name, number in Counter(provider.name for provider in providers).items():
        if not _NAME.fullmatch(name):
            raise ConfigInvalid(
                f"{shorten(name)!r} cannot name a provider: use at most 64 lower-case letters, digits, '.', '_' and '-'"
            )
        if number > 1:
            raise ConfigInvalid(f"There are {number} providers named {name!r}; give each a name of its own")
    names = {provider.name for provider in providers}
    for name in (default, *fallback):
        if name.partition("/")[0] not in names:
            listing = ", ".join(sorted(names)) or "none"
            raise DriverNotFound(f"No provider is configured for {shorten(name)!r}; configured: {listing}")


def _without_secrets(url: str | None) -> str | None:
    """Returns the URL without parts that may be secret."""
    if url is None:
        return None
    parts = urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2], query="", fragment="").geturl()
