"""AgentVM — the composition root: the only file that knows every part."""

import secrets
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace

from agentvm.blueprint.builder import check_tools
from agentvm.blueprint.definition import Definitions
from agentvm.config import ServerConfig
from agentvm.config.build import base_of
from agentvm.config.centre import ConfigCentre
from agentvm.drivers.base import Driver
from agentvm.drivers.models import Models
from agentvm.drivers.registry import KEY_VARIABLES, open_driver
from agentvm.errors import ConfigInvalid
from agentvm.live import Live, Rules, open_eraser, open_models, open_oidc, open_retainer, open_watched, tend
from agentvm.log import get_logger
from agentvm.model.definition import Definition
from agentvm.model.ids import Clock, id_factory
from agentvm.model.secret import Secret
from agentvm.model.settings import LogLevel
from agentvm.observability.log_book import open_log_book
from agentvm.observability.redact import Redactor
from agentvm.resources.centre import make_centre
from agentvm.resources.shipped import ship
from agentvm.runtime.runtime import Runtime
from agentvm.runtime.tasks import open_tasks
from agentvm.sessions.beside import Beside
from agentvm.storage.engine import DATABASE, lock_data_dir, open_store
from agentvm.storage.sql.store import Store
from agentvm.tenants.access import Access
from agentvm.tenants.authentication import Ended, Named, Why
from agentvm.tenants.metering import Metering
from agentvm.tenants.own_keys import OwnKeys
from agentvm.tenants.people import People, StatusCheckingMeter
from agentvm.tenants.plans import Plans
from agentvm.tenants.price import Prices
from agentvm.tenants.quota import Quotas
from agentvm.tenants.server_key import ServerKey, has_server_key, load_server_key
from agentvm.tenants.tenancy import Tenancy
from agentvm.tenants.vault import Vault
from agentvm.vm import AgentVM, system_clock

logger = get_logger(__name__)


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
        runtime.models.choose(definition.model)
        check_tools(definition, runtime.tool_names)


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
    settings = ConfigCentre(base_of(config), store, vault, clock, ignore=not overrides)
    await settings.load()
    models = await open_models(settings, drivers, stack, clock)
    prices = Prices()
    tenancy, ended = _open_tenancy(settings, store, models, clock, vault, keys.pepper, prices)
    stack.push_async_callback(tenancy.own_keys.aclose)
    metering = Metering(prices, tenancy.quotas, clock)
    live = Live(None if drivers else models, prices, metering, logs, tenancy.quotas)
    await _follow(settings, live, config.system.log_level, tenancy.own_keys)
    guarded = StatusCheckingMeter(metering, tenancy.people.standing)
    return Rules(settings=settings, models=models, tenancy=tenancy, ended=ended, prices=prices, metering=guarded, logs=logs)


async def _bootstrap(settings: ConfigCentre, tenancy: Tenancy) -> Secret | None:
    config = settings.config
    try:
        return await tenancy.access.bootstrap(config.system.admin_key) if config.authenticates else None
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


async def _follow(settings: ConfigCentre, live: Live, log_level: LogLevel, own_keys: OwnKeys) -> None:
    """From now on what runs follows the settings. What was opened does already; the log, which was opened before, does not."""
    await live.follow(replace(settings.config, system=replace(settings.config.system, log_level=log_level)), settings.config)
    settings.bind(live, own_keys.unusable)


async def _load_server_key(config: ServerConfig, store: Store) -> ServerKey:
    """A new one would refuse every key and open no secret, and nobody would know why."""
    data_dir = None if config.data_dir is None else config.data_dir.expanduser().absolute()
    if config.system.server_key is None and data_dir is not None and not has_server_key(data_dir):
        if await store.directory.has_keys():
            raise ConfigInvalid(f"There are keys, but {data_dir}/server.key, which they are checked with, is gone: restore it")
    return load_server_key(data_dir, None if config.system.server_key is None else config.system.server_key.reveal())


def _open_tenancy(
    settings: ConfigCentre, store: Store, models: Models, clock: Clock, vault: Vault, pepper: bytes, prices: Prices
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
        quotas=Quotas(store, clock, Plans(settings.config.plans_by_name)),
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
