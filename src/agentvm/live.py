"""Live — what is opened from the settings, and follows them while the server runs: providers, prices, the log, the runtime."""

from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING

from agentvm.config import ServerConfig
from agentvm.config.centre import ConfigCentre
from agentvm.config.layers import COLLECTOR, merge
from agentvm.config.load import SHARED_VARIABLES
from agentvm.drivers.base import Driver
from agentvm.drivers.models import Models, Provider, naming
from agentvm.drivers.registry import open_driver
from agentvm.errors import ConfigInvalid
from agentvm.log import conceal, get_logger, set_level
from agentvm.model.headers import parse_headers
from agentvm.model.ids import AgentId, Clock, ContainerId, NewId, SessionId, TenantId
from agentvm.observability.log_book import Keeping, LogBook
from agentvm.observability.observatory import Observatory, known_by
from agentvm.observability.turn_lines import TurnLines
from agentvm.runtime.agent import Agent
from agentvm.runtime.builtin_tools import builtin_tools
from agentvm.runtime.runtime import Runtime, open_runtime
from agentvm.runtime.tasks import open_tasks
from agentvm.runtime.tools import Toolbox
from agentvm.sessions.beside import Beside
from agentvm.sessions.erasing import Eraser
from agentvm.sessions.retention import Due, Retainer
from agentvm.storage.engine import DATABASE
from agentvm.storage.sql.store import Store
from agentvm.tenants.authentication import Ended
from agentvm.tenants.metering import Metering
from agentvm.tenants.people import StatusCheckingMeter, Stop
from agentvm.tenants.price import Prices
from agentvm.tenants.quota import Quotas
from agentvm.tenants.tenancy import Tenancy

if TYPE_CHECKING:
    from agentvm.observability.telemetry import Telemetry
    from agentvm.tenants.oidc import Oidc

logger = get_logger(__name__)


class Live:
    """What follows the settings while the server runs; see `agentvm.config.centre.Follower`."""

    def __init__(
        self, models: Models | None, prices: Prices, metering: Metering, logs: LogBook, quotas: Quotas | None = None
    ) -> None:
        """`models` are None where the program has brought its own drivers, which stay."""
        self._models, self._prices, self._metering, self._logs = models, prices, metering, logs
        self._quotas = quotas

    async def attempt(self, config: ServerConfig) -> None:
        if self._models is None:
            return
        for name, (driver, settings) in config.wanted.items():
            with naming(name, driver):
                async with open_driver(driver, settings):
                    pass

    async def follow(self, before: ServerConfig, after: ServerConfig) -> None:
        if self._models is not None and line_up(before) != line_up(after):
            await configure(self._models, after)
        self._prices.replace(after.billing.prices)
        if self._quotas is not None:
            await self._quotas.replace_plans(after.plans_by_name)
        self._metering.configure(markup=after.billing.markup, allow_unpriced=after.allows_unpriced)
        for secret in after.secrets:
            conceal(secret.reveal())
        if before.system.log_level != after.system.log_level:
            set_level(after.system.log_level)
        await self._logs.keep(keeping(after))


def keeping(config: ServerConfig) -> Keeping:
    """What is in memory only leaves no files."""
    folder = (
        None if config.data_dir is None or config.system.log_file == "off" else config.data_dir.expanduser().absolute() / "logs"
    )
    return Keeping(folder=folder, most_bytes=config.system.log_file_bytes, most_files=config.system.log_files)


async def open_models(
    settings: ConfigCentre, given: Mapping[str, Driver] | None, stack: AsyncExitStack, clock: Clock
) -> Models:
    """The providers of the settings; those that are `given` stay as they are."""
    if given:
        return await stack.enter_async_context(Models(given, next(iter(given)), open_one=open_driver, clock=clock))
    models = await stack.enter_async_context(Models(open_one=open_driver, clock=clock))
    try:
        await configure(models, settings.config)
    except ConfigInvalid as error:
        raise settings.blamed(error) from None
    return models


async def configure(models: Models, config: ServerConfig) -> None:
    providers = [Provider(name=name, driver=driver, settings=one) for name, (driver, one) in config.wanted.items()]
    await models.configure(providers, default=config.default_model, fallback=config.llm.fallback)


def line_up(config: ServerConfig) -> tuple[object, ...]:
    """What the providers are opened with, and who is asked in which order."""
    return config.wanted, config.default_model, config.llm.fallback


def open_oidc(config: ServerConfig, clock: Clock) -> "Oidc | None":
    """The identity provider whose tokens are accepted, if there is one."""
    if config.system.oidc.issuer is None or config.system.oidc.audience is None:
        return None
    # Here, because it costs a tenth of a second that few servers need.
    from agentvm.tenants.oidc import Oidc, OidcSettings  # noqa: PLC0415

    settings = OidcSettings(
        issuer=config.system.oidc.issuer,
        audience=config.system.oidc.audience,
        jwks_url=config.system.oidc.jwks_url,
        tenant_claim=config.system.oidc.tenant_claim,
    )
    return Oidc(settings, clock)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What a runtime works by."""

    settings: ConfigCentre
    models: Models
    tenancy: Tenancy
    ended: list[Ended]
    prices: Prices
    metering: StatusCheckingMeter
    logs: LogBook


async def open_watched(
    rules: Rules, store: Store, clock: Clock, new_id: NewId, beside: Beside, stack: AsyncExitStack
) -> tuple[Runtime, Observatory]:
    """The runtime, and who watches it."""
    settings = rules.settings
    toolbox = Toolbox(builtin_tools(clock))
    observatory = Observatory(
        clock=clock,
        known=known_by(rules.models.health, lambda: (*settings.config.llm.fallback, *settings.config.billing.prices)),
        tools=lambda: toolbox.names,
        database=None if settings.config.data_dir is None else settings.config.data_dir / DATABASE,
    )
    beside.count(observatory.metrics.billed)
    telemetry = await _open_telemetry(settings, observatory, toolbox, clock, stack)
    runtime = await stack.enter_async_context(
        open_runtime(
            store=store,
            models=rules.models,
            toolbox=toolbox,
            clock=clock,
            new_id=new_id,
            settings=settings.settings_of,
            cost=rules.prices.cost,
            meter=rules.metering,
            choose=rules.tenancy.own_keys.choose,
            effectors=(
                observatory.metrics,
                TurnLines(),
                *beside.effectors,
                *(() if telemetry is None else (telemetry.tracing,)),
            ),
            suspends=settings.config.data_dir is not None,
        )
    )
    observatory.watch(runtime, store, lambda: len(runtime.broadcaster.channels))
    if telemetry is not None:
        await _run_telemetry(telemetry, runtime, observatory, stack)
    return runtime, observatory


async def _open_telemetry(
    settings: ConfigCentre, observatory: Observatory, toolbox: Toolbox, clock: Clock, stack: AsyncExitStack
) -> "Telemetry | None":
    """What is sent to a collector, if there is one. Opened before the runtime: it hears of its last turns."""
    otel = settings.config.otel
    if otel.endpoint is None or "on" not in (otel.traces, otel.metrics):
        return None
    # Here, because only those pay for it who send.
    from agentvm.observability.telemetry import open_telemetry  # noqa: PLC0415

    for value in parse_headers("" if otel.headers is None else otel.headers.reveal()).values():
        # As it is sent, which is not as it is written.
        conceal(value)
    try:
        return await stack.enter_async_context(
            open_telemetry(
                otel,
                clock=clock,
                known=observatory.metrics.known,
                tools=lambda: toolbox.names,
                driver_of=lambda provider: settings.config.driver_of(provider),
            )
        )
    except ConfigInvalid as error:
        endpoint = merge(settings.config.layers).get(COLLECTOR)
        if endpoint is None or endpoint.source.place not in SHARED_VARIABLES:
            raise settings.blamed(error) from None
        # It is set for all programs of a machine, by somebody who may not know of this one.
        logger.warning("otlp_not_opened", variable=endpoint.source.place, reason=str(error))
        return None


async def _run_telemetry(telemetry: "Telemetry", runtime: Runtime, observatory: Observatory, stack: AsyncExitStack) -> None:
    def name_of(tenant_id: TenantId, agent_id: AgentId) -> str | None:
        found = runtime.roster.find(tenant_id, agent_id)
        return found.image.name if isinstance(found, Agent) else None

    telemetry.tracing.name_of, telemetry.samples = name_of, observatory.samples
    tasks = await stack.enter_async_context(open_tasks())
    tasks.start_soon(telemetry.run)
    stack.callback(tasks.cancel_scope.cancel)


class Resident:
    """Who is in memory, for those who drop what is old; see `agentvm.sessions.retention.Presence`."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self.tell = runtime.tell
        self.thinned = runtime.forget_told

    def busy(self, tenant_id: TenantId, container_id: ContainerId, session_id: SessionId) -> bool:
        present = self._runtime.roster.get(tenant_id, container_id, session_id)
        if isinstance(present, Agent) and not present.resting:
            return True
        # What the journal still carries is needed by a restart.
        log = self._runtime.journal.find(tenant_id, session_id)
        return log is not None and bool(log.tail or log.open_turns)

    async def leave(self, tenant_id: TenantId, container_id: ContainerId, session_id: SessionId) -> None:
        present = self._runtime.roster.get(tenant_id, container_id, session_id)
        if present is not None:
            await self._runtime.stop_agent(present)


class Erased:
    """What memory knows of things that are being erased; see `agentvm.sessions.erasing.Presence`."""

    def __init__(self, runtime: Runtime, stop: Stop) -> None:
        self.stop = stop
        self.forget = runtime.forget_session


def open_eraser(tenancy: Tenancy, runtime: Runtime, stop: Stop) -> Eraser:
    """Erases what is deleted, and what was when the server was last stopped."""
    eraser = Eraser(tenancy.store, Erased(runtime, stop))
    tenancy.people.stop, tenancy.people.erase = stop, eraser.wake
    return eraser


def open_retainer(settings: ConfigCentre, store: Store, clock: Clock, runtime: Runtime, observatory: Observatory) -> Retainer:
    """Keeps each tenant's policy as it is when it runs."""

    def counted(due: Due) -> None:
        observatory.metrics.dropped.update(sessions=due.sessions, emptied=due.emptied, messages=due.messages, bytes=due.bytes)

    return Retainer(store, clock, lambda tenant_id: settings.settings_of(tenant_id).retention, Resident(runtime), counted)


def tend(rules: Rules, store: Store, clock: Clock, new_id: NewId) -> Beside:
    """What is done beside turns: titles, summaries, and the upkeep of the search."""
    return Beside(
        store,
        clock,
        new_id,
        by=lambda tenant_id: rules.settings.settings_of(tenant_id).sessions.titles,
        settings=rules.settings.settings_of,
        choose=rules.tenancy.own_keys.choose,
        meter=rules.metering,
    )
