"""AgentVM — the composition root: the only file that knows every part."""

import hashlib
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from functools import partial

import anyio
import anyio.abc

from agentvm.blueprint.builder import check_tools
from agentvm.blueprint.definition import Definitions
from agentvm.cluster.adoption import Adopter
from agentvm.cluster.bus import Hearing, Seal
from agentvm.cluster.mailbox import OPERATION, Mailbox
from agentvm.cluster.membership import Membership, after_each_end, open_membership, while_leading
from agentvm.cluster.notices import NoticeBoard
from agentvm.cluster.quota_parts import PartExchange
from agentvm.cluster.relay import EventRelay
from agentvm.cluster.stopping import TurnStopper
from agentvm.config import ServerConfig
from agentvm.config.build import base_of
from agentvm.config.centre import ConfigCentre
from agentvm.drivers.base import Driver
from agentvm.drivers.models import Models
from agentvm.drivers.registry import KEY_VARIABLES, open_driver
from agentvm.errors import AgentVMError, ConfigInvalid
from agentvm.knowledge.embed import open_embedder
from agentvm.knowledge.library import KnowledgeLibrary, make_library
from agentvm.log import get_logger
from agentvm.model.definition import Definition
from agentvm.model.ids import Clock, NewId, id_factory
from agentvm.model.secret import Secret
from agentvm.model.settings import LogLevel
from agentvm.observability.log_book import open_log_book
from agentvm.observability.redact import Redactor
from agentvm.operations.forwarded import serve
from agentvm.resources.centre import ResourceCentre, make_centre
from agentvm.resources.shipped import publish_shipped
from agentvm.runtime.runtime import Runtime
from agentvm.runtime.tasks import open_tasks
from agentvm.runtime.tools import Tool
from agentvm.sessions.background import BackgroundWork
from agentvm.storage.engine import DATABASE, lock_data_dir, open_postgres, open_shared, open_store
from agentvm.storage.sql.store import Store
from agentvm.tenants.access import Access
from agentvm.tenants.authentication import Ended, Named, Why
from agentvm.tenants.metering import Metering
from agentvm.tenants.own_keys import OwnKeys
from agentvm.tenants.people import People, StatusCheckingMeter
from agentvm.tenants.plans import Plans
from agentvm.tenants.price import Prices
from agentvm.tenants.quota import Quotas
from agentvm.tenants.server_key import ServerKey, find_server_key, has_server_key, load_server_key
from agentvm.tenants.tenancy import Tenancy
from agentvm.tenants.vault import Vault
from agentvm.tiers.on_demand import TiersOnDemand
from agentvm.tools.metered_jobs import MeteredJobs
from agentvm.tools.remote_server import open_remote_server
from agentvm.version import VERSION
from agentvm.vm import AgentVM, system_clock
from agentvm.wiring import (
    OpenedOidc,
    Services,
    SettingsApplier,
    open_background,
    open_eraser,
    open_models,
    open_monitored_runtime,
    open_oidc,
    open_oidc_flow,
    open_retainer,
    open_tools,
    open_webhooks,
)

logger = get_logger(__name__)

QUOTA_RELEASE_SECONDS = 2.0
"""Time for which a node that ends waits for the database to release its unused parts of limits."""


@asynccontextmanager
async def open_agentvm(
    config: ServerConfig,
    *,
    definitions: Sequence[Definition] = (),
    drivers: Mapping[str, Driver] | None = None,
    tools: Sequence[Tool | Callable[..., object]] = (),
    clock: Clock = system_clock,
    overrides: bool = True,
    recovers_later: bool = False,
) -> AsyncIterator[AgentVM]:
    """Opens an AgentVM. `drivers` replace the providers of the config; the first of them is the default.

    `tools` are functions of the embedding program, see `agentvm.tool`; an image has the ones that its definition names. Without
    `overrides` changes of settings at run time are ignored; with `recovers_later` operations wait until old turns are known.
    """
    new_id = id_factory(clock, secrets.randbits)
    async with AsyncExitStack() as stack:
        store, membership = await _open_store(config, clock, stack)
        services = await _open_services(config, store, drivers, stack, clock, overrides=overrides)
        resources, background = await _open_resources(store, clock, new_id), open_background(services, store, clock, new_id)
        jobs, webhooks = _jobs(services, store, clock), await open_webhooks(services, store, clock, stack)
        server_tools, tool_sets = await open_tools(services, resources, tools, jobs, clock, stack)
        knowledge = await _open_knowledge(services, resources, jobs, clock, new_id, stack)
        open_one = partial(open_monitored_runtime, knowledge=knowledge, recovers_later=recovers_later)
        runtime, monitor = await open_one(services, store, server_tools, clock, new_id, background, webhooks, stack)
        _check(runtime, definitions)
        vm = AgentVM(
            store=store,
            runtime=runtime,
            tenancy=services.tenancy,
            definitions=Definitions(store, clock, definitions),
            resources=resources,
            logs=services.logs,
            clock=clock,
            new_id=new_id,
            first_key=await _bootstrap(services.settings, services.tenancy),
            settings=services.settings,
            monitor=monitor,
            compactor=background.compactor,
            imports=background.imports,
            relays=background.relays,
            retainer=open_retainer(services.settings, store, clock, runtime, monitor),
            jobs=jobs,
            tool_sets=tool_sets,
            webhooks=webhooks,
            membership=membership,
            knowledge=knowledge,
        )
        await _start_tasks(vm, services.ended, background, stack)
        yield vm


async def _open_resources(store: Store, clock: Clock, new_id: NewId) -> ResourceCentre:
    """Opens the resource centre, with the resources that ship with this release."""
    resources = make_centre(store, clock, new_id)
    await publish_shipped(resources)
    return resources


async def _open_knowledge(
    services: Services, resources: ResourceCentre, jobs: MeteredJobs, clock: Clock, new_id: NewId, stack: AsyncExitStack
) -> KnowledgeLibrary:
    config, store = services.settings.config, resources.store
    embedder = await open_embedder(config.tools.embedder, config.model_dir, store, services.metering, clock, new_id, stack)
    return make_library(store, resources, jobs, clock, new_id, embedder)


def _jobs(services: Services, store: Store, clock: Clock) -> MeteredJobs:
    settings = services.settings
    return MeteredJobs(
        tiers=TiersOnDemand(lambda: settings.config, clock, open_remote_server),
        store=store,
        quotas=services.tenancy.quotas,
        clock=clock,
        rules=lambda tenant_id: settings.settings_of(tenant_id).tools.tiers.rules,
    )


def _check(runtime: Runtime, definitions: Sequence[Definition]) -> None:
    for definition in definitions:
        runtime.models.choose(definition.model)
        check_tools(definition, runtime.tools.names(None))


async def _open_store(config: ServerConfig, clock: Clock, stack: AsyncExitStack) -> tuple[Store, Membership | None]:
    path = None if config.data_dir is None else stack.enter_context(lock_data_dir(config.data_dir)) / DATABASE
    if config.system.database is not None:
        if path is not None and path.exists():
            logger.warning("sqlite_database_unused", path=str(path), remedy="copy it with avm database copy, or move it away")
        url, cluster = config.system.database.reveal(), config.cluster
        if cluster.enabled != "on":
            return await stack.enter_async_context(open_postgres(url, _key_check(config))), None
        shared = open_shared(url, config.node_name, VERSION, _key_check(config))
        store, nodes = await stack.enter_async_context(shared)
        opened = open_membership(nodes, lease_seconds=cluster.lease_seconds, clock=clock)
        return store, await stack.enter_async_context(opened)
    return await stack.enter_async_context(open_store(path)), None


def _key_check(config: ServerConfig) -> bytes | None:
    """The check value of the server key; None while there is none."""
    configured = None if config.system.server_key is None else config.system.server_key.reveal()
    if config.data_dir is None:
        return None if configured is None else load_server_key(None, configured).check_value
    key = find_server_key(config.data_dir.expanduser().absolute(), configured)
    return None if key is None else key.check_value


async def _open_services(
    config: ServerConfig,
    store: Store,
    drivers: Mapping[str, Driver] | None,
    stack: AsyncExitStack,
    clock: Clock,
    *,
    overrides: bool,
) -> Services:
    logs = await stack.enter_async_context(open_log_book(clock, Redactor(config.secrets)))
    keys = await _load_server_key(config, store)
    vault = Vault(store, key=keys.vault, clock=clock)
    settings = ConfigCentre(base_of(config), store, vault, clock, ignore=not overrides)
    await settings.load()
    models = await open_models(settings, drivers, stack, clock)
    prices = Prices()
    oidc = await open_oidc(settings.config, clock, stack)
    tenancy, ended = _open_tenancy(settings, store, models, clock, vault, keys.pepper, prices, oidc)
    stack.push_async_callback(tenancy.own_keys.aclose)
    applier = SettingsApplier(None if drivers else models, prices, tenancy.metering, logs, tenancy.quotas)
    await _follow(settings, applier, config.system.log_level, tenancy.own_keys)
    checked = StatusCheckingMeter(tenancy.metering, tenancy.people.standing)
    return Services(settings=settings, models=models, tenancy=tenancy, ended=ended, prices=prices, metering=checked, logs=logs)


async def _bootstrap(settings: ConfigCentre, tenancy: Tenancy) -> Secret | None:
    config = settings.config
    try:
        return await tenancy.access.bootstrap(config.system.admin_key) if config.authenticates else None
    except ConfigInvalid as error:
        raise settings.blamed(error) from None


async def _start_tasks(vm: AgentVM, ended: list[Ended], background: BackgroundWork, stack: AsyncExitStack) -> None:
    await vm.tenancy.access.ensure_default_tenant()
    # Clients whose rights end are disconnected; their turns are stopped, and deleted data is erased.
    ended.append(vm.dismiss)
    tasks = await stack.enter_async_context(open_tasks())
    eraser = open_eraser(vm.tenancy, vm.runtime, vm.stop_turns, vm.stop_turns_everywhere)
    tasks.start_soon(vm.tenancy.quotas.byte_counts.run)
    for task in (vm.close_expired, vm.monitor.sampler.run, vm.monitor.series.run, vm.tiers.run, vm.knowledge.indexer.run):
        tasks.start_soon(task)
    await tasks.start(vm.relays.run)
    # One node of a cluster does these for all.
    tasks.start_soon(while_leading, vm.membership, vm.webhooks.run)
    resume = vm.knowledge.indexer.resume
    again = resume if vm.membership is None else partial(after_each_end, vm.membership, resume)
    tasks.start_soon(while_leading, vm.membership, again)
    # These change sessions, so the turns that may be left in them must be known.
    for later in (vm.collect, eraser.run, vm.run_schedules):
        tasks.start_soon(_once_recovered, vm.runtime, partial(while_leading, vm.membership, later))
    tasks.start_soon(_once_recovered, vm.runtime, partial(background.run, vm.runtime.broadcast, vm.runtime.memories))
    if vm.membership is not None:
        vm.hearing = await _open_hearing(vm, vm.membership, stack)
        ended.append(_start_node(vm, vm.membership, tasks).shout)
        stack.push_async_callback(_give_back, vm.tenancy.quotas)
    stack.callback(tasks.cancel_scope.cancel)


def _start_node(vm: AgentVM, membership: Membership, tasks: anyio.abc.TaskGroup) -> NoticeBoard:
    """Starts the tasks of a cluster's node beside serving: takeover, relay, answers to other nodes, and their changes."""
    hearing = vm.hearing
    membership.report = vm.report
    relay = EventRelay(membership, vm.runtime, vm.store, vm.clock, hearing)
    vm.runtime.replay.mirror, vm.runtime.replay.refresh = relay.open, relay.refresh
    assert vm.runtime.ecosystem is not None
    vm.runtime.ecosystem.elsewhere = relay.announce
    vm.mailbox = Mailbox(membership, vm.clock, hearing)
    vm.mailbox.serving[OPERATION] = partial(serve, vm)
    PartExchange(vm.mailbox, vm.tenancy.quotas)
    TurnStopper(membership, vm.mailbox, vm.runtime)
    for task in (hearing.run,) if hearing is not None else ():
        tasks.start_soon(task)
    for task in (membership.watch, Adopter(membership, vm.runtime).run, relay.run, vm.mailbox.run):
        tasks.start_soon(task)
    board = NoticeBoard(
        membership,
        vm.store,
        access=vm.tenancy.access,
        people=vm.tenancy.people,
        quotas=vm.tenancy.quotas,
        quarantine=vm.runtime.quarantine,
        settings=vm.settings,
        close=vm.dismiss,
        hearing=hearing,
    )
    tasks.start_soon(board.run)
    return board


async def _give_back(quotas: Quotas) -> None:
    """Returns the unused parts of limits to the other nodes; otherwise they get them when the windows end."""
    try:
        with anyio.move_on_after(QUOTA_RELEASE_SECONDS, shield=True):
            await quotas.give_back()
    except AgentVMError as error:
        logger.warning("quota_not_given_back", code=error.code, error=str(error))


async def _open_hearing(vm: AgentVM, membership: Membership, stack: AsyncExitStack) -> Hearing | None:
    """Opens the bus between the nodes, if there is one. Clusters of other keys and databases may share its servers."""
    settings, key = vm.config.cluster, vm.config.system.server_key
    if settings.nats is None or key is None:
        return None
    # Few servers need it.
    from agentvm.cluster.nats import open_nats  # noqa: PLC0415
    from agentvm.cluster.nats_wire import parse_addresses  # noqa: PLC0415

    server_key = load_server_key(None, key.reveal())
    name = (await vm.store.describe_database()).name
    cluster = hashlib.sha256(server_key.check_value + name.encode()).hexdigest()[:16]
    addresses = parse_addresses(settings.nats.reveal())
    opened = open_nats(addresses, Seal(server_key.bus), f"avm.{cluster}", vm.config.node_name)
    return Hearing(await stack.enter_async_context(opened), membership)


async def _once_recovered(runtime: Runtime, task: Callable[[], Awaitable[None]]) -> None:
    await runtime.recovered.wait()
    await task()


async def _follow(settings: ConfigCentre, applier: SettingsApplier, log_level: LogLevel, own_keys: OwnKeys) -> None:
    """Applies the settings to the log, which was opened before them, and from now on every change to all parts."""
    await applier.follow(replace(settings.config, system=replace(settings.config.system, log_level=log_level)), settings.config)
    settings.bind(applier, own_keys.unusable)


async def _load_server_key(config: ServerConfig, store: Store) -> ServerKey:
    """Returns the server key; `ConfigInvalid` if it is missing: a new one would fit no stored key and no secret."""
    data_dir = None if config.data_dir is None else config.data_dir.expanduser().absolute()
    if config.system.server_key is None and data_dir is not None and not has_server_key(data_dir):
        if await store.directory.has_keys():
            raise ConfigInvalid(
                f"API keys exist, but {data_dir}/server.key, which they are checked with, is missing: restore it"
            )
    return load_server_key(data_dir, None if config.system.server_key is None else config.system.server_key.reveal())


def _open_tenancy(
    settings: ConfigCentre,
    store: Store,
    models: Models,
    clock: Clock,
    vault: Vault,
    pepper: bytes,
    prices: Prices,
    oidc: OpenedOidc | None,
) -> tuple[Tenancy, list[Ended]]:
    """The tenancy, and the list of callbacks for rights that have ended."""
    ended: list[Ended] = []

    def notify(named: Named, why: Why) -> None:
        for listener in ended:
            listener(named, why)

    access = Access(
        store,
        pepper=pepper,
        clock=clock,
        oidc=None if oidc is None else oidc.oidc,
        ended=notify,
        shared_tickets=store.tickets if store.node_id else None,
    )
    quotas = Quotas(store, clock, Plans(settings.config.plans_by_name))
    tenancy = Tenancy(
        access=access,
        people=People(store, access, clock=clock),
        quotas=quotas,
        metering=Metering(prices, quotas, clock),
        vault=vault,
        own_keys=OwnKeys(
            models,
            vault,
            lambda driver: settings.config.driver_settings(driver),
            clock,
            open_one=open_driver,
            with_keys=KEY_VARIABLES,
            default_of=settings.default_of,
            allowed=lambda provider: settings.config.takes_own_keys(provider),
            free=lambda candidate: prices.is_free(candidate.driver.name, candidate.model, candidate.provider),
        ),
        store=store,
        oidc=open_oidc_flow(settings.config, oidc, vault, access, store, clock),
    )
    return tenancy, ended
