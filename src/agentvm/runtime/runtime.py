"""Runtime — runs turns and has a life cycle (start, drain, stop); one per process."""

from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from typing import Any

import anyio.abc

from agentvm.drivers.models import Models
from agentvm.ecosystem import Ecosystem, Effector
from agentvm.errors import AgentVMError, DriverNotFound, ShuttingDown
from agentvm.events import lifecycle
from agentvm.events.base import Event, EventData, EventScope
from agentvm.events.file import file_events
from agentvm.log import get_logger
from agentvm.model.ids import (
    AgentId,
    Clock,
    ContainerId,
    ImageId,
    NewId,
    SessionId,
    TenantId,
    UserId,
    agent_id_of,
    is_sub_session,
)
from agentvm.model.image import Image
from agentvm.model.session import Session
from agentvm.model.session_file import FileDelta
from agentvm.model.settings import Settings
from agentvm.model.turn import Turn
from agentvm.model.wait import ToolWait, WaitAnswer, WaitId
from agentvm.runtime.agent import Agent
from agentvm.runtime.billing import Meter, ToolMeter, Unmetered, UnmeteredTools
from agentvm.runtime.broadcaster import Broadcaster
from agentvm.runtime.channel import GOING_AWAY
from agentvm.runtime.event_writer import UnstoredEnds
from agentvm.runtime.follow import SessionFollower, TurnFollower
from agentvm.runtime.histories import Histories
from agentvm.runtime.housekeeping import announce_shutdown, housekeeping, recover
from agentvm.runtime.journal import open_journal
from agentvm.runtime.lifecycle import AgentState
from agentvm.runtime.memories import Memories
from agentvm.runtime.parking import ShortTimers, answer_wait, check_edit, close_wait, end_parked, watch_expiry
from agentvm.runtime.ports import AdmitBytes, Choose, Cost, Ports, SettingsOf, StopElsewhere, admit_all, stop_nothing
from agentvm.runtime.recovery.quarantine import Quarantine
from agentvm.runtime.recovery.restart import Recovery
from agentvm.runtime.replay import Replay
from agentvm.runtime.roster import Present, Roster, Sleeper
from agentvm.runtime.sub_agents import ENDED, SubAgents, has_ended, scope_at_root
from agentvm.runtime.tasks import open_tasks
from agentvm.runtime.tools import ToolSource
from agentvm.runtime.turn_log import TurnLog
from agentvm.sharing.keyed_lock import KeyedLock
from agentvm.storage.sql.nodes import NodeStore, Orphan
from agentvm.storage.sql.store import Store
from agentvm.tools.base import KnowledgeSource

logger = get_logger(__name__)

Adopt = Callable[[Sequence[Orphan], NodeStore], Awaitable[Callable[[], Coroutine[Any, Any, None]]]]


class Runtime:
    """Finds or starts agents, and ends them. Holds those that are alive; all others are rows of the store."""

    def __init__(self, ports: Ports, broadcaster: Broadcaster, timers: ShortTimers, *, suspends: bool = False) -> None:
        self._ports, self._timers = ports, timers
        ports.sub_agents.attach(self)
        self._suspends, self._unstored = suspends, UnstoredEnds()
        self.roster = Roster(ports.busy)
        self._draining = False
        self.recovered = anyio.Event()
        """Set when the turns of the previous process are known. Nothing may be done with sessions before."""
        self.evicted = 0
        """Agents that were evicted from memory while idle."""
        self._answering = KeyedLock[tuple[TenantId, WaitId]]()
        self.rebuilding = KeyedLock[tuple[TenantId, ImageId]]()
        """Held while an image is rebuilt, so that of two concurrent changes none is lost."""
        self.broadcaster = broadcaster
        self.quarantine = ports.quarantine
        self.models, self.tools, self.tool_meter = ports.models, ports.tools, ports.tool_meter
        self.journal = ports.journal
        self.settings_of = ports.settings_of
        self.rewrites = ports.rewrites
        self.file_writes: KeyedLock[tuple[TenantId, SessionId]] = KeyedLock()
        """Held by requests while they look at a file of a session and change it."""
        self.replay = Replay(ports.store, ports.journal.find, ports.journal.open)
        self.histories, self.memories = ports.histories, ports.memories
        self.adopt: Adopt | None = None
        """Takes over sessions of nodes that have ended."""
        self.hand_over: Callable[[], Awaitable[None]] | None = None
        """Lets other nodes take over the turns that were suspended."""
        self.settle_ended: Callable[[], Awaitable[None]] | None = None
        """Charges the model calls beside turns that nodes which have ended left."""
        self.ecosystem: Ecosystem | None = None
        self.stop_elsewhere: StopElsewhere = stop_nothing

    @property
    def accepting(self) -> bool:
        return not self._draining

    @property
    def hindrance(self) -> str | None:
        """Why it can take no new work; None when it can."""
        if self._draining:
            return "shutting down"
        if not self.recovered.is_set():
            return "reading the turns of the previous run"
        return "the store refuses writes" if self._ports.journal.failing else None

    def start_agent(self, tenant_id: TenantId, image: Image, session_id: SessionId) -> tuple[Agent, bool]:
        """The session's agent, and whether it was already there. Never waits, so two askers cannot both create one."""
        if self._draining:
            raise ShuttingDown("The server is shutting down; reconnect and try again")
        present = self.roster.get(tenant_id, image.container_id, session_id)
        if isinstance(present, Agent):
            # In a cluster others may rebuild it, of which nobody is told.
            present.follows_image = not self._ports.store.node_id
            if image.updated_at > present.image.updated_at:
                # Read after it was built anew, by somebody whose agent was started from what was read before.
                present.image = image
            return present, True
        agent_id = self._new_agent_id(session_id) if present is None else present.agent_id
        if len(self.roster) > self._ports.settings_of(None).limits.agents * 1.1:
            self._evict()
        agent = Agent(self._ports, tenant_id, agent_id, image, session_id)
        agent.writer.unstored = self._unstored.take(tenant_id, session_id)
        self.histories.forget(tenant_id, session_id)
        self.roster.add(agent)
        if present is None and not is_sub_session(session_id):
            event = lifecycle.AgentRegistered(
                container_id=image.container_id,
                agent_id=agent_id,
                definition_name=image.name,
                registered_at=self._ports.clock(),
                image_id=image.image_id,
                session_id=session_id,
            )
            self.broadcast(tenant_id, EventScope(container_id=image.container_id, agent_id=agent_id), event)
        return agent, present is not None

    def is_resting(self, tenant_id: TenantId, container_id: ContainerId, session_id: SessionId) -> bool:
        """Whether the session is idle and no request is about to use it."""
        agent = self.roster.get(tenant_id, container_id, session_id)
        return not isinstance(agent, Agent) or agent.resting

    def _new_agent_id(self, session_id: SessionId) -> AgentId:
        """In a cluster every node knows an agent by the same name."""
        return agent_id_of(session_id) if self._ports.store.node_id else AgentId(self._ports.new_id("agent"))

    def replace_image(self, tenant_id: TenantId, image: Image) -> None:
        """Gives the rebuilt image to its agents, which use it from their next turn on. Unloaded agents will read it."""
        for present in self.roster.of_container(tenant_id, image.container_id):
            if isinstance(present, Agent) and present.image_id == image.image_id:
                present.image = image

    def model_name(self, name: str | None) -> str:
        """The full name, `<provider>/<model>`, of a model that an image names; unchanged if no provider serves it."""
        try:
            return self._ports.models.choose(name).name
        except DriverNotFound:
            return name or ""

    async def wake_agent(self, tenant_id: TenantId, agent_id: AgentId) -> Agent | None:
        """The agent, back in memory if it slept."""
        agent = self.roster.find(tenant_id, agent_id)
        return await self._wake(agent) if isinstance(agent, Sleeper) else agent

    def agent_of(self, tenant_id: TenantId, image: Image, session_id: SessionId | None = None) -> Present | None:
        """The agent of a session of the image, by default of its default session."""
        agent = self.roster.get(tenant_id, image.container_id, session_id or image.session_id)
        return agent if agent is not None and agent.image_id == image.image_id else None

    async def log_cursor(self, tenant_id: TenantId, container_id: ContainerId, session_id: SessionId) -> int:
        """Returns a cursor before all events of running turns and all later events."""
        head = (await self._ports.journal.open(tenant_id, container_id, session_id)).committed
        present = self.roster.get(tenant_id, container_id, session_id)
        turns = present.open_turns() if isinstance(present, Agent) else ()
        # A turn from before a restart has no cursor: it tells again what it had told of an unfinished message.
        return min((accepted.cursor for accepted in turns if not accepted.resumed), default=head)

    async def turn_cursor(self, tenant_id: TenantId, turn: Turn) -> int:
        """Returns a cursor that all events of the turn come after."""
        return await TurnLog(self._ports.store, self.replay, tenant_id, turn).before()

    def follow_turn(self, tenant_id: TenantId, turn: Turn, after: int) -> TurnFollower:
        """Returns a reader of the turn's events after that cursor. The caller has checked the right to read them."""
        follower = self.follow_session((tenant_id, turn.container_id, turn.session_id), after)
        return TurnFollower(follower, turn.turn_id, is_over=turn.outcome is not None)

    def follow_session(self, place: tuple[TenantId, ContainerId, SessionId], after: int) -> SessionFollower:
        """Returns a reader of a session's events after that cursor. The caller has checked the right to read them."""
        return SessionFollower(self.broadcaster, self.replay, place, after)

    async def stop_agent(self, present: Present, *, ends_parked: bool = False) -> None:
        """Ends its turns, then the agent, and sends the events; with `ends_parked` a parked turn, too. Twice is as once."""
        agent = await self._wake(present) if isinstance(present, Sleeper) else present
        if agent is None:
            return
        if ends_parked and agent.state in (AgentState.IDLE, AgentState.RUNNING):
            with agent.in_use():
                await end_parked(agent)
        await agent.stop()
        if not self.roster.remove(agent):
            return
        await announce_shutdown(agent)
        self._unstored.keep(agent.writer)
        event = lifecycle.AgentUnregistered(
            container_id=agent.container_id, agent_id=agent.agent_id, image_id=agent.image_id, session_id=agent.session_id
        )
        if not is_sub_session(agent.session_id):
            self.broadcast(agent.tenant_id, EventScope(container_id=agent.container_id, agent_id=agent.agent_id), event)

    async def stop_image(self, tenant_id: TenantId, image: Image, *, ends_parked: bool = False) -> None:
        for named in self.roster.of_container(tenant_id, image.container_id):
            # Looked up again: while one was being stopped, another may have fallen asleep or woken up.
            present = self.roster.find(tenant_id, named.agent_id)
            if present is not None and present.image_id == image.image_id:
                await self.stop_agent(present, ends_parked=ends_parked)

    def forget_session(self, tenant_id: TenantId, session_id: SessionId) -> None:
        """Drops a deleted session, perhaps with its container, whose name can be used again."""
        self.memories.forget_all()
        self.forget_discarded(tenant_id, session_id)

    def forget_discarded(self, tenant_id: TenantId, session_id: SessionId) -> None:
        """Drops a session that is gone from a container that is still there: subscriptions, journal and memory."""
        self.broadcaster.forget(tenant_id, session_id)
        self._ports.journal.forget(tenant_id, session_id)
        self._unstored.take(tenant_id, session_id)
        self.forget_delivered(tenant_id, session_id)

    def forget_delivered(self, tenant_id: TenantId, session_id: SessionId) -> None:
        """Drops the messages and events in memory of a session that has lost some of them."""
        self.replay.forget(tenant_id, session_id)
        self.histories.forget(tenant_id, session_id)

    def broadcast(self, tenant_id: TenantId, scope: EventScope, data: EventData) -> None:
        """Sends an event whose record, if it has one, is already committed."""
        self._ports.broadcast((Event(data=data, scope=scope, timestamp=self._ports.clock(), tenant_id=tenant_id),))

    async def change_files(self, tenant_id: TenantId, session: Session, delta: FileDelta) -> None:
        """Stores a change of a session's files whose bytes are already stored, and sends its event."""
        scope = EventScope(container_id=session.container_id, image_id=session.image_id, session_id=session.session_id)
        log = await self._ports.journal.open(tenant_id, session.container_id, session.session_id)
        await self._ports.journal.emit(log, file_events(delta), scope)

    async def housekeep(self) -> None:
        """Does the periodic work, until cancelled."""
        async with open_tasks() as tasks:
            for keep in (self._retain, self._evict_idle, self._ports.journal.probe):
                tasks.start_soon(keep)
            tasks.start_soon(watch_expiry, self._ports.store, self._ports.clock, self.expire_wait, self._timers)

    async def _retain(self) -> None:
        """Drops old and excess parts of the logs, now and every hour, until cancelled."""
        while True:
            limits = self._ports.settings_of(None).limits
            oldest = self._ports.clock() - int(limits.log_days * 86_400_000)
            try:
                await self._ports.store.trim_log(oldest, limits.log_bytes)
            except AgentVMError as error:
                logger.error("log_not_trimmed", code=error.code, error=str(error))
            await anyio.sleep(3_600)

    async def _evict_idle(self) -> None:
        """Evicts idle agents from memory until cancelled."""
        while True:
            await anyio.sleep(max(0.001, min(30.0, self._ports.settings_of(None).limits.idle_seconds / 4)))
            for agent in self.roster:
                if not self._ports.journal.failing:
                    await agent.writer.store_unstored()
            if not self._ports.journal.failing:
                await self._unstored.store_unstored()
            self._evict()
            self.histories.expire()

    def _evict(self) -> None:
        """Unloads idle agents. They come back with the next message, under the same id if a client is still subscribed."""
        limits = self._ports.settings_of(None).limits
        resting = self.roster.resting()
        surplus = len(self.roster) - limits.agents
        oldest = anyio.current_time() - limits.idle_seconds
        leaving = [agent for number, agent in enumerate(resting) if number < surplus or agent.used_at <= oldest]
        for agent in leaving:
            agent.leave()
            if self.broadcaster.is_heard(agent.tenant_id, agent.session_id):
                self.roster.evict_agent(agent)
            else:
                self.roster.remove(agent)
        self.roster.forget_sleepers(self.broadcaster.is_heard)
        self.evicted += len(leaving)
        if leaving:
            logger.debug("agents_evicted", agents=len(leaving), left=len(self.roster))

    async def _wake(self, names: Sleeper) -> Agent | None:
        image = await self._ports.store.tenant(names.tenant_id).container(names.container_id).get_image(names.image_id)
        return None if image is None else self.start_agent(names.tenant_id, image, names.session_id)[0]

    async def answer_wait(self, tenant_id: TenantId, wait: ToolWait, answer: WaitAnswer, by: UserId | None) -> bool:
        """Answers an open wait and lets its turn continue; False when it is answered already, or its image is gone."""
        async with self._answering.hold((tenant_id, wait.wait_id)):
            store = self._ports.store.tenant(tenant_id)
            waits = store.waits((wait.container_id,))
            current = await waits.get(wait.wait_id)
            turn = await store.find_turn(wait.turn_id)
            image = None if turn is None else await store.container(wait.container_id).get_image(turn.image_id)
            if current is None or current.answer is not None or turn is None or image is None:
                return False
            agent, _ = self.start_agent(tenant_id, image, wait.session_id)
            with agent.in_use():
                if turn.outcome is not None:
                    # It ended without its waits, of which nothing could be read: nobody has to answer them any more.
                    await close_wait(agent, current)
                    return False
                if answer.input is not None:
                    await check_edit(agent, current, answer.input, turn.origin)
                if not await answer_wait(agent, current, answer, by, told_at=scope_at_root(agent.scope, turn.origin)):
                    return False
            # The turn may have been stopped in the same moment: then its waits were closed first.
            stored = await waits.get(wait.wait_id)
            return stored is None or stored.answer is None or stored.answer.decision == answer.decision

    async def expire_wait(self, tenant_id: TenantId, wait: ToolWait) -> bool:
        """Ends a wait whose time is up: one for a time continues, any other has no answer. False if that cannot be done now."""
        goes_on = wait.kind == "timer" or await has_ended(self._ports, tenant_id, wait)
        return await self.answer_wait(tenant_id, wait, ENDED if goes_on else WaitAnswer(decision="expired"), None)

    async def drain(self, grace: float) -> None:
        """Takes no new work and lets turns finish for `grace` seconds; the rest is ended, or suspended until the restart."""
        self._draining = True
        agents = tuple(agent for agent in self.roster if agent.state is not AgentState.STOPPED)
        with anyio.move_on_after(grace) as deadline:
            for agent in agents:
                await agent.rest()
        if deadline.cancelled_caught:
            logger.info("turns_cut_by_shutdown", agents=len(agents))
        async with anyio.create_task_group() as tasks:
            for agent in agents:
                tasks.start_soon(agent.suspend if self._suspends else agent.stop)
        await self._unstored.store_unstored()
        if self.hand_over is not None:
            await self.hand_over()
        for channel in self.broadcaster.channels:
            channel.close(GOING_AWAY)


@asynccontextmanager
async def open_runtime(
    *,
    store: Store,
    models: Models,
    tools: ToolSource,
    clock: Clock,
    new_id: NewId,
    settings: Settings | SettingsOf,
    cost: Cost = lambda driver, model, usage, at, provider="": None,
    meter: Meter | None = None,
    tool_meter: ToolMeter | None = None,
    choose: Choose | None = None,
    admit_bytes: AdmitBytes = admit_all,
    effectors: Sequence[Effector] = (),
    knowledge: KnowledgeSource | None = None,
    suspends: bool = False,
    recovers_later: bool = False,
) -> AsyncIterator[Runtime]:
    """A started runtime; leaving stops every agent. With `suspends` turns that run then continue at the next start.
    With `recovers_later` turns of the previous process may still be unknown, see `Runtime.recovered`."""
    timers, broadcaster, histories, memories = ShortTimers(), Broadcaster(), Histories(), Memories(store)
    ecosystem = Ecosystem(broadcaster, (histories, memories, timers, *effectors))
    async with open_journal(store, ecosystem.broadcast, clock, histories.release) as journal, open_tasks() as tasks:
        ports = Ports(
            journal=journal,
            broadcast=ecosystem.announce,
            store=store,
            quarantine=Quarantine(store, clock),
            models=models,
            tools=tools,
            clock=clock,
            new_id=new_id,
            tasks=tasks,
            settings_of=settings if callable(settings) else lambda tenant_id: settings,
            cost=cost,
            meter=meter or Unmetered(),
            tool_meter=tool_meter or UnmeteredTools(),
            histories=histories,
            memories=memories,
            sub_agents=SubAgents(),
            knowledge=knowledge,
            admit_bytes=admit_bytes,
            choose=choose or (lambda tenant_id, name, key_owner=None: models.use_chain(name)),
        )
        recovery = Recovery(ports, (runtime := Runtime(ports, broadcaster, timers, suspends=suspends)).start_agent)
        runtime.adopt, runtime.settle_ended, runtime.ecosystem = recovery.adopt, recovery.settle, ecosystem
        if not recovers_later:
            await recover(recovery, runtime)
        async with housekeeping(recovery, runtime):
            yield runtime
