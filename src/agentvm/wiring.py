"""Wiring — opens the parts of a server from its settings, and applies changed settings to them."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from agentvm.config import ServerConfig
from agentvm.config.centre import ConfigCentre
from agentvm.config.layers import COLLECTOR, merge
from agentvm.config.load import SHARED_VARIABLES
from agentvm.drivers.base import Driver
from agentvm.drivers.models import Models, Provider, naming
from agentvm.drivers.registry import open_driver
from agentvm.errors import ConfigInvalid, ToolFailed
from agentvm.log import conceal, get_logger, set_level
from agentvm.model.headers import parse_headers
from agentvm.model.ids import AgentId, Clock, NewId, TenantId
from agentvm.model.public_address import AddressRules
from agentvm.observability.log_book import LogBook, LogFiles
from agentvm.observability.monitor import Monitor, known_models
from agentvm.observability.turn_lines import TurnLines
from agentvm.resources.centre import ResourceCentre
from agentvm.runtime.agent import Agent
from agentvm.runtime.builtin_tools import builtin_tools
from agentvm.runtime.function_tool import as_tool
from agentvm.runtime.runtime import Runtime, open_runtime
from agentvm.runtime.tasks import open_tasks
from agentvm.runtime.tools import ServerTools, Tool, tool_of
from agentvm.sessions.background import BackgroundWork
from agentvm.sessions.erasing import Eraser
from agentvm.sessions.retention import Due, LoadedSessions, Retainer
from agentvm.storage.engine import DATABASE
from agentvm.storage.sql.store import Store
from agentvm.tenants.access import Access
from agentvm.tenants.authentication import Ended
from agentvm.tenants.metering import Metering
from agentvm.tenants.people import StatusCheckingMeter, Stop
from agentvm.tenants.price import Prices
from agentvm.tenants.quota import Quotas
from agentvm.tenants.tenancy import Tenancy
from agentvm.tenants.tool_metering import ToolMetering
from agentvm.tenants.vault import Vault
from agentvm.tools.base import KnowledgeSource
from agentvm.tools.builtin.ask_user import AskUser
from agentvm.tools.builtin.files import FILE_TOOLS
from agentvm.tools.builtin.load_skill import LoadSkill
from agentvm.tools.builtin.memory import MEMORY_TOOLS
from agentvm.tools.builtin.run_code import CODE_TOOLS, RunCode, programs_text
from agentvm.tools.builtin.search_knowledge import SearchKnowledge
from agentvm.tools.builtin.wake_me import WakeMe
from agentvm.tools.builtin.web_fetch import WebFetch
from agentvm.tools.builtin.web_search import WebSearch, search_rules
from agentvm.tools.from_spec import ToolFactory
from agentvm.tools.mcp.consent import CALLBACK, CLIENT
from agentvm.tools.mcp.credentials import SealedCredentials
from agentvm.tools.mcp.pool import McpPool
from agentvm.tools.mcp.servers import OAuthSettings
from agentvm.tools.mcp.setup import ServerPrograms, make_servers
from agentvm.tools.metered_jobs import MeteredJobs
from agentvm.tools.safe_http import Outgoing, SafeHttp, endpoint_of, parse_url
from agentvm.tools.secrets import SecretGrants
from agentvm.tools.sets import ToolSets
from agentvm.webhooks.sender import WebhookSender

if TYPE_CHECKING:
    from agentvm.observability.telemetry import Telemetry
    from agentvm.tenants.oidc import Oidc
    from agentvm.tenants.oidc_flow import OidcFlow

logger = get_logger(__name__)


class SettingsApplier:
    """Applies changed settings to a running server; see `agentvm.config.centre.Follower`."""

    def __init__(
        self, models: Models | None, prices: Prices, metering: Metering, logs: LogBook, quotas: Quotas | None = None
    ) -> None:
        """Without `models` the drivers are those of the program, which stay."""
        self._models, self._prices, self._metering, self._logs = models, prices, metering, logs
        self._quotas = quotas

    async def attempt(self, config: ServerConfig) -> None:
        if self._models is None:
            return
        for name, (driver, settings) in config.driver_settings_by_provider.items():
            with naming(name, driver):
                async with open_driver(driver, settings):
                    pass

    async def follow(self, before: ServerConfig, after: ServerConfig) -> None:
        if self._models is not None and provider_setup(before) != provider_setup(after):
            await configure(self._models, after)
        self._prices.replace(after.billing.prices)
        if self._quotas is not None:
            await self._quotas.replace_plans(after.plans_by_name)
        self._metering.configure(markup=after.billing.markup, allow_unpriced=after.allows_unpriced)
        for secret in after.secrets:
            conceal(secret.reveal())
        if before.system.log_level != after.system.log_level:
            set_level(after.system.log_level)
        await self._logs.keep(log_files_of(after))


def log_files_of(config: ServerConfig) -> LogFiles:
    """The files of the log; none for a server that keeps everything in memory."""
    folder = (
        None if config.data_dir is None or config.system.log_file == "off" else config.data_dir.expanduser().absolute() / "logs"
    )
    return LogFiles(folder=folder, most_bytes=config.system.log_file_bytes, most_files=config.system.log_files)


async def open_models(
    settings: ConfigCentre, drivers: Mapping[str, Driver] | None, stack: AsyncExitStack, clock: Clock
) -> Models:
    """Opens the providers of the settings, or the drivers of the program."""
    if drivers:
        return await stack.enter_async_context(Models(drivers, next(iter(drivers)), open_one=open_driver, clock=clock))
    models = await stack.enter_async_context(Models(open_one=open_driver, clock=clock))
    try:
        await configure(models, settings.config)
    except ConfigInvalid as error:
        raise settings.blamed(error) from None
    return models


async def configure(models: Models, config: ServerConfig) -> None:
    """Opens the providers of a config in the place of those that are open."""
    opened = config.driver_settings_by_provider.items()
    providers = [Provider(name=name, driver=driver, settings=settings) for name, (driver, settings) in opened]
    await models.configure(providers, default=config.default_model, fallback=config.llm.fallback)


def provider_setup(config: ServerConfig) -> tuple[object, ...]:
    """The settings of all providers, and their order."""
    return config.driver_settings_by_provider, config.default_model, config.llm.fallback


@dataclass(frozen=True, slots=True)
class OpenedOidc:
    """The identity provider whose tokens are accepted, and the transport to it."""

    oidc: "Oidc"
    http: SafeHttp


async def open_oidc(config: ServerConfig, clock: Clock, stack: AsyncExitStack) -> "OpenedOidc | None":
    """Opens the way to the identity provider, if there is one."""
    oidc = config.system.oidc
    if oidc.issuer is None or oidc.audience is None:
        return None
    # Imported here: it takes a tenth of a second, and few servers need it.
    from agentvm.tenants.oidc import DOCUMENT_MAX_BYTES, Oidc, OidcSettings  # noqa: PLC0415

    # The operator's own provider may have any address; others that it names have public ones.
    own = [endpoint_of(url) for url in (oidc.issuer, oidc.jwks_url) if url is not None]
    http = await stack.enter_async_context(SafeHttp(AddressRules.parse([address for address in own if address is not None])))

    async def fetch(url: str) -> bytes:
        fetched = await http.send(Outgoing(method="GET", url=parse_url(url)), max_bytes=DOCUMENT_MAX_BYTES)
        if fetched.status != 200:
            raise ToolFailed(f"{url} answered {fetched.status}")
        return fetched.body

    settings = OidcSettings(issuer=oidc.issuer, audience=oidc.audience, jwks_url=oidc.jwks_url, tenant_claim=oidc.tenant_claim)
    return OpenedOidc(Oidc(settings, clock, fetch=fetch), http)


def open_oidc_flow(
    config: ServerConfig, opened: "OpenedOidc | None", vault: Vault, access: Access, store: Store, clock: Clock
) -> "OidcFlow | None":
    """Returns the way in which browsers sign in at the identity provider, if it knows this server."""
    if opened is None or config.system.oidc.client_id is None:
        return None
    from agentvm.tenants.oidc import DOCUMENT_MAX_BYTES  # noqa: PLC0415
    from agentvm.tenants.oidc_flow import OidcClient, OidcFlow  # noqa: PLC0415

    oidc, http = opened.oidc, opened.http

    async def post(url: str, form: bytes, secret_headers: tuple[tuple[str, str], ...]) -> tuple[int, bytes]:
        request = Outgoing(
            method="POST",
            url=parse_url(url),
            headers=(("Content-Type", "application/x-www-form-urlencoded"), ("Accept", "application/json")),
            has_secrets=True,
            secret_headers=secret_headers,
            content=form,
        )
        fetched = await http.send(request, max_bytes=DOCUMENT_MAX_BYTES)
        return fetched.status, fetched.body

    named = config.system.oidc
    client = OidcClient(client_id=config.system.oidc.client_id, name=named.name, session_hours=named.session_hours)
    return OidcFlow(oidc, client, vault=vault, access=access, store=store, clock=clock, post=post)


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """The services that a runtime is opened with."""

    settings: ConfigCentre
    models: Models
    tenancy: Tenancy
    ended: list[Ended]
    """The callbacks for rights that have ended."""
    prices: Prices
    metering: StatusCheckingMeter
    logs: LogBook


async def open_tools(
    services: Services,
    resources: ResourceCentre,
    own_tools: Sequence[Tool | Callable[..., object]],
    jobs: MeteredJobs,
    clock: Clock,
    stack: AsyncExitStack,
) -> tuple[ServerTools, ToolSets]:
    """Opens the tools of the server: built-in ones, those of the embedding program, and those that images bring along."""
    settings = services.settings.config.tools
    http = await stack.enter_async_context(SafeHttp(AddressRules.parse(settings.network.allow)))
    tools = [*builtin_tools(clock), tool_of(AskUser()), tool_of(WakeMe(clock)), tool_of(WebFetch(http))]
    if settings.search.engine is not None:
        search_http = await stack.enter_async_context(SafeHttp(search_rules(settings.search)))
        tools.append(tool_of(WebSearch(settings.search, search_http)))
    tools += [*map(tool_of, FILE_TOOLS), *map(tool_of, MEMORY_TOOLS), tool_of(SearchKnowledge())]
    tools.append(tool_of(LoadSkill()))
    tools += [_code_tool(RunCode(spec=spec, engine=engine, jobs=jobs)) for spec, engine in CODE_TOOLS]
    grants = SecretGrants(store=services.tenancy.store, vault=services.tenancy.vault)
    pool = await stack.enter_async_context(McpPool())
    programs = ServerPrograms(jobs=jobs, resources=resources, grants=grants)
    mcp = make_servers(settings, http=http, pool=pool, programs=programs, oauth=_mcp_sign_in(services, clock))
    factory = ToolFactory(http=http, jobs=jobs, grants=grants, mcp=mcp)
    return ServerTools((*tools, *map(as_tool, own_tools)), make=factory.make), ToolSets(http=http, mcp=mcp)


def _mcp_sign_in(services: Services, clock: Clock) -> OAuthSettings:
    tenancy, config = services.tenancy, services.settings.config
    return OAuthSettings(
        credentials=SealedCredentials(store=tenancy.store, vault=tenancy.vault, clock=clock),
        redirect_uri=f"{config.address}{CALLBACK}",
        # Authorization servers fetch it, so it must be public.
        client_metadata_url=f"{config.address}{CLIENT}" if config.address.startswith("https://") else None,
        clock=lambda: clock() / 1000,
        anonymous=not config.authenticates,
    )


def _code_tool(run_code: RunCode) -> Tool:
    tool = replace(tool_of(run_code), within=lambda sandbox: _code_tool(run_code.within(sandbox)))
    return replace(tool, beside=programs_text) if run_code.runs_programs else tool


def _database_file(config: ServerConfig) -> Path | None:
    if config.data_dir is None or config.system.database is not None:
        return None
    return config.data_dir / DATABASE


async def open_monitored_runtime(
    services: Services,
    store: Store,
    tools: ServerTools,
    clock: Clock,
    new_id: NewId,
    background: BackgroundWork,
    webhooks: WebhookSender,
    stack: AsyncExitStack,
    *,
    knowledge: KnowledgeSource | None = None,
    recovers_later: bool = False,
) -> tuple[Runtime, Monitor]:
    """Opens the runtime, and its monitor."""
    settings = services.settings
    monitor = Monitor(
        clock=clock,
        is_known=known_models(services.models.health, lambda: (*settings.config.llm.fallback, *settings.config.billing.prices)),
        tools=lambda: tools.names(None),
        database=_database_file(settings.config),
    )
    background.count(monitor.metrics.billed)
    telemetry = await _open_telemetry(settings, monitor, tools, clock, stack)
    traced = () if telemetry is None else (telemetry.tracing,)
    runtime = await stack.enter_async_context(
        open_runtime(
            store=store,
            models=services.models,
            tools=tools,
            clock=clock,
            new_id=new_id,
            settings=settings.settings_of,
            cost=services.prices.cost,
            meter=services.metering,
            tool_meter=ToolMetering(services.tenancy.quotas),
            choose=services.tenancy.own_keys.choose,
            admit_bytes=services.tenancy.admit_bytes,
            effectors=(monitor.metrics, TurnLines(), *background.effectors, webhooks, *traced),
            suspends=settings.config.is_durable,
            knowledge=knowledge,
            recovers_later=recovers_later,
        )
    )
    background.compactor.weigh = runtime.histories.weigh
    monitor.watch(runtime, store, runtime.broadcaster.count_connected)
    if telemetry is not None:
        await _run_telemetry(telemetry, runtime, monitor, stack)
    return runtime, monitor


async def _open_telemetry(
    settings: ConfigCentre, monitor: Monitor, tools: ServerTools, clock: Clock, stack: AsyncExitStack
) -> "Telemetry | None":
    """Opens the export to a collector, if there is one. Before the runtime, so that it hears of its last turns."""
    otel = settings.config.otel
    if otel.endpoint is None or "on" not in (otel.traces, otel.metrics):
        return None
    # Imported here: only servers that export pay for it.
    from agentvm.observability.telemetry import open_telemetry  # noqa: PLC0415

    for value in parse_headers("" if otel.headers is None else otel.headers.reveal()).values():
        # Decoded, as it is sent.
        conceal(value)
    try:
        return await stack.enter_async_context(
            open_telemetry(
                otel,
                clock=clock,
                is_known=monitor.metrics.known,
                tools=lambda: tools.names(None),
                driver_of=lambda provider: settings.config.driver_of(provider),
            )
        )
    except ConfigInvalid as error:
        endpoint = merge(settings.config.layers).get(COLLECTOR)
        if endpoint is None or endpoint.source.place not in SHARED_VARIABLES:
            raise settings.blamed(error) from None
        # A shared variable may not be meant for this server.
        logger.warning("otlp_not_opened", variable=endpoint.source.place, reason=str(error))
        return None


async def _run_telemetry(telemetry: "Telemetry", runtime: Runtime, monitor: Monitor, stack: AsyncExitStack) -> None:
    def name_of(tenant_id: TenantId, agent_id: AgentId) -> str | None:
        agent = runtime.roster.find(tenant_id, agent_id)
        return agent.image.name if isinstance(agent, Agent) else None

    telemetry.tracing.name_of, telemetry.samples = name_of, monitor.samples
    tasks = await stack.enter_async_context(open_tasks())
    tasks.start_soon(telemetry.run)
    stack.callback(tasks.cancel_scope.cancel)


async def open_webhooks(services: Services, store: Store, clock: Clock, stack: AsyncExitStack) -> WebhookSender:
    """Returns the sender of webhooks, which reaches the same addresses as the tools do."""
    rules = AddressRules.parse(services.settings.config.tools.network.allow)
    http = await stack.enter_async_context(SafeHttp(rules))
    return WebhookSender(store, services.tenancy.vault, http, clock)


def open_eraser(tenancy: Tenancy, runtime: Runtime, stop: Stop, stop_everywhere: Stop) -> Eraser:
    """Returns the eraser of deleted data, and connects it with the deletion of people, of which every node hears."""
    eraser = Eraser(tenancy.store, stop_everywhere, runtime.forget_session)
    tenancy.people.stop, tenancy.people.erase = stop, eraser.wake
    return eraser


def open_retainer(settings: ConfigCentre, store: Store, clock: Clock, runtime: Runtime, monitor: Monitor) -> Retainer:
    """Returns the retainer, which follows the retention settings of each tenant."""

    def counted(due: Due) -> None:
        monitor.metrics.dropped.update(sessions=due.sessions, emptied=due.emptied, messages=due.messages, bytes=due.bytes)

    return Retainer(store, clock, lambda tenant_id: settings.settings_of(tenant_id).retention, LoadedSessions(runtime), counted)


def open_background(services: Services, store: Store, clock: Clock, new_id: NewId) -> BackgroundWork:
    """Returns the background work: titles, memories, summaries, and the upkeep of the search."""
    return BackgroundWork(
        store,
        clock,
        new_id,
        by=lambda tenant_id: services.settings.settings_of(tenant_id).sessions.titles,
        settings=services.settings.settings_of,
        choose=services.tenancy.own_keys.choose,
        meter=services.metering,
    )
