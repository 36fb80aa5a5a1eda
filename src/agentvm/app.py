"""AgentVM — the composition root: the only file that knows every part."""

import secrets
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import anyio

from agentvm.blueprint.definition import Definitions
from agentvm.commands.call import Peer
from agentvm.commands.reach import Reach
from agentvm.config import ServerConfig
from agentvm.drivers.base import Driver
from agentvm.drivers.models import Models, Provider
from agentvm.drivers.registry import KEY_VARIABLES, open_driver
from agentvm.errors import AgentVMError, ConfigInvalid
from agentvm.log import get_logger
from agentvm.model.definition import Definition
from agentvm.model.ids import DEFAULT_TENANT, Clock, ContainerId, NewId, TenantId, UserId, id_factory
from agentvm.model.principal import EVERYTHING, Principal
from agentvm.model.secret import Secret
from agentvm.resources.centre import ResourceCentre, make_centre
from agentvm.resources.shipped import ship
from agentvm.runtime.builtin_tools import builtin_tools
from agentvm.runtime.channel import Channel, Closing
from agentvm.runtime.runtime import Runtime, open_runtime
from agentvm.runtime.tasks import open_tasks
from agentvm.runtime.tools import Toolbox
from agentvm.storage.base import Store
from agentvm.storage.sqlite import open_store
from agentvm.storage.sqlite.datadir import lock_data_dir
from agentvm.tenants.access import Access
from agentvm.tenants.authentication import Ended, Named, Why
from agentvm.tenants.metering import Metering
from agentvm.tenants.office import Office
from agentvm.tenants.own_keys import OwnKeys
from agentvm.tenants.people import Guarded, People
from agentvm.tenants.price import Prices
from agentvm.tenants.quota import Quotas
from agentvm.tenants.server_key import has_server_key, load_server_key
from agentvm.tenants.vault import Vault

if TYPE_CHECKING:
    from agentvm.tenants.oidc import Oidc

logger = get_logger(__name__)

DATABASE = "agentvm.db"

REVOKED = Closing(4401, "credentials revoked")
SUSPENDED = Closing(4403, "suspended")
EXPIRED = Closing(4408, "credentials expired")

DOORS = 2.0
"""Seconds between two looks for what has expired."""

COLLECT = 3_600.0
"""Seconds between two looks for what nothing refers to."""

GRACE = 3_600_000
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
        office: Office,
        definitions: Definitions,
        resources: ResourceCentre,
        clock: Clock,
        new_id: NewId,
        first_key: Secret | None = None,
    ) -> None:
        self.config = config
        self.resources = resources
        self.runtime = runtime
        self.office = office
        self.clock = clock
        self.new_id = new_id
        self.first_key = first_key
        """The operator's key, if this start has made it: to be shown once."""
        self._store = store
        self.definitions = definitions
        self._connected: Counter[tuple[TenantId, UserId | None]] = Counter()

    async def authenticate(self, credential: str | None) -> Principal | None:
        """Who a peer is; None for one that has not said so yet. `Unauthenticated` when the credential is not good."""
        if not self.config.authenticates:
            return OPEN_ACCESS
        return None if credential is None else await self.office.access.authenticate(credential)

    async def admit(self, principal: Principal) -> None:
        """To be asked before a peer is attached: `QuotaExceeded` when there are too many of them."""

        async def count() -> int:
            return sum(number for (tenant_id, _), number in self._connected.items() if tenant_id == principal.tenant_id)

        async def count_own() -> int:
            return self._connected[principal.tenant_id, principal.user_id]

        await self.office.quotas.check(principal.tenant_id, principal.user_id, "connections", count, of_user=count_own)

    def attach(self, principal: Principal = OPEN_ACCESS, channel: Channel | None = None) -> Peer:
        """A peer with a channel of its own, or with the given one, which is the principal's; the caller detaches it."""
        channel = channel or Channel(principal)
        self.runtime.broadcaster.attach(channel)
        self._connected[principal.tenant_id, principal.user_id] += 1
        return Peer(
            channel=channel,
            store=Reach(self._store.tenant(principal.tenant_id), principal),
            runtime=self.runtime,
            definitions=self.definitions,
            resources=self.resources,
            office=self.office,
            clock=self.clock,
            new_id=self.new_id,
        )

    def detach(self, peer: Peer) -> None:
        self.runtime.broadcaster.detach(peer.channel)
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
                await self._store.collect(self.clock(), grace=GRACE)
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
                await self.office.access.flush_used()
            except AgentVMError as error:
                logger.error("uses_of_keys_not_stored", code=error.code, error=str(error))


@asynccontextmanager
async def open_agentvm(
    config: ServerConfig,
    *,
    definitions: Sequence[Definition] = (),
    drivers: Mapping[str, Driver] | None = None,
    clock: Clock = system_clock,
) -> AsyncIterator[AgentVM]:
    """A started AgentVM. `drivers` replaces those the config names; the first of them is the default."""
    new_id = id_factory(clock, secrets.randbits)
    async with AsyncExitStack() as stack:
        path = None
        if config.data_dir is not None:
            path = stack.enter_context(lock_data_dir(config.data_dir)) / DATABASE
        store = await stack.enter_async_context(open_store(path))
        models = await _open_models(config, drivers, stack, clock)
        office, ended = await _open_office(config, store, models, clock, None if path is None else path.parent)
        stack.push_async_callback(office.own_keys.aclose)
        centre = make_centre(store, clock, new_id)
        await ship(centre)
        prices = Prices(config.prices)
        runtime = await stack.enter_async_context(
            open_runtime(
                store=store,
                models=models,
                toolbox=Toolbox(builtin_tools(clock), config.limits),
                clock=clock,
                new_id=new_id,
                limits=config.limits,
                cost=prices.cost,
                meter=_meter(config, office, prices, clock),
                choose=office.own_keys.choose,
                suspends=config.data_dir is not None,
            )
        )
        for definition in definitions:
            runtime.check(definition)
        vm = AgentVM(
            config=config,
            store=store,
            runtime=runtime,
            office=office,
            definitions=Definitions(definitions),
            resources=centre,
            clock=clock,
            new_id=new_id,
            first_key=await office.access.bootstrap(config.admin_key) if config.authenticates else None,
        )
        await office.access.ensure_default_tenant()
        _hear_of_ends(vm, ended)
        tasks = await stack.enter_async_context(open_tasks())
        tasks.start_soon(vm.keep_doors)
        tasks.start_soon(vm.keep_clean)
        stack.callback(tasks.cancel_scope.cancel)
        yield vm


def _hear_of_ends(vm: AgentVM, ended: list[Ended]) -> None:
    """Whose rights end is sent away, and what runs for them is stopped."""
    ended.append(vm.dismiss)
    vm.office.people.stop = vm.stop_turns


def _meter(config: ServerConfig, office: Office, prices: Prices, clock: Clock) -> Guarded:
    metering = Metering(prices, office.quotas, clock, markup=config.markup, allow_unpriced=config.allows_unpriced)
    return Guarded(metering, office.people.standing)


async def _check_server_key(config: ServerConfig, store: Store, data_dir: Path | None) -> None:
    """A new one would refuse every key and open no secret, and nobody would know why."""
    if config.server_key is not None or data_dir is None or has_server_key(data_dir):
        return
    if await store.directory.has_keys():
        raise ConfigInvalid(f"There are keys, but {data_dir}/server.key, which they are checked with, is gone: restore it")


async def _open_office(
    config: ServerConfig, store: Store, models: Models, clock: Clock, data_dir: Path | None
) -> tuple[Office, list[Ended]]:
    """The office, and where those add themselves who must hear of rights that have ended."""
    await _check_server_key(config, store, data_dir)
    keys = load_server_key(data_dir, None if config.server_key is None else config.server_key.reveal())
    ended: list[Ended] = []

    def tell(named: Named, why: Why) -> None:
        for listener in ended:
            listener(named, why)

    access = Access(store, pepper=keys.pepper, clock=clock, oidc=_oidc(config, clock), ended=tell)
    vault = Vault(store, key=keys.vault, clock=clock)
    office = Office(
        access=access,
        people=People(store, access, clock=clock),
        quotas=Quotas(store, clock),
        vault=vault,
        own_keys=OwnKeys(models, vault, config.driver_settings, clock, open_one=open_driver, with_keys=KEY_VARIABLES),
        store=store,
    )
    return office, ended


def _oidc(config: ServerConfig, clock: Clock) -> "Oidc | None":
    if config.oidc_issuer is None or config.oidc_audience is None:
        return None
    # Here, because it costs a tenth of a second that few servers need.
    from agentvm.tenants.oidc import Oidc, OidcSettings  # noqa: PLC0415

    settings = OidcSettings(
        issuer=config.oidc_issuer,
        audience=config.oidc_audience,
        jwks_url=config.oidc_jwks_url,
        tenant_claim=config.oidc_tenant_claim,
    )
    return Oidc(settings, clock)


async def _open_models(config: ServerConfig, given: Mapping[str, Driver] | None, stack: AsyncExitStack, clock: Clock) -> Models:
    if given:
        return await stack.enter_async_context(Models(given, next(iter(given)), open_one=open_driver, clock=clock))
    default = config.default_model
    # The embedded model costs nothing until it is asked, so it is always on offer.
    wanted = dict.fromkeys((default.partition("/")[0], "local"))
    models = await stack.enter_async_context(Models(open_one=open_driver, clock=clock))
    providers = [Provider(name=name, driver=name, settings=config.driver_settings(name)) for name in wanted]
    await models.configure(providers, default=default)
    return models
