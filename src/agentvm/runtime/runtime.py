"""Runtime — has a life (start, drain, stop) and runs turns; one per process.

It holds what is alive: containers with agents, and the channels that listen. What merely exists is in the store.
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import anyio
import anyio.abc

from agentvm.drivers.models import Models
from agentvm.ecosystem import Ecosystem, Effector
from agentvm.errors import AgentVMError, ShuttingDown, ToolNotFound
from agentvm.events import lifecycle
from agentvm.events.base import Event, EventData, Scope
from agentvm.log import get_logger
from agentvm.model.definition import Definition
from agentvm.model.ids import AgentId, Clock, ContainerId, NewId, SessionId, TenantId, TurnId
from agentvm.model.image import Image
from agentvm.model.limits import Limits
from agentvm.model.turn import Turn
from agentvm.runtime.agent import Agent
from agentvm.runtime.broadcaster import Broadcaster
from agentvm.runtime.channel import GOING_AWAY
from agentvm.runtime.container import Container
from agentvm.runtime.journal import open_journal
from agentvm.runtime.lifecycle import AgentState
from agentvm.runtime.ports import Ports
from agentvm.runtime.recovery import Done, review
from agentvm.runtime.replay import Replay
from agentvm.runtime.session_log import read_tails
from agentvm.runtime.tasks import open_tasks
from agentvm.runtime.tools import Toolbox
from agentvm.storage.base import Store

logger = get_logger(__name__)


class Runtime:
    """Finds or starts agents, and ends them."""

    def __init__(self, ports: Ports, broadcaster: Broadcaster, *, suspends: bool = False) -> None:
        self._ports = ports
        self._suspends = suspends
        self._containers: dict[tuple[TenantId, ContainerId], Container] = {}
        self._agents: dict[AgentId, Agent] = {}
        self._draining = False
        self.broadcaster = broadcaster
        self.replay = Replay(ports.store, ports.journal.find)

    @property
    def accepting(self) -> bool:
        return not self._draining

    def start_agent(self, tenant_id: TenantId, image: Image, session_id: SessionId) -> tuple[Agent, bool]:
        """The session's agent, and whether it was already there. Never waits, so two askers cannot both create one."""
        if self._draining:
            raise ShuttingDown("The server is shutting down; reconnect and try again")
        container = self._containers.setdefault((tenant_id, image.container_id), Container(tenant_id, image.container_id))
        found = container.get(session_id)
        if found is not None:
            return found, True
        agent = Agent(self._ports, tenant_id, AgentId(self._ports.new_id("agent")), image, session_id)
        container.add(agent)
        self._agents[agent.agent_id] = agent
        self.tell(
            tenant_id,
            Scope(container_id=image.container_id, agent_id=agent.agent_id),
            lifecycle.AgentRegistered(
                container_id=image.container_id,
                agent_id=agent.agent_id,
                definition_name=image.name,
                registered_at=self._ports.clock(),
            ),
        )
        return agent, False

    def check(self, definition: Definition) -> None:
        """Refuses a definition whose model or tools this process does not have."""
        self._ports.models.choose(definition.model)
        unknown = self._ports.toolbox.unknown(definition.tools or ())
        if unknown:
            raise ToolNotFound(f"No tool named {unknown[0]!r}; available: {', '.join(self._ports.toolbox.names)}")

    def find_agent(self, tenant_id: TenantId, agent_id: AgentId) -> Agent | None:
        agent = self._agents.get(agent_id)
        return agent if agent is not None and agent.tenant_id == tenant_id else None

    def agents(self, tenant_id: TenantId, container_id: ContainerId) -> Sequence[Agent]:
        return tuple(self._containers.get((tenant_id, container_id), ()))

    def agent_of(self, tenant_id: TenantId, image: Image, session_id: SessionId | None = None) -> Agent | None:
        """The running agent of a session of the image, by default of its default session."""
        container = self._containers.get((tenant_id, image.container_id))
        agent = None if container is None else container.get(session_id or image.session_id)
        return agent if agent is not None and agent.image.image_id == image.image_id else None

    async def stop_agent(self, agent: Agent) -> None:
        """Ends its turns, then the agent, and tells so. Stopping twice is stopping once."""
        await agent.stop()
        if self._agents.pop(agent.agent_id, None) is None:
            return
        await agent.say_goodbye()
        container_id = agent.image.container_id
        key = (agent.tenant_id, container_id)
        container = self._containers[key]
        container.remove(agent)
        if not len(container):
            del self._containers[key]
        self.tell(
            agent.tenant_id,
            Scope(container_id=container_id, agent_id=agent.agent_id),
            lifecycle.AgentUnregistered(container_id=container_id, agent_id=agent.agent_id),
        )

    async def stop_image(self, tenant_id: TenantId, image: Image) -> None:
        container = self._containers.get((tenant_id, image.container_id))
        for agent in () if container is None else container.of_image(image.image_id):
            await self.stop_agent(agent)

    def tell(self, tenant_id: TenantId, scope: Scope, data: EventData) -> None:
        """Tells of something whose record, if it has one, is already committed."""
        self._ports.tell((Event(data=data, scope=scope, timestamp=self._ports.clock(), tenant_id=tenant_id),))

    async def recover(self) -> None:
        """Goes on with every turn that was accepted and has no end."""
        found: list[tuple[TenantId, Image, Turn, Done]] = []
        for tenant_id, left in await self._ports.store.list_unfinished():
            container = self._ports.store.tenant(tenant_id).container(left.container_id)
            image = await container.get_image(left.image_id)
            if image is not None:
                found.append((tenant_id, image, left, review(await container.list_messages(left.session_id), left.turn_id)))
        stopped: set[TurnId] = set()
        for log in await read_tails(self._ports.store):
            self._ports.journal.adopt(log)
            stopped |= log.stopped
        # From here on nothing can fail: either every turn goes on, or none has been touched.
        for tenant_id, image, left, done in found:
            agent, _ = self.start_agent(tenant_id, image, left.session_id)
            agent.resume(left, done, stopped=left.turn_id in stopped)
            logger.info("turn_resumed", turn_id=left.turn_id, attempt=left.attempts + 1)

    async def retain(self) -> None:
        """Drops what is too old from the logs, now and every hour, until cancelled."""
        while True:
            oldest = self._ports.clock() - int(self._ports.limits.log_days * 86_400_000)
            try:
                await self._ports.store.trim_log(oldest)
            except AgentVMError as error:
                logger.error("log_not_trimmed", code=error.code, error=str(error))
            await anyio.sleep(3_600)

    async def drain(self, grace: float) -> None:
        """Takes no new work and lets turns finish for `grace` seconds; the rest is ended, or suspended until the restart."""
        self._draining = True
        agents = tuple(agent for agent in self._agents.values() if agent.state is not AgentState.STOPPED)
        with anyio.move_on_after(grace) as deadline:
            for agent in agents:
                await agent.rest()
        if deadline.cancelled_caught:
            logger.info("turns_cut_by_shutdown", agents=len(agents))
        async with anyio.create_task_group() as tasks:
            for agent in agents:
                tasks.start_soon(agent.suspend if self._suspends else agent.stop)
        for channel in self.broadcaster.channels:
            channel.close(GOING_AWAY)


@asynccontextmanager
async def open_runtime(
    *,
    store: Store,
    models: Models,
    toolbox: Toolbox,
    clock: Clock,
    new_id: NewId,
    limits: Limits,
    effectors: Sequence[Effector] = (),
    suspends: bool = False,
) -> AsyncIterator[Runtime]:
    """A started runtime; leaving stops every agent. With `suspends` turns that run then go on at the next start."""
    broadcaster = Broadcaster()
    ecosystem = Ecosystem((broadcaster, *effectors))
    async with open_journal(store, ecosystem.tell, clock) as journal, open_tasks() as tasks:
        ports = Ports(
            journal=journal,
            tell=ecosystem.tell,
            store=store,
            models=models,
            toolbox=toolbox,
            clock=clock,
            new_id=new_id,
            tasks=tasks,
            limits=limits,
        )
        runtime = Runtime(ports, broadcaster, suspends=suspends)
        await runtime.recover()
        async with open_tasks() as housekeeping:
            housekeeping.start_soon(runtime.retain)
            try:
                yield runtime
            finally:
                with anyio.CancelScope(shield=True):
                    await runtime.drain(grace=0)
                housekeeping.cancel_scope.cancel()
