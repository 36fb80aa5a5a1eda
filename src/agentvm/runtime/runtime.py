"""Runtime — has a life (start, drain, stop) and runs turns; one per process.

It holds what is alive: containers with agents, and the channels that listen. What merely exists is in the store.
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from weakref import WeakValueDictionary

import anyio
import anyio.abc

from agentvm.drivers.models import Models
from agentvm.ecosystem import Ecosystem, Effector
from agentvm.errors import AgentVMError, DriverNotFound, RecordUnreadable, ShuttingDown, StoreFailed
from agentvm.events import lifecycle
from agentvm.events.base import Event, EventData, EventScope
from agentvm.log import get_logger
from agentvm.model.ids import AgentId, Clock, ImageId, NewId, SessionId, TenantId, TurnId
from agentvm.model.image import Image
from agentvm.model.limits import TurnSettings
from agentvm.model.turn import Turn
from agentvm.runtime.accepted import Accepted
from agentvm.runtime.agent import Agent
from agentvm.runtime.billing import Meter, Unmetered
from agentvm.runtime.broadcaster import Broadcaster
from agentvm.runtime.channel import GOING_AWAY
from agentvm.runtime.histories import Histories
from agentvm.runtime.journal import open_journal
from agentvm.runtime.lifecycle import AgentState
from agentvm.runtime.ports import Choose, Cost, Ports, SettingsOf
from agentvm.runtime.quarantine import Quarantine
from agentvm.runtime.replay import Replay
from agentvm.runtime.resumption import count
from agentvm.runtime.roster import Present, Roster, Sleeper
from agentvm.runtime.settlement import settle_left
from agentvm.runtime.suspects import GROUP_SECONDS, is_to_blame, next_group
from agentvm.runtime.tails import Left, fold_tails, read_tails
from agentvm.runtime.tasks import open_tasks
from agentvm.runtime.tools import ToolSource
from agentvm.storage.sql.store import Store

logger = get_logger(__name__)


TOGETHER = 64
"""Turns from before a restart that are counted in one commit."""


@dataclass(frozen=True, slots=True, eq=False)
class Resumed:
    """A turn from before a restart, and the row of it that was found."""

    agent: Agent
    accepted: Accepted
    turn: Turn

    def is_suspect(self, limit: int) -> bool:
        """Whether the server may not survive it. One that is only to be ended need not wait in line."""
        attempt = self.accepted.attempt
        return attempt >= limit and not is_to_blame(self.turn, attempt, limit) and not self.accepted.cancelling.cancel_called


class Runtime:
    """Finds or starts agents, and ends them."""

    def __init__(self, ports: Ports, broadcaster: Broadcaster, *, suspends: bool = False) -> None:
        self._ports = ports
        self._suspends = suspends
        self.roster = Roster(ports.busy)
        self._draining = False
        self.evicted = 0
        """Agents that have left memory because nobody needed them."""
        self.rebuilding: WeakValueDictionary[tuple[TenantId, ImageId], anyio.Lock] = WeakValueDictionary()
        """Held while an image is built anew: two who change it at once shall both be heard."""
        self._left: list[Resumed] = []
        """Turns from before a restart that nobody has let run yet."""
        self.broadcaster = broadcaster
        self.quarantine = ports.quarantine
        self.models = ports.models
        self.tools = ports.tools
        self.journal = ports.journal
        self.settings_of = ports.settings_of
        self.rewrites = ports.rewrites
        self.replay = Replay(ports.store, ports.journal.find)
        self.histories = ports.histories

    @property
    def accepting(self) -> bool:
        return not self._draining

    @property
    def hindrance(self) -> str | None:
        """Why it can take no new work; None when it can."""
        if self._draining:
            return "shutting down"
        return "the store refuses writes" if self._ports.journal.failing else None

    def start_agent(self, tenant_id: TenantId, image: Image, session_id: SessionId) -> tuple[Agent, bool]:
        """The session's agent, and whether it was already there. Never waits, so two askers cannot both create one."""
        if self._draining:
            raise ShuttingDown("The server is shutting down; reconnect and try again")
        found = self.roster.get(tenant_id, image.container_id, session_id)
        if isinstance(found, Agent):
            found.follows_image = True
            if image.updated_at > found.image.updated_at:
                # Read after it was built anew, by somebody whose agent was started from what was read before.
                found.image = image
            return found, True
        agent_id = AgentId(self._ports.new_id("agent")) if found is None else found.agent_id
        if len(self.roster) > self._ports.settings_of(None).limits.agents * 1.1:
            self._evict()
        agent = Agent(self._ports, tenant_id, agent_id, image, session_id)
        self.histories.forget(tenant_id, session_id)
        self.roster.add(agent)
        if found is None:
            told = lifecycle.AgentRegistered(
                container_id=image.container_id,
                agent_id=agent_id,
                definition_name=image.name,
                registered_at=self._ports.clock(),
            )
            self.tell(tenant_id, EventScope(container_id=image.container_id, agent_id=agent_id), told)
        return agent, found is not None

    def replace_image(self, tenant_id: TenantId, image: Image) -> None:
        """It was built anew: its agents use it from their next turn on. Those that are not awake will read it."""
        for present in self.roster.of_container(tenant_id, image.container_id):
            if isinstance(present, Agent) and present.image_id == image.image_id:
                present.image = image

    def model_name(self, name: str | None) -> str:
        """The whole name, `<provider>/<model>`, of a model that an image names; as written if nobody here serves it."""
        try:
            return self._ports.models.choose(name).name
        except DriverNotFound:
            return name or ""

    async def wake_agent(self, tenant_id: TenantId, agent_id: AgentId) -> Agent | None:
        """The agent, back in memory if it slept."""
        found = self.roster.find(tenant_id, agent_id)
        return await self._wake(found) if isinstance(found, Sleeper) else found

    def agent_of(self, tenant_id: TenantId, image: Image, session_id: SessionId | None = None) -> Present | None:
        """The agent of a session of the image, by default of its default session."""
        found = self.roster.get(tenant_id, image.container_id, session_id or image.session_id)
        return found if found is not None and found.image_id == image.image_id else None

    async def stop_agent(self, present: Present) -> None:
        """Ends its turns, then the agent, and tells so. Stopping twice is stopping once."""
        agent = await self._wake(present) if isinstance(present, Sleeper) else present
        if agent is None:
            return
        await agent.stop()
        if not self.roster.remove(agent):
            return
        await agent.say_goodbye()
        told = lifecycle.AgentUnregistered(container_id=agent.container_id, agent_id=agent.agent_id)
        self.tell(agent.tenant_id, EventScope(container_id=agent.container_id, agent_id=agent.agent_id), told)

    async def stop_image(self, tenant_id: TenantId, image: Image) -> None:
        for named in self.roster.of_container(tenant_id, image.container_id):
            # Looked up again: while one was being stopped, another may have fallen asleep or woken up.
            present = self.roster.find(tenant_id, named.agent_id)
            if present is not None and present.image_id == image.image_id:
                await self.stop_agent(present)

    def forget_session(self, tenant_id: TenantId, session_id: SessionId) -> None:
        """It was deleted: nobody hears of it any more, and nothing is kept for it."""
        self.broadcaster.forget(tenant_id, session_id)
        self._ports.journal.forget(tenant_id, session_id)
        self.forget_told(tenant_id, session_id)

    def forget_told(self, tenant_id: TenantId, session_id: SessionId) -> None:
        """Something of the session is gone: nothing of what was said in it is kept in memory."""
        self.replay.forget(tenant_id, session_id)
        self.histories.forget(tenant_id, session_id)

    def tell(self, tenant_id: TenantId, scope: EventScope, data: EventData) -> None:
        """Tells of something whose record, if it has one, is already committed."""
        self._ports.tell((Event(data=data, scope=scope, timestamp=self._ports.clock(), tenant_id=tenant_id),))

    async def recover(self) -> None:
        """Finds every turn that was accepted and has no end. They go on once `keep_house` runs; no history is read here."""
        await self.quarantine.load()
        unfinished = await self._ports.store.list_unfinished()
        left = await self._restore({turn.turn_id for _, turn in unfinished})
        for log in left.logs:
            self._ports.journal.adopt(log)
        for tenant_id, turn in unfinished:
            image = await self._read_image(tenant_id, turn)
            if image is None:
                continue
            # One that is gone was deleted just before the crash: nobody would see what the turn says.
            gone = await self._ports.store.tenant(tenant_id).find_session(turn.session_id) is None
            agent, _ = self.start_agent(tenant_id, image, turn.session_id)
            accepted = agent.resume(
                turn, stopped=gone or turn.turn_id in left.stopped, suspended=turn.turn_id in left.suspended
            )
            self._left.append(Resumed(agent, accepted, turn))

    async def _restore(self, open_turns: set[TurnId]) -> Left:
        """What the journal says of the process before."""
        try:
            return await fold_tails(self._ports.store, open_turns, self._ports.clock())
        except StoreFailed as error:
            # A server whose disk refuses starts all the same, and says that it is not ready.
            logger.error("journal_not_folded", code=error.code, error=str(error))
        logs = await read_tails(self._ports.store)
        return Left({one for log in logs for one in log.stopped}, {one for log in logs for one in log.suspended}, logs)

    async def keep_house(self) -> None:
        """What must be done from time to time, until cancelled."""
        async with open_tasks() as tasks:
            for keep in (self._go_on, self._retain, self._evict_idle, self._ports.journal.probe):
                tasks.start_soon(keep)

    async def _go_on(self) -> None:
        """Lets turns from before the restart run: all at once, but for those that the server may not survive."""
        left, self._left = self._left, []
        limit = self._ports.settings_of(None).limits.attempts
        suspected = [one for one in left if one.is_suspect(limit)]
        plain = [one for one in left if one not in suspected]
        for some in (plain[start : start + TOGETHER] for start in range(0, len(plain), TOGETHER)):
            await self._begin(some)
        running: list[Resumed] = []
        while suspected:
            group = next_group(suspected, lambda one: one.turn)
            suspected = [one for one in suspected if one not in group]
            running = [one for one in running if not one.accepted.over.is_set()]
            # Those that still run are begun alongside these, too: they are as much to blame for what happens now.
            await self._begin(group, running)
            running += group
            with anyio.move_on_after(GROUP_SECONDS):
                for one in group:
                    await one.accepted.over.wait()

    async def _begin(self, some: Sequence[Resumed], alongside: Sequence[Resumed] | None = None) -> None:
        # What waits behind another turn of its session is not begun yet.
        first = [one for one in some if one.agent.inbox and one.agent.inbox[0] is one.accepted]
        together = [*first, *(alongside or ())]
        begun = [(one.agent.tenant_id, one.accepted, one.turn) for one in together]
        try:
            await count(self._ports, begun, alongside=None if alongside is None else len(together))
        except AgentVMError as error:
            # Each is counted by itself when it begins, or not begun.
            logger.error("attempts_not_counted", code=error.code, error=str(error))
        for one in some:
            logger.info("turn_resumed", turn_id=one.turn.turn_id, attempts=one.turn.attempts)
            one.agent.release(one.accepted)

    async def _read_image(self, tenant_id: TenantId, left: Turn) -> Image | None:
        container = self._ports.store.tenant(tenant_id).container(left.container_id)
        try:
            return await container.get_image(left.image_id)
        except RecordUnreadable as error:
            await self.quarantine.put(tenant_id, left.container_id, left.session_id, f"its image cannot be read ({error})")
            return None

    async def _retain(self) -> None:
        """Drops what is too old or too much from the logs, now and every hour, until cancelled."""
        while True:
            limits = self._ports.settings_of(None).limits
            oldest = self._ports.clock() - int(limits.log_days * 86_400_000)
            try:
                await self._ports.store.trim_log(oldest, limits.log_bytes)
            except AgentVMError as error:
                logger.error("log_not_trimmed", code=error.code, error=str(error))
            await anyio.sleep(3_600)

    async def _evict_idle(self) -> None:
        """Lets agents that nobody uses leave memory, until cancelled."""
        while True:
            await anyio.sleep(max(0.001, min(30.0, self._ports.settings_of(None).limits.idle_seconds / 4)))
            for agent in self.roster:
                if not self._ports.journal.failing:
                    await agent.voice.pay()
            self._evict()
            self.histories.expire()

    def _evict(self) -> None:
        """They come back with the next message, under the same id if somebody still listens."""
        limits = self._ports.settings_of(None).limits
        resting = self.roster.resting()
        surplus = len(self.roster) - limits.agents
        oldest = anyio.current_time() - limits.idle_seconds
        leaving = [agent for number, agent in enumerate(resting) if number < surplus or agent.used_at <= oldest]
        for agent in leaving:
            agent.leave()
            if self.broadcaster.is_heard(agent.tenant_id, agent.session_id):
                self.roster.put_to_sleep(agent)
            else:
                self.roster.remove(agent)
        self.roster.forget_sleepers(self.broadcaster.is_heard)
        self.evicted += len(leaving)
        if leaving:
            logger.debug("agents_evicted", agents=len(leaving), left=len(self.roster))

    async def _wake(self, names: Sleeper) -> Agent | None:
        image = await self._ports.store.tenant(names.tenant_id).container(names.container_id).get_image(names.image_id)
        return None if image is None else self.start_agent(names.tenant_id, image, names.session_id)[0]

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
    settings: TurnSettings | SettingsOf,
    cost: Cost = lambda driver, model, usage, at, provider="": None,
    meter: Meter | None = None,
    choose: Choose | None = None,
    effectors: Sequence[Effector] = (),
    suspends: bool = False,
) -> AsyncIterator[Runtime]:
    """A started runtime; leaving stops every agent. With `suspends` turns that run then go on at the next start."""
    broadcaster, histories = Broadcaster(), Histories()
    ecosystem = Ecosystem(broadcaster, (histories, *effectors))
    async with open_journal(store, ecosystem.tell, clock) as journal, open_tasks() as tasks:
        ports = Ports(
            journal=journal,
            tell=ecosystem.tell,
            store=store,
            quarantine=Quarantine(store, clock),
            models=models,
            tools=tools,
            clock=clock,
            new_id=new_id,
            tasks=tasks,
            settings_of=settings if callable(settings) else lambda tenant_id: settings,
            sending={},
            cost=cost,
            meter=meter or Unmetered(),
            histories=histories,
            choose=choose or (lambda tenant_id, name: models.use_chain(name)),
        )
        runtime = Runtime(ports, broadcaster, suspends=suspends)
        # Looked up before anything is asked anew.
        left = await store.list_asked()
        await runtime.recover()
        async with open_tasks() as housekeeping:
            housekeeping.start_soon(runtime.keep_house)
            housekeeping.start_soon(settle_left, store, ports.meter, clock, left)
            try:
                yield runtime
            finally:
                with anyio.CancelScope(shield=True):
                    await runtime.drain(grace=0)
                housekeeping.cancel_scope.cancel()
