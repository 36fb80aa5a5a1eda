"""AgentVM — the composition root: the only file that knows every part."""

import secrets
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager

from agentvm.blueprint.definition import Definitions
from agentvm.commands.call import Peer
from agentvm.config import ServerConfig
from agentvm.drivers.base import Driver
from agentvm.drivers.models import Models
from agentvm.drivers.registry import open_driver
from agentvm.model.definition import Definition
from agentvm.model.ids import DEFAULT_TENANT, Clock, NewId, id_factory
from agentvm.model.principal import Principal
from agentvm.runtime.builtin_tools import builtin_tools
from agentvm.runtime.channel import Channel
from agentvm.runtime.runtime import Runtime, open_runtime
from agentvm.runtime.tools import Toolbox
from agentvm.storage.base import Store
from agentvm.storage.sqlite import open_store
from agentvm.storage.sqlite.datadir import lock_data_dir
from agentvm.tenants.price import Prices

DATABASE = "agentvm.db"

OPEN_ACCESS = Principal(tenant_id=DEFAULT_TENANT)
"""Without authentication everybody is one tenant, and containers are told apart by their names."""


def system_clock() -> int:
    return time.time_ns() // 1_000_000


class AgentVM:
    """A running AgentVM: what servers and local clients attach peers to."""

    def __init__(
        self, *, config: ServerConfig, store: Store, runtime: Runtime, definitions: Definitions, clock: Clock, new_id: NewId
    ) -> None:
        self.config = config
        self.runtime = runtime
        self.clock = clock
        self.new_id = new_id
        self._store = store
        self._definitions = definitions

    def attach(self, principal: Principal = OPEN_ACCESS, channel: Channel | None = None) -> Peer:
        """A peer with a channel of its own, or with the given one, which is the principal's; the caller detaches it."""
        channel = channel or Channel(principal)
        self.runtime.broadcaster.attach(channel)
        return Peer(
            channel=channel,
            store=self._store.tenant(principal.tenant_id),
            runtime=self.runtime,
            definitions=self._definitions,
            clock=self.clock,
            new_id=self.new_id,
        )

    def detach(self, peer: Peer) -> None:
        self.runtime.broadcaster.detach(peer.channel)


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
        models = await _open_models(config, drivers, stack)
        runtime = await stack.enter_async_context(
            open_runtime(
                store=store,
                models=models,
                toolbox=Toolbox(builtin_tools(clock), config.limits),
                clock=clock,
                new_id=new_id,
                limits=config.limits,
                cost=Prices().cost,
                suspends=config.data_dir is not None,
            )
        )
        for definition in definitions:
            runtime.check(definition)
        yield AgentVM(
            config=config,
            store=store,
            runtime=runtime,
            definitions=Definitions(definitions),
            clock=clock,
            new_id=new_id,
        )


async def _open_models(config: ServerConfig, given: Mapping[str, Driver] | None, stack: AsyncExitStack) -> Models:
    if given:
        return Models(given, next(iter(given)))
    default = config.default_model
    wanted = default.partition("/")[0]
    # The embedded model costs nothing until it is asked, so it is always on offer.
    opened: dict[str, Driver] = {}
    for name in dict.fromkeys((wanted, "local")):
        opened[name] = await stack.enter_async_context(open_driver(name, config.driver_settings(name)))
    return Models(opened, default)
