"""Process — one life of the server: started on what the last one left, ended by a crash or by a restart.

A crash is total: from one moment on nothing the process does reaches the disk, the network, the provider or a tool. Its
tasks are then ended like those of any process, because nobody can tell any more.
"""

from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from contextvars import Context, copy_context
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import anyio
import anyio.abc

from agentvm.blueprint.definition import Definitions
from agentvm.config import ServerConfig
from agentvm.config.centre import ConfigCentre
from agentvm.drivers.base import DriverSettings
from agentvm.drivers.models import Models
from agentvm.drivers.registry import open_driver
from agentvm.ecosystem import Effector
from agentvm.errors import AgentVMError
from agentvm.knowledge.library import make_library
from agentvm.model.ids import DEFAULT_TENANT, Clock, ContainerId, NewId, SessionId, TenantId
from agentvm.model.ledger import Planned
from agentvm.model.limits import Compaction, Limits
from agentvm.model.money import ModelRate
from agentvm.model.retention import Retention
from agentvm.model.settings import Settings
from agentvm.observability.log_book import LogBook
from agentvm.observability.monitor import Monitor
from agentvm.observability.redact import Redactor
from agentvm.resources.centre import make_centre
from agentvm.runtime.runtime import Runtime, open_runtime
from agentvm.runtime.tasks import open_tasks
from agentvm.server.readers import Readers
from agentvm.server.websocket import SocketContext, SocketRequest, serve_socket
from agentvm.server.wire import PlainWire
from agentvm.server.writer import LINGER_SECONDS
from agentvm.sessions.background_call import BackgroundCalls
from agentvm.sessions.compaction import Compactor
from agentvm.sessions.relays import Relays
from agentvm.sessions.retention import LoadedSessions, Retainer
from agentvm.storage.sql.store import Store
from agentvm.tenants.access import Access
from agentvm.tenants.metering import MeteredHold, Metering
from agentvm.tenants.own_keys import OwnKeys
from agentvm.tenants.people import People
from agentvm.tenants.price import Prices
from agentvm.tenants.quota import Quotas
from agentvm.tenants.tenancy import Tenancy
from agentvm.tenants.vault import Vault
from agentvm.tiers.on_demand import TiersOnDemand
from agentvm.tools.metered_jobs import MeteredJobs
from agentvm.tools.safe_http import SafeHttp
from agentvm.vm import OPEN_ACCESS, AgentVM, Peer
from agentvm.webhooks.sender import WebhookSender
from tests.simulation.disk import Disk, SimulatedDatabase
from tests.simulation.network import Socket
from tests.simulation.programs import TURN_CALLS_MAX
from tests.simulation.provider import REPEATABLE, Provider, SimulatedDriver, open_tools

RATE = ModelRate(input=Decimal(1), output=Decimal(5))
SPARE = "spare"
"""Who stands in for the model while that one is out, at another price."""
SPARE_RATE = ModelRate(input=Decimal(2), output=Decimal(7))
COMPACTION = Compaction(share=0.0004, keep=2, max_tokens=40)
"""What is said soon fills so small a share of the window; so it is summed up often, and nothing has to be left out."""
LIMITS = Limits(inbox=4, steps=6, turn_seconds=60.0, log_days=100_000.0, idle_seconds=20.0, agents=5, tool_calls=TURN_CALLS_MAX)
SETTINGS = ServerConfig(limits=LIMITS, compaction=COMPACTION)


@dataclass(frozen=True, slots=True, kw_only=True)
class Hardware:
    """What every process finds when it starts."""

    disk: Disk
    provider: Provider
    clock: Clock
    new_id: NewId
    tap: Effector
    """Hears every event that is told."""
    thins: Callable[[SessionId], None]
    """Told before something of a session may be dropped because it is old."""
    retention: Retention
    wrap: Callable[[Store], Store] = lambda store: store
    """Lets a test put something broken between the runtime and its store."""
    repeatable: tuple[str, ...] = (REPEATABLE,)


class WatchedMetering(Metering):
    """Notes calls that are admitted although the ledger has nothing left for them."""

    provider: Provider
    is_alive: Callable[[], bool]
    """A process that has crashed sends nothing, whatever its tasks still do in memory."""

    async def admit(self, planned: Planned, *, force: bool = False) -> MeteredHold:
        balance = self.provider.balance()
        hold = await super().admit(planned, force=force)
        self.provider.overdrawn += self.is_alive() and not force and balance is not None and balance <= 0
        return hold


class Process:
    """Runs from `run` until `crash` or `restart`."""

    def __init__(self, hardware: Hardware, number: int) -> None:
        self._hardware = hardware
        self.number = number
        self._database = SimulatedDatabase(hardware.disk)
        self.context: Context = copy_context()
        """Everything that the process does runs in it."""
        self._alive = True
        self._grace: float | None = None
        self._leaving = anyio.Event()
        self._vm: AgentVM | None = None
        self._tasks: anyio.abc.TaskGroup | None = None
        self._sockets: dict[Socket, None] = {}
        self._emptied = anyio.Event()
        self.up = anyio.Event()
        """Set when peers can connect, or when it is clear that they never will."""
        self.over = anyio.Event()
        """Set when another process may start."""

    @property
    def alive(self) -> bool:
        return self._alive

    @property
    def runtime(self) -> Runtime | None:
        """While it takes work."""
        return self._vm.runtime if self._vm is not None and self._alive and self._grace is None else None

    def crash(self) -> None:
        if self._alive:
            self._alive = False
            self._database.cut_off()
            for socket in tuple(self._sockets):
                socket.end()
            self._leaving.set()
            self.over.set()

    def restart(self, grace: float) -> None:
        """Ends the process as an operator does, unless it is ending anyway."""
        if self._grace is None:
            self._grace = grace
            self._leaving.set()

    def connect(self, socket: Socket) -> bool:
        """False when nobody listens."""
        if self.runtime is None or self._tasks is None or self._tasks.cancel_scope.cancel_called:
            return False
        self._sockets[socket] = None
        self.context.run(self._tasks.start_soon, self._serve, socket)
        return True

    def start(self, function: Callable[..., Coroutine[Any, Any, None]], *args: object) -> None:
        """Starts something in the process, which ends with it."""
        if self.runtime is not None and self._tasks is not None:
            self.context.run(self._tasks.start_soon, function, *args)

    async def drop_old(self) -> None:
        """Once, as is done every now and then; a crash or the disk may end it."""
        if self.runtime is not None and self._vm is not None:
            with suppress(AgentVMError):
                await self._vm.retainer.run_for(DEFAULT_TENANT)

    async def run(self) -> None:
        try:
            await self._live()
        except AgentVMError:
            # It could not be started on this disk; the operator tries again.
            self._alive = False
        finally:
            self._tasks = None
            self.up.set()
            self.over.set()

    @asynccontextmanager
    async def _open_store(self) -> AsyncIterator[Store]:
        yield Store(self._database)

    def _start(self, vm: AgentVM, tasks: anyio.abc.TaskGroup) -> None:
        """Starts what a server does beside serving."""

    async def _live(self) -> None:
        async with self._open_store() as store:
            await self._serve_from(self._hardware.wrap(store))

    async def _serve_from(self, store: Store) -> None:
        hardware = self._hardware
        driver = SimulatedDriver(hardware.provider, self.number, lambda: self._alive)
        quotas, vault = Quotas(store, hardware.clock), Vault(store, key=bytes(32), clock=hardware.clock)
        spare = SimulatedDriver(hardware.provider, self.number, lambda: self._alive, name=SPARE)
        models = Models({driver.name: driver, SPARE: spare}, driver.name, fallback=[SPARE], clock=hardware.clock)
        access = Access(store, pepper=b"", clock=hardware.clock)
        own_keys = OwnKeys(models, vault, lambda name: DriverSettings(), hardware.clock, open_one=open_driver, with_keys=())
        meter = WatchedMetering(Prices({driver.name: RATE, SPARE: SPARE_RATE}), quotas, hardware.clock)
        meter.provider = hardware.provider
        meter.is_alive = lambda: self._alive
        calls = BackgroundCalls(store, hardware.clock, choose=own_keys.choose, meter=meter)
        compactor = Compactor(store, hardware.clock, hardware.new_id, calls, settings=lambda tenant_id: SETTINGS)
        async with open_runtime(
            store=store,
            models=models,
            tools=open_tools(hardware.provider, lambda: self._alive, repeatable=hardware.repeatable),
            clock=hardware.clock,
            new_id=hardware.new_id,
            settings=SETTINGS,
            effectors=(hardware.tap, compactor),
            meter=meter,
            suspends=True,
        ) as runtime:
            tiers = TiersOnDemand(Settings, hardware.clock)
            self._vm = AgentVM(
                store=store,
                runtime=runtime,
                tenancy=Tenancy(
                    access=access,
                    people=People(store, access, clock=hardware.clock),
                    quotas=quotas,
                    metering=meter,
                    vault=vault,
                    own_keys=own_keys,
                    store=store,
                ),
                definitions=Definitions(store, hardware.clock),
                logs=LogBook(hardware.clock, Redactor()),
                resources=(centre := make_centre(store, hardware.clock, hardware.new_id)),
                clock=hardware.clock,
                new_id=hardware.new_id,
                compactor=compactor,
                relays=Relays(calls, hardware.new_id),
                jobs=(jobs := MeteredJobs(tiers=tiers, store=store, quotas=quotas, clock=hardware.clock)),
                knowledge=make_library(store, centre, jobs, hardware.clock, hardware.new_id),
                settings=ConfigCentre((), store, vault, hardware.clock),
                monitor=Monitor(clock=hardware.clock, is_known=lambda *_: True),
                webhooks=WebhookSender(store, vault, SafeHttp(), hardware.clock),
                retainer=Retainer(
                    store, hardware.clock, lambda tenant_id: hardware.retention, Watched(runtime, hardware.thins)
                ),
            )
            async with open_tasks() as self._tasks:
                self._tasks.start_soon(compactor.run, runtime.broadcast)
                self._start(self._vm, self._tasks)
                self.up.set()
                await self._leaving.wait()
                if self._alive and self._grace is not None:
                    await runtime.drain(self._grace)
                    with anyio.move_on_after(LINGER_SECONDS):
                        while self._sockets:
                            self._emptied = anyio.Event()
                            await self._emptied.wait()
                self._tasks.cancel_scope.cancel()

    async def _serve(self, socket: Socket) -> None:
        assert self._vm is not None
        try:
            house = SocketContext(self._vm, _watch, Readers())
            # One that is gone before it is accepted is nothing to an HTTP server.
            with suppress(OSError):
                await serve_socket(house, SocketRequest(OPEN_ACCESS), PlainWire(socket.send, socket.abort), socket.receive)
        finally:
            socket.end()
            del self._sockets[socket]
            self._emptied.set()


class Watched(LoadedSessions):
    """Says of which sessions something is about to be dropped."""

    def __init__(self, runtime: Runtime, thins: Callable[[SessionId], None]) -> None:
        super().__init__(runtime)
        self._thins = thins

    def busy(self, tenant_id: TenantId, container_id: ContainerId, session_id: SessionId) -> bool:
        busy = super().busy(tenant_id, container_id, session_id)
        if not busy:
            self._thins(session_id)
        return busy


@contextmanager
def _watch(peer: Peer, tasks: anyio.abc.TaskGroup) -> Iterator[None]:
    yield
