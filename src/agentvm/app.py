"""AgentVM — the composition root: the only file that knows every part."""

import secrets
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace

import anyio

from agentvm.blueprint.definition import Definitions
from agentvm.commands.call import Peer
from agentvm.config import ServerConfig
from agentvm.config.build import base_of
from agentvm.config.centre import Centre
from agentvm.drivers.base import Driver
from agentvm.drivers.models import Models
from agentvm.drivers.registry import KEY_VARIABLES, open_driver
from agentvm.errors import AgentVMError, ConfigInvalid, NotAvailable
from agentvm.live import Live, Rules, open_eraser, open_models, open_oidc, open_retainer, open_watched, tend
from agentvm.log import get_logger
from agentvm.model.definition import Definition
from agentvm.model.ids import DEFAULT_TENANT, Clock, ContainerId, NewId, TenantId, UserId, id_factory
from agentvm.model.principal import EVERYTHING, Principal
from agentvm.model.secret import Secret
from agentvm.observability.log_book import LogBook, open_log_book
from agentvm.observability.observatory import Observatory
from agentvm.observability.redact import Redactor
from agentvm.resources.centre import ResourceCentre, make_centre
from agentvm.resources.shipped import ship
from agentvm.runtime.channel import Channel, Closing
from agentvm.runtime.runtime import Runtime
from agentvm.runtime.tasks import open_tasks
from agentvm.sessions.beside import Beside
from agentvm.sessions.compaction import Compactor
from agentvm.sessions.export import export_budget
from agentvm.sessions.import_queue import ImportQueue
from agentvm.sessions.retention import Retainer
from agentvm.sessions.upkeep import purge
from agentvm.sharing.byte_budget import ByteBudget
from agentvm.storage.base import Store
from agentvm.storage.engine import DATABASE, lock_data_dir, open_store
from agentvm.tenants.access import Access
from agentvm.tenants.authentication import Ended, Named, Why
from agentvm.tenants.metering import Metering
from agentvm.tenants.own_keys import OwnKeys
from agentvm.tenants.people import People, StatusCheckingMeter
from agentvm.tenants.plans import Plans
from agentvm.tenants.price import Prices
from agentvm.tenants.quota import Quotas
from agentvm.tenants.scoped_store import ScopedStore
from agentvm.tenants.server_key import ServerKey, has_server_key, load_server_key
from agentvm.tenants.tenancy import Tenancy
from agentvm.tenants.vault import Vault

logger = get_logger(__name__)

REVOKED = Closing(4401, "credentials revoked")
SUSPENDED = Closing(4403, "suspended")
EXPIRED = Closing(4408, "credentials expired")

DOORS = 2.0
"""Seconds between two looks for what has expired."""

COLLECT = 3_600.0
"""Seconds between two looks for what nothing refers to."""

GRACE = 3_600_000
ATTACHMENT_GRACE = 24 * 3_600_000
"""Milliseconds for which an upload waits to be sent."""
BREATH = 0.02
"""Seconds between two steps of it, so that others are stored in between."""
"""Milliseconds for which it is kept all the same: somebody may be about to refer to it."""

OPEN_ACCESS = Principal(tenant_id=DEFAULT_TENANT, permissions=EVERYTHING)
"""Without authentication everybody is one tenant, and containers are told apart by their names."""


def system_clock() -> int:
    return time.time_ns() // 1_000_000


class AgentVM:
    """A running AgentVM: what servers and local clients attach peers to."""

    def __init__(
        self,
        *,
        config: ServerConfig,
        store: Store,
        runtime: Runtime,
        tenancy: Tenancy,
        definitions: Definitions,
        resources: ResourceCentre,
        logs: LogBook,
        clock: Clock,
        new_id: NewId,
        first_key: Secret | None = None,
        settings: Centre | None = None,
        observatory: Observatory | None = None,
        compactor: Compactor | None = None,
        retainer: Retainer | None = None,
    ) -> None:
        """Without `settings` the config stays as it is; without an `observatory` nothing is counted.

        Without a `retainer` nothing is too old.
        """
        self.budget = ByteBudget()
        """The budget of bytes that peers have on their way, in either direction."""
        self._compactor = compactor
        self._observatory = observatory
        self._retainer = retainer
        self.imports = ImportQueue()
        self.exporting = export_budget()
        self._config = config
        self._settings = settings
        self.resources = resources
        self.logs = logs
        self.runtime = runtime
        self.tenancy = tenancy
        self.clock = clock
        self.new_id = new_id
        self.first_key = first_key
        """The operator's key, if this start has made it: to be shown once."""
        self._store = store
        self.definitions = definitions
        self._connected: Counter[tuple[TenantId, UserId | None]] = Counter()

    @property
    def config(self) -> ServerConfig:
        """What counts now: most settings can change while the server runs."""
        return self._config if self._settings is None else self._settings.config

    @property
    def settings(self) -> Centre:
        if self._settings is None:
            raise NotAvailable("This server's settings cannot be looked at or changed while it runs")
        return self._settings

    @property
    def observatory(self) -> Observatory:
        if self._observatory is None:
            raise NotAvailable("Nothing is counted on this server")
        return self._observatory

    @property
    def compactor(self) -> Compactor:
        if self._compactor is None:
            raise NotAvailable("Nothing is summed up on this server")
        return self._compactor

    @property
    def retainer(self) -> Retainer:
        if self._retainer is None:
            raise NotAvailable("On this server nothing is too old to be kept")
        return self._retainer

    @property
    def hindrance(self) -> str | None:
        """Why no new work is taken, if so."""
        return self.runtime.hindrance or (None if self._observatory is None else self._observatory.hindrance)

    async def authenticate(self, credential: str | None) -> Principal | None:
        """Who a peer is; None for one that has not said so yet. `Unauthenticated` when the credential is not good."""
        if not self.config.authenticates:
            return OPEN_ACCESS
        return None if credential is None else await self.tenancy.access.authenticate(credential)

    async def admit(self, principal: Principal) -> None:
        """To be asked before a peer is attached: `QuotaExceeded` when there are too many of them."""

        async def count() -> int:
            return self.count_connected(principal.tenant_id)

        async def count_own() -> int:
            return self._connected[principal.tenant_id, principal.user_id]

        await self.tenancy.quotas.check(principal.tenant_id, principal.user_id, "connections", count, of_user=count_own)

    def count_connected(self, tenant_id: TenantId) -> int:
        return sum(number for (tenant, _), number in self._connected.items() if tenant == tenant_id)

    def attach(self, principal: Principal = OPEN_ACCESS, channel: Channel | None = None) -> Peer:
        """A peer with a channel of its own, or with the given one, which is the principal's; the caller detaches it."""
        channel = channel or Channel(principal, self.budget)
        self.runtime.broadcaster.attach(channel)
        self._connected[principal.tenant_id, principal.user_id] += 1
        return Peer(
            channel=channel,
            store=ScopedStore(self._store.tenant(principal.tenant_id), principal),
            runtime=self.runtime,
            definitions=self.definitions,
            resources=self.resources,
            tenancy=self.tenancy,
            clock=self.clock,
            new_id=self.new_id,
            answered=None if self._observatory is None else self._observatory.metrics.answered,
            delivered=None if self._observatory is None else self._observatory.metrics.fanout_time.observe,
            compactor=self._compactor,
            budget=self.budget,
        )

    def detach(self, peer: Peer) -> None:
        self.runtime.broadcaster.detach(peer.channel)
        peer.channel.release()
        key = (peer.tenant_id, peer.principal.user_id)
        self._connected[key] -= 1
        if self._connected[key] <= 0:
            del self._connected[key]

    def dismiss(self, named: Callable[[Principal], bool], why: str) -> None:
        """Closes the channels of those whose rights have ended."""
        for channel in self.runtime.broadcaster.channels:
            if named(channel.principal):
                channel.close(SUSPENDED if why == "suspended" else REVOKED)

    async def stop_turns(self, tenant_id: TenantId, containers: frozenset[ContainerId] | None) -> None:
        """Ends the turns of those for whom nothing is to be done any more: in these containers, or all of the tenant."""
        async with open_tasks() as tasks:
            for agent in self.runtime.roster:
                if agent.tenant_id == tenant_id and (containers is None or agent.container_id in containers):
                    tasks.start_soon(self.runtime.stop_agent, agent)

    async def keep_clean(self) -> None:
        """Drops what nothing refers to any more, until cancelled."""
        while True:
            try:
                if self._retainer is not None:
                    await self._retainer.run()
                await purge(self._store, self.clock, self.runtime.limits_of(None).undo_seconds, self.runtime.forget_session)
                # Last: what went may have been the last to refer to something.
                dropped = 1
                while dropped:
                    dropped = await self._store.collect(self.clock(), grace=GRACE, attachment_grace=ATTACHMENT_GRACE)
                    await anyio.sleep(BREATH)
            except AgentVMError as error:
                logger.error("not_collected", code=error.code, error=str(error))
            await anyio.sleep(COLLECT)

    async def keep_doors(self) -> None:
        """Ends what has expired, until cancelled."""
        while True:
            await anyio.sleep(DOORS)
            now = self.clock()
            for channel in self.runtime.broadcaster.channels:
                expires_at = channel.principal.expires_at
                if expires_at is not None and expires_at <= now:
                    channel.close(EXPIRED)
            try:
                await self.tenancy.access.flush_used()
            except AgentVMError as error:
                logger.error("uses_of_keys_not_stored", code=error.code, error=str(error))


@asynccontextmanager
async def open_agentvm(
    config: ServerConfig,
    *,
    definitions: Sequence[Definition] = (),
    drivers: Mapping[str, Driver] | None = None,
    clock: Clock = system_clock,
    overrides: bool = True,
) -> AsyncIterator[AgentVM]:
    """A started AgentVM. `drivers` replaces those the config names; the first of them is the default.

    Without `overrides` it starts as if its settings had never been changed at run time.
    """
    new_id = id_factory(clock, secrets.randbits)
    async with AsyncExitStack() as stack:
        store = await _open_store(config, stack)
        rules = await _open_rules(config, store, drivers, stack, clock, overrides=overrides)
        settings, tenancy, config = rules.settings, rules.tenancy, rules.settings.config
        centre = make_centre(store, clock, new_id)
        await ship(centre)
        beside = tend(rules, store, clock, new_id)
        runtime, observatory = await open_watched(rules, store, clock, new_id, beside, stack)
        _check(runtime, definitions)
        vm = AgentVM(
            config=config,
            store=store,
            runtime=runtime,
            tenancy=tenancy,
            definitions=Definitions(store, clock, definitions),
            resources=centre,
            logs=rules.logs,
            clock=clock,
            new_id=new_id,
            first_key=await _bootstrap(settings, tenancy),
            settings=settings,
            observatory=observatory,
            compactor=beside.compactor,
            retainer=open_retainer(settings, store, clock, runtime, observatory),
        )
        await _open_doors(vm, rules.ended, beside, stack)
        yield vm


def _check(runtime: Runtime, definitions: Sequence[Definition]) -> None:
    for definition in definitions:
        runtime.check(definition)


async def _open_store(config: ServerConfig, stack: AsyncExitStack) -> Store:
    path = None if config.data_dir is None else stack.enter_context(lock_data_dir(config.data_dir)) / DATABASE
    return await stack.enter_async_context(open_store(path))


async def _open_rules(
    config: ServerConfig,
    store: Store,
    drivers: Mapping[str, Driver] | None,
    stack: AsyncExitStack,
    clock: Clock,
    *,
    overrides: bool,
) -> Rules:
    logs = await stack.enter_async_context(open_log_book(clock, Redactor(config.secrets)))
    keys = await _load_server_key(config, store)
    vault = Vault(store, key=keys.vault, clock=clock)
    settings = Centre(base_of(config), store, vault, clock, ignore=not overrides)
    await settings.load()
    models = await open_models(settings, drivers, stack, clock)
    prices = Prices()
    tenancy, ended = _open_tenancy(settings, store, models, clock, vault, keys.pepper, prices)
    stack.push_async_callback(tenancy.own_keys.aclose)
    metering = Metering(prices, tenancy.quotas, clock)
    live = Live(None if drivers else models, prices, metering, logs, tenancy.quotas)
    await _follow(settings, live, config.log_level, tenancy.own_keys)
    guarded = StatusCheckingMeter(metering, tenancy.people.standing)
    return Rules(settings=settings, models=models, tenancy=tenancy, ended=ended, prices=prices, metering=guarded, logs=logs)


async def _bootstrap(settings: Centre, tenancy: Tenancy) -> Secret | None:
    config = settings.config
    try:
        return await tenancy.access.bootstrap(config.admin_key) if config.authenticates else None
    except ConfigInvalid as error:
        raise settings.blamed(error) from None


async def _open_doors(vm: AgentVM, ended: list[Ended], beside: Beside, stack: AsyncExitStack) -> None:
    await vm.tenancy.access.ensure_default_tenant()
    # Whose rights end is sent away; what runs for them is stopped, and what is deleted is erased.
    ended.append(vm.dismiss)
    tasks = await stack.enter_async_context(open_tasks())
    eraser = open_eraser(vm.tenancy, vm.runtime, vm.stop_turns)
    for keep in (vm.keep_doors, vm.keep_clean, vm.observatory.sampler.run, eraser.run):
        tasks.start_soon(keep)
    tasks.start_soon(beside.run, vm.runtime.tell)
    stack.callback(tasks.cancel_scope.cancel)


async def _follow(settings: Centre, live: Live, log_level: str, own_keys: OwnKeys) -> None:
    """From now on what runs follows the settings. What was opened does already; the log, which was opened before, does not."""
    await live.follow(replace(settings.config, log_level=log_level), settings.config)
    settings.bind(live, own_keys.unusable)


async def _load_server_key(config: ServerConfig, store: Store) -> ServerKey:
    """A new one would refuse every key and open no secret, and nobody would know why."""
    data_dir = None if config.data_dir is None else config.data_dir.expanduser().absolute()
    if config.server_key is None and data_dir is not None and not has_server_key(data_dir):
        if await store.directory.has_keys():
            raise ConfigInvalid(f"There are keys, but {data_dir}/server.key, which they are checked with, is gone: restore it")
    return load_server_key(data_dir, None if config.server_key is None else config.server_key.reveal())


def _open_tenancy(
    settings: Centre, store: Store, models: Models, clock: Clock, vault: Vault, pepper: bytes, prices: Prices
) -> tuple[Tenancy, list[Ended]]:
    """The tenancy, and the list of callbacks for rights that have ended."""
    ended: list[Ended] = []

    def tell(named: Named, why: Why) -> None:
        for listener in ended:
            listener(named, why)

    access = Access(store, pepper=pepper, clock=clock, oidc=open_oidc(settings.config, clock), ended=tell)
    tenancy = Tenancy(
        access=access,
        people=People(store, access, clock=clock),
        quotas=Quotas(store, clock, Plans(settings.config.plans)),
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
            free=lambda one: prices.is_free(one.driver.name, one.model, one.provider),
        ),
        store=store,
    )
    return tenancy, ended
