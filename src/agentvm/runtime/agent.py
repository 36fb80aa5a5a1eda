"""Agent — the running instance of one session: one inbox, one turn at a time.

An idle agent has two or three kilobytes and no task. A failure in a turn becomes its terminal event and does not affect others.
"""

import math
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import anyio
import msgspec

from agentvm.errors import AgentBusy, AgentVMError, InboxFull
from agentvm.events import lifecycle
from agentvm.events import turn as turn_events
from agentvm.events.base import EventScope
from agentvm.events.lifecycle import SessionRewound
from agentvm.log import concerned, get_logger
from agentvm.model.ids import AgentId, KeyId, MessageId, RewindId, SessionId, TenantId, TurnId, UserId
from agentvm.model.image import Image
from agentvm.model.message import UserContent
from agentvm.model.turn import Turn
from agentvm.runtime import attached, turn
from agentvm.runtime.accepted import Accepted, Failure, Incoming, OnBusy, failure_of, opening
from agentvm.runtime.billing import Bill
from agentvm.runtime.event_writer import EventWriter
from agentvm.runtime.history import REWRITE_MAX_BYTES, Choose, select
from agentvm.runtime.lifecycle import AgentState, Move, move
from agentvm.runtime.parking import clear_way, end_parked, end_stopped, make_way_for, wake
from agentvm.runtime.ports import Ports
from agentvm.runtime.recovery import progress
from agentvm.runtime.recovery.resumption import resumed_state, take_up
from agentvm.runtime.sub_agents import stop_orphan
from agentvm.runtime.turn_work import work_on
from agentvm.runtime.waiting import close_calls

logger = get_logger(__name__)


class Agent:
    """Runs the turns of one session."""

    def __init__(self, ports: Ports, tenant_id: TenantId, agent_id: AgentId, image: Image, session_id: SessionId) -> None:
        self.tenant_id, self.agent_id, self.image = tenant_id, agent_id, image
        """The image of the next turn; a running turn keeps the one it began with."""
        self.follows_image = False
        """Whether `image` was read while the agent was in the roster: since then it is told when that is rebuilt."""
        self.container_id, self.image_id, self.session_id = image.container_id, image.image_id, session_id
        self.ports = ports
        self.scope = EventScope(
            container_id=image.container_id, image_id=image.image_id, agent_id=agent_id, session_id=session_id
        )
        self.state = AgentState.IDLE
        self.inbox: deque[Accepted] = deque()
        """Turns that wait, in order."""
        self._accepting = self._users = 0
        self._running: Accepted | None = None
        self._rested = anyio.Event()
        self._rested.set()
        self._ended: anyio.Event | None = None
        self.container = ports.store.tenant(tenant_id).container(image.container_id)
        self.writer = EventWriter(ports, tenant_id, image.container_id, session_id, self.scope, self.open_turns)
        self._rewriting: anyio.Event | None = None
        self._suspending = False
        self.used_at = anyio.current_time()
        """When it was last of use, in the loop's time."""

    @property
    def resting(self) -> bool:
        """Whether it can leave memory: it is idle, unused, and all of its state is stored."""
        return self.state is AgentState.IDLE and not (
            self._users or self.inbox or self._accepting or self._rewriting or self.writer.unstored
        )

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """Held by callers that are about to use the agent, so that it does not leave memory."""
        self._users += 1
        try:
            yield
        finally:
            self._users -= 1
            self.used_at = anyio.current_time()

    @property
    def busy(self) -> bool:
        """Whether a message would have to wait."""
        return self._running is not None or bool(self.inbox)

    async def make_way(self, content: UserContent, on_busy: OnBusy) -> Accepted | None:
        """While a turn runs: raises `AgentBusy`, or stops it. Returns the turn to `cancel` once the sender was answered."""
        if on_busy == "reject":
            raise AgentBusy("Another turn is running; wait for its end, or send with onBusy queue or interrupt")
        if on_busy == "queue":
            return None
        # What will be refused must not cost anybody the turn that runs.
        await self._claim(content)
        return await self.interrupt()

    async def receive(self, message: UserContent | Incoming) -> Accepted:
        """Commits the user's message and its turn, which is billed to that user. The turn runs after `release`."""
        incoming = message if isinstance(message, Incoming) else Incoming(message)
        await self._claim(incoming.content)
        await make_way_for(self, incoming.on_parked)
        while self._rewriting is not None:
            await self._rewriting.wait()
        return await self._receive(incoming)

    def find(self, turn_id: TurnId) -> Accepted | None:
        """Returns the turn, if it runs or waits here."""
        return next((accepted for accepted in self.open_turns() if accepted.state.turn_id == turn_id), None)

    async def rewrite(self, choose: Choose, asking: Incoming | None = None) -> tuple[SessionRewound | None, Accepted | None]:
        """Rewinds the history and, in the same commit, receives the message that replaces it, otherwise like `asking`.

        `AgentBusy` while a turn runs or waits: its history does not change under it.
        """
        await end_parked(self, choose)
        while self._rewriting is not None:
            await self._rewriting.wait()
        if self.busy or self._accepting:
            raise AgentBusy("A turn is running; wait for its end, or ask again with onBusy interrupt")
        self._rewriting = anyio.Event()
        try:
            await self.writer.store_unstored()
            async with self.ports.rewrites:
                original = select(choose, *await self.container.list_recent_messages(self.session_id, REWRITE_MAX_BYTES))
            rewound = original.rewound(self.session_id, RewindId(self.ports.new_id("rewind")), self.ports.clock())
            if original.content is not None:
                await self._claim(original.content)
                asking = asking or Incoming(original.content)
                incoming = replace(asking, content=original.content, rewound=rewound, tainted=original.tainted)
                return rewound, await self._receive(incoming)
            move(self.state, Move.RECEIVE)
            if rewound is not None:
                await self.writer.emit((rewound,), self.scope)
            return rewound, None
        finally:
            self._rewriting.set()
            self._rewriting = None

    async def _claim(self, content: UserContent) -> None:
        """Checks that the attachments of a message exist, and keeps them until the message is stored."""
        most = self.ports.settings_of(self.tenant_id).limits.attachments_per_message
        await attached.claim(self.container.attachments, content, most, self.ports.clock())

    async def _receive(self, incoming: Incoming) -> Accepted:
        # Counted from here on: whoever rewrites the history must not begin while this one waits for the log.
        self._accepting += 1
        try:
            async with self.ports.large.room(self.tenant_id, incoming.content):
                accepted = await self._commit(incoming)
        finally:
            self._accepting -= 1
        if not accepted.begun:
            self.inbox.append(accepted)
        self.ports.busy.note(self.tenant_id, self.agent_id, self.busy)
        return accepted

    async def _commit(self, incoming: Incoming) -> Accepted:
        log = await self.writer.log()
        await self.ports.recall_released(log)
        move(self.state, Move.RECEIVE)
        self.ports.quarantine.check(self.tenant_id, self.session_id)
        if len(self.inbox) + self._accepting > (most := self.ports.settings_of(self.tenant_id).limits.inbox):
            raise InboxFull(f"{most} messages are already waiting for this agent; try again later")
        begun = turn.begin(TurnId(self.ports.new_id("turn")), MessageId(self.ports.new_id("msg")), self.ports.clock())
        waits = incoming.waits_for_parked and log.parked is not None
        events = opening(begun, self.session_id, incoming, queued=self.busy or waits)
        accepted = self._accept(begun, incoming.user_id, incoming.key_id)
        accepted.follow(incoming, log.head)
        idle = self.state is AgentState.IDLE and not (self.busy or incoming.rewound or self.writer.unstored or waits)
        if idle and self._accepting == 1 and self.ports.histories.expect(self.tenant_id, self.session_id, events):
            accepted.begin(self.ports.journal.post(log, events, accepted.scope))
            self._running = accepted
            self._start()
            await accepted.confirm(self.ports, log)
        else:
            await self.writer.emit(events, accepted.scope)
        return accepted

    def release(self, accepted: Accepted) -> None:
        """Lets the turn run."""
        accepted.release()
        if accepted.begun:
            return
        if self.state is AgentState.IDLE:
            self._start()
        elif self.state is AgentState.STOPPED and not self._suspending:
            # Committed while the agent was being stopped: it still gets its one end.
            self.ports.tasks.start_soon(self._drop_waiting)

    def _start(self) -> None:
        self.state = move(self.state, Move.START)
        self._rested = anyio.Event()
        self.ports.tasks.start_soon(self._run)

    async def interrupt(self, turn_id: TurnId | None = None) -> Accepted | None:
        """Announces that the current turn, or the one with that id, is being stopped, and returns it for `cancel`."""
        # Chosen first: while it is being told, the turn may end and the next begin.
        first = next((first for first in [*self.inbox][:1] if first.released or first.resumed), None)
        current = self._running or first if turn_id is None else self.find(turn_id)
        if current is None:
            await end_parked(self, turn_id=turn_id)
        turn_id = current.state.turn_id if current else None
        event = lifecycle.Interrupted(agent_id=self.agent_id, container_id=self.container_id, turn_id=turn_id)
        await self.writer.write((event,), is_urgent=True)
        return current

    def cancel(self, accepted: Accepted | None) -> None:
        """Stops that turn, if it has not ended: the provider's socket is closed, the partial answer kept."""
        if accepted is not None:
            accepted.stop()
            if accepted.parked:  # While everybody was told.
                self.ports.tasks.start_soon(end_stopped, self, accepted.state.turn_id)
            elif accepted.resumed and accepted in self.inbox:
                # It need not wait for its turn among those that are under suspicion: it only ends.
                self.release(accepted)

    async def stop(self) -> None:
        """Ends the running turn and those that wait, each with its terminal event; afterwards the agent takes nothing.

        Returns when all of them have it, also to a second asker. Once begun it is completed, even if the caller is cancelled.
        """
        with anyio.CancelScope(shield=True):
            if self._ended is not None:
                await self._ended.wait()
                return
            self._ended = anyio.Event()
            self.state = move(self.state, Move.STOP)
            try:
                self.cancel(self._running)
                with anyio.move_on_after(self.ports.settings_of(self.tenant_id).limits.stop_seconds):
                    await self._rested.wait()
                self.state = move(self.state, Move.STOPPED)
                if self._suspending:
                    await self.writer.store_unstored()
                else:
                    await self._drop_waiting()
            finally:
                self._ended.set()

    async def suspend(self) -> None:
        """Ends without ending the turns: they are on disk, and continue when the agent is resumed after a restart."""
        self._suspending = True
        current = self._running
        if current is not None:
            current.suspended = True
        await self.stop()
        if current is not None and not (current.state.ended or current.parked):
            now = current.state
            event = turn_events.TurnSuspended(turn_id=now.turn_id, message_id=now.user_message_id, timestamp=self.ports.clock())
            with anyio.CancelScope(shield=True):
                await self.writer.write((event,), current.scope)

    def leave(self) -> None:
        """Takes nothing any more. For an agent that rests: there is nothing to end."""
        self.state = move(move(self.state, Move.STOP), Move.STOPPED)
        self._ended = self._rested

    def resume(
        self,
        left: Turn,
        done: progress.Done | None = None,
        *,
        cut: progress.Cut | None = None,
        stopped: bool = False,
        suspended: bool = False,
    ) -> Accepted:
        """Takes a turn from before a restart, to continue from its last finished message, or to end if it was `stopped`.

        A turn that died with its process has used up an attempt, a `suspended` one has not. Without `done` it is looked up.
        """
        accepted = self._accept(resumed_state(left, done), left.user_id, left.key_id)
        accepted.resumed, accepted.bill.settled, accepted.cut = True, False, cut
        accepted.left, accepted.started = left if done is None else None, {call.id for call in accepted.state.pending}
        accepted.attempt, accepted.waits_for_parked = left.attempts + (0 if suspended else 1), left.on_parked == "queue"
        accepted.options, accepted.origin, accepted.active_before_ms = left.options, left.origin, left.active_ms
        accepted.before_ms = max(0, self.ports.clock() - left.accepted_at)
        if stopped:
            accepted.stop()
        self.inbox.append(accepted)
        self.ports.busy.note(self.tenant_id, self.agent_id, self.busy)
        return accepted

    def _accept(self, begun: turn.TurnState, user_id: UserId | None, key_id: KeyId | None) -> Accepted:
        scope = msgspec.structs.replace(self.scope, turn_id=begun.turn_id)
        bill = Bill(self.ports.meter, self.ports.clock, self.tenant_id, user_id, scope, key_id=key_id)
        return Accepted(begun, scope, bill, request_id=concerned().get("request_id"))

    def open_turns(self) -> Iterator[Accepted]:
        """Yields the turns that run or wait."""
        yield from self.inbox if self._running is None else (self._running, *self.inbox)

    async def rest(self) -> None:
        """Returns when no turn runs."""
        await self._rested.wait()

    async def _run(self) -> None:
        accepted = self._running
        try:
            while accepted is not None or (self.state is AgentState.RUNNING and self.inbox and self.inbox[0].released):
                if accepted is None and (way := await clear_way(self)) != "clear":
                    if way == "parked":
                        break
                    continue
                accepted = accepted or self.inbox.popleft()
                with accepted.handling(self.tenant_id):
                    await self._run_turn(accepted)
                if accepted.parked and accepted.answered:
                    await wake(self, accepted.state.turn_id)
                accepted = None
        finally:
            self.ports.busy.note(self.tenant_id, self.agent_id, self.busy)
            self.used_at = anyio.current_time()
            if self.state is AgentState.RUNNING:
                self.state = move(self.state, Move.REST)
            self._rested.set()

    async def _drop_waiting(self) -> None:
        while self.inbox:
            accepted = self.inbox.popleft()
            with accepted.handling(self.tenant_id):
                try:
                    await take_up(self.ports, self.tenant_id, self.image, accepted)
                except AgentVMError as error:
                    logger.error("call_not_settled", turn_id=accepted.scope.turn_id, code=error.code, error=str(error))
                await self._finish(accepted, None)
                self.ports.sub_agents.note_end(self, accepted)
                accepted.over.set()
        self.ports.busy.note(self.tenant_id, self.agent_id, self.busy)

    async def _run_turn(self, accepted: Accepted) -> None:
        self._running = accepted
        limits = self.ports.settings_of(self.tenant_id).limits
        failure: Failure | None = None
        try:
            if accepted.resumed:
                with anyio.CancelScope(shield=True):
                    await take_up(self.ports, self.tenant_id, self.image, accepted)
                    await stop_orphan(self, accepted)
            accepted.limit(limits.turn_seconds)
            with accepted.cancelling:
                log = await self.writer.log()
                if accepted.resumed:
                    # Each id came with an event, so this is beyond all that the turn may have given out before.
                    produced = max(log.head, accepted.state.produced)
                    accepted.state = msgspec.structs.replace(accepted.state, produced=produced)
                await work_on(self, log, accepted)
            if accepted.cancelling.cancelled_caught and not accepted.stopped:
                failure = ("timeout", f"Request timeout after {limits.turn_seconds * 1000:.0f}ms", True)
        except AgentVMError as error:
            failure = failure_of(error)
        except anyio.get_cancelled_exc_class():
            if anyio.current_effective_deadline() == -math.inf:
                raise
            # Nobody has cancelled this turn: a library let its own cancellation out, which would take every agent along.
            logger.exception("turn_cancelled_from_within", turn_id=accepted.scope.turn_id, agent_id=self.agent_id)
            failure = ("internal_error", "The turn failed because of an internal error", True)
        except Exception:  # Protects every other agent: a bug in one turn ends that turn only.
            logger.exception("turn_crashed", turn_id=accepted.scope.turn_id, agent_id=self.agent_id)
            failure = ("internal_error", "The turn failed because of an internal error", True)
        finally:  # Also when the whole runtime is being cancelled.
            is_parked = accepted.parked and failure is None and not accepted.stopped
            if await accepted.is_stored() and not (self._suspending or is_parked):
                await self._end(accepted, failure)
                self.ports.sub_agents.note_end(self, accepted)
            self._running = None
            accepted.bill.close()
            accepted.over.set()

    async def _end(self, accepted: Accepted, failure: Failure | None) -> None:
        """The turn has one end: its own if that could be stored, else a failure or an interruption."""
        if accepted.state.ended:
            try:
                return await accepted.settle(self.ports, await self.writer.log())
            except AgentVMError as error:
                failure = failure_of(error)
        if failure is not None:
            logger.warning("turn_failed", turn_id=accepted.scope.turn_id, image_id=self.image.image_id, code=failure[0])
        accepted.state = msgspec.structs.replace(accepted.state, ended=False)
        await self._finish(accepted, failure)

    async def _finish(self, accepted: Accepted, failure: Failure | None) -> None:
        """Ends a turn that did not end by itself. Not interruptible: a turn has one end, also when everything is cancelled."""
        at = self.ports.clock()
        # The end waits for what was posted before it.
        self.ports.journal.pace.hurry()
        self.ports.sub_agents.stop_below(self, accepted)
        with anyio.CancelScope(shield=True):
            try:
                refused = await accepted.review_commits()
                now, closed = close_calls(accepted, at)
                accepted.state, end = turn.failed(now, *failure, at) if failure else turn.interrupted(now, at)
                events = (*accepted.bill.repeat(), *refused, *accepted.bill.enter(accepted.timed((*closed, *end))))
                await self.writer.end(events, accepted.scope)
            except Exception:  # Protects whoever waits for this turn, and every other agent.
                logger.exception("turn_end_not_told", turn_id=accepted.scope.turn_id)
