"""Agent — the running instance of one session: one inbox, one turn at a time.

An idle agent is a few hundred bytes: it has no task and no queue of its own; a task exists only while there are turns to
run. Whatever goes wrong in a turn becomes that turn's terminal event; it never reaches a neighbour.
"""

from collections import deque
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field

import anyio
import anyio.abc
import msgspec

from agentvm.drivers.base import Driver, Prompt
from agentvm.errors import AgentVMError, InboxFull, ProviderError, ProviderProtocolError, TurnLimitReached
from agentvm.events import lifecycle, message, state
from agentvm.events import turn as turn_events
from agentvm.events.base import Event, EventData, Scope
from agentvm.log import get_logger
from agentvm.model.ids import AgentId, MessageId, SessionId, TenantId, TurnId
from agentvm.model.image import Image
from agentvm.model.message import ToolCall, UserContent, UserMessage
from agentvm.model.turn import Turn
from agentvm.model.usage import estimate_tokens
from agentvm.runtime import context, recovery, turn
from agentvm.runtime.lifecycle import AgentState, Move, move
from agentvm.runtime.ports import Ports
from agentvm.runtime.session_log import SessionLog
from agentvm.runtime.tasks import open_tasks
from agentvm.runtime.tools import Outcome

logger = get_logger(__name__)

Failure = tuple[str, str, bool]
"""A code, a text for people, and whether to try again may help."""


@dataclass(slots=True, eq=False)
class Accepted:
    """A turn that is committed. It runs once it is released, which is after its sender has been answered."""

    state: turn.TurnState
    scope: Scope
    released: bool = False
    attempt: int = 0
    """How often the turn was begun before."""
    cancelling: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    """Cancelled to stop the turn, whether it already runs or not."""


class Agent:
    """Runs the turns of one session."""

    def __init__(self, ports: Ports, tenant_id: TenantId, agent_id: AgentId, image: Image, session_id: SessionId) -> None:
        self.tenant_id = tenant_id
        self.agent_id = agent_id
        self.image = image
        self.session_id = session_id
        self._ports = ports
        self._scope = Scope(container_id=image.container_id, image_id=image.image_id, agent_id=agent_id, session_id=session_id)
        self._state = AgentState.IDLE
        self._inbox: deque[Accepted] = deque()
        self._accepting = 0
        self._running: Accepted | None = None
        self._rested = anyio.Event()
        self._rested.set()
        self._ended: anyio.Event | None = None
        self._log: SessionLog | None = None
        self._owed: list[tuple[turn.Events, Scope]] = []
        """Ends of turns that were told and could not be stored."""
        self._suspending = False
        self._sending: dict[str, anyio.Event] = {}

    @property
    def state(self) -> AgentState:
        return self._state

    @property
    def busy(self) -> bool:
        """Whether a message would have to wait."""
        return self._running is not None or bool(self._inbox)

    @asynccontextmanager
    async def sending(self, client_key: str | None) -> AsyncIterator[Turn | None]:
        """One send at a time under a sender's key; yields the turn that an earlier one with this key began."""
        if client_key is None:
            yield None
            return
        while (other := self._sending.get(client_key)) is not None:
            await other.wait()
        self._sending[client_key] = anyio.Event()
        try:
            container = self._ports.store.tenant(self.tenant_id).container(self.image.container_id)
            yield await container.log(self.session_id).find_turn(client_key)
        finally:
            self._sending.pop(client_key).set()

    async def receive(self, content: UserContent, client_key: str | None = None) -> Accepted:
        """Commits the user's message and its turn. The turn runs after `release`."""
        await self._open_log()
        move(self._state, Move.RECEIVE)
        if len(self._inbox) + self._accepting >= self._ports.limits.inbox:
            raise InboxFull(f"{self._ports.limits.inbox} messages are already waiting for this agent; try again later")
        at = self._ports.clock()
        turn_id = TurnId(self._ports.new_id("turn"))
        message_id = MessageId(self._ports.new_id("msg"))
        user = UserMessage(id=message_id, timestamp=at, turn_id=turn_id, role="user", content=content)
        told: list[EventData] = [
            message.MessagePersisted(session_id=self.session_id, message_id=message_id, saved_at=at),
            message.UserMessage(message=user),
            turn_events.TurnRequest(turn_id=turn_id, message_id=message_id, timestamp=at, client_key=client_key),
        ]
        if self.busy:
            told.append(state.ConversationQueued(message_id=message_id))
        accepted = Accepted(turn.begin(turn_id, message_id, at), msgspec.structs.replace(self._scope, turn_id=turn_id))
        self._accepting += 1
        try:
            await self._emit(told, accepted.scope)
        finally:
            self._accepting -= 1
        self._inbox.append(accepted)
        return accepted

    def release(self, accepted: Accepted) -> None:
        """Lets the turn run."""
        accepted.released = True
        if self._state is AgentState.IDLE:
            self._state = move(self._state, Move.START)
            self._rested = anyio.Event()
            self._ports.tasks.start_soon(self._run)
        elif self._state is AgentState.STOPPED and not self._suspending:
            # Committed while the agent was being stopped: it still gets its one end.
            self._ports.tasks.start_soon(self._drop_waiting)

    async def interrupt(self) -> Accepted | None:
        """Tells everybody that the current turn is being stopped, and returns it for `cancel`."""
        # Chosen first: while it is being told, the turn may end and the next begin.
        current = self._running or (self._inbox[0] if self._inbox and self._inbox[0].released else None)
        await self._tell_all((lifecycle.Interrupted(agent_id=self.agent_id, container_id=self.image.container_id),))
        return current

    def cancel(self, accepted: Accepted | None) -> None:
        """Stops that turn, if it has not ended: the provider's socket is closed, the partial answer kept."""
        if accepted is not None:
            accepted.cancelling.cancel()

    async def stop(self) -> None:
        """Ends the running turn and those that wait, each with its terminal event; afterwards the agent takes nothing.

        Returns when all of them have it, also to a second asker. Once begun it is not abandoned, whoever asked.
        """
        with anyio.CancelScope(shield=True):
            if self._ended is not None:
                await self._ended.wait()
                return
            self._ended = anyio.Event()
            self._state = move(self._state, Move.STOP)
            self.cancel(self._running)
            with anyio.move_on_after(self._ports.limits.stop_seconds):
                await self._rested.wait()
            self._state = move(self._state, Move.STOPPED)
            try:
                if self._suspending:
                    await self._pay()
                else:
                    await self._drop_waiting()
            finally:
                self._ended.set()

    async def say_goodbye(self) -> None:
        """Tells the session's subscribers that its agent is gone; also to the end, whoever asked."""
        container_id = self.image.container_id
        said = lifecycle.SessionDestroyed(session_id=self.session_id, agent_id=self.agent_id, container_id=container_id)
        with anyio.CancelScope(shield=True):
            await self._tell_all((said,))

    async def suspend(self) -> None:
        """Ends without ending the turns: they are on disk, and go on when the agent is resumed after a restart."""
        self._suspending = True
        await self.stop()

    def resume(self, left: Turn, done: recovery.Done, *, stopped: bool = False) -> None:
        """Goes on with a turn that died with its process, from its last finished message; ends it if it was `stopped`."""
        begun = turn.begin(left.turn_id, left.message_id, left.accepted_at)
        # Ids beyond those that the earlier attempts may have given out.
        begun = msgspec.structs.replace(
            begun,
            produced=1_000 * (left.attempts + 1),
            pending=done.unanswered,
            usage=done.usage,
            call_ids=done.call_ids,
        )
        accepted = Accepted(begun, msgspec.structs.replace(self._scope, turn_id=left.turn_id), attempt=left.attempts + 1)
        if stopped:
            accepted.cancelling.cancel()
        self._inbox.append(accepted)
        self.release(accepted)

    async def rest(self) -> None:
        """Returns when no turn runs."""
        await self._rested.wait()

    async def _run(self) -> None:
        try:
            while self._state is AgentState.RUNNING and self._inbox and self._inbox[0].released:
                await self._run_turn(self._inbox.popleft())
        finally:
            self._running = None
            if self._state is AgentState.RUNNING:
                self._state = move(self._state, Move.REST)
            self._rested.set()

    async def _drop_waiting(self) -> None:
        while self._inbox:
            accepted = self._inbox.popleft()
            await self._finish(accepted, turn.interrupted(accepted.state, self._ports.clock()))

    async def _run_turn(self, accepted: Accepted) -> None:
        self._running = accepted
        limits = self._ports.limits
        failure: Failure | None = None
        try:
            with accepted.cancelling, anyio.fail_after(limits.turn_seconds):
                await self._answer(accepted)
        except TimeoutError:
            failure = ("timeout", f"Request timeout after {limits.turn_seconds * 1000:.0f}ms", True)
        except AgentVMError as error:
            failure = _failure(error)
        except Exception:  # Protects every other agent: a bug in one turn ends that turn only.
            logger.exception("turn_crashed", turn_id=accepted.scope.turn_id, agent_id=self.agent_id)
            failure = ("internal_error", "The turn failed because of an internal error", True)
        finally:
            # Also when the whole runtime is being cancelled.
            if not self._suspending:
                await self._end(accepted, failure)

    async def _end(self, accepted: Accepted, failure: Failure | None) -> None:
        """The turn has one end: its own if that could be stored, else a failure or an interruption."""
        if accepted.state.ended:
            try:
                await self._ports.journal.settle(await self._open_log(), accepted.scope)
            except AgentVMError as error:
                failure = _failure(error)
            else:
                return
        if failure is not None:
            logger.warning("turn_failed", turn_id=accepted.scope.turn_id, image_id=self.image.image_id, code=failure[0])
        now, at = msgspec.structs.replace(accepted.state, ended=False), self._ports.clock()
        await self._finish(accepted, turn.failed(now, *failure, at) if failure else turn.interrupted(now, at))

    async def _finish(self, accepted: Accepted, end: turn.Step) -> None:
        """Not interruptible: a turn has one end, also when everything is being cancelled."""
        accepted.state, told = end
        with anyio.CancelScope(shield=True):
            try:
                if not await self._tell_all(told, accepted.scope):
                    self._owed.append((told, accepted.scope))
            except Exception:  # Protects whoever waits for this turn, and every other agent.
                logger.exception("turn_end_not_told", turn_id=accepted.scope.turn_id)

    async def _tell_all(self, told: turn.Events, scope: Scope | None = None) -> bool:
        """Stores and tells; when the store refuses, tells all the same, without a cursor. Whether it was stored."""
        scope = scope or self._scope
        # Twice: the first failure may be one of what was posted before.
        for _ in range(2):
            try:
                await self._emit(told, scope)
            except AgentVMError as error:
                logger.error("event_not_stored", type=told[-1].type, agent_id=self.agent_id, code=error.code, error=str(error))
            else:
                return True
        at = self._ports.clock()
        self._ports.tell([Event(data=data, scope=scope, timestamp=at, tenant_id=self.tenant_id) for data in told])
        return False

    async def _emit(self, told: Sequence[EventData], scope: Scope) -> None:
        """Stores and tells. What is still owed to the log comes first: peers that were away must hear of those ends too."""
        log = await self._open_log()
        owed = tuple(self._owed)
        for end in owed:
            self._ports.journal.post(log, *end)
        await self._ports.journal.emit(log, told, scope)
        self._owed = [end for end in self._owed if end not in owed]

    async def _pay(self) -> None:
        if self._owed:
            try:
                await self._emit((), self._scope)
            except AgentVMError as error:
                logger.error("turn_end_not_stored", agent_id=self.agent_id, code=error.code, error=str(error))

    async def _open_log(self) -> SessionLog:
        if self._log is None:
            self._log = await self._ports.journal.open(self.tenant_id, self.image.container_id, self.session_id)
        return self._log

    async def _answer(self, accepted: Accepted) -> None:
        """Model call, tools, model call … until the model is done."""
        definition = self.image.definition
        driver, model = self._ports.models.choose(definition.model)
        if accepted.attempt:
            await self._begin_again(accepted)
        for _ in range(self._ports.limits.steps):
            if accepted.state.pending:
                # What a tool does cannot be taken back, so that it was called is on disk first.
                await self._ports.journal.settle(await self._open_log(), accepted.scope)
                await self._run_tools(accepted)
                # The next prompt is made from the history: the results must be in it.
                await self._ports.journal.settle(await self._open_log(), accepted.scope)
            prompt = await self._prompt(driver, model, accepted.state.turn_id)
            sent = context.weigh(prompt.conversation) + estimate_tokens(prompt.system or "")
            accepted.state = msgspec.structs.replace(accepted.state, prompt_tokens=sent)
            async with aclosing(driver.run(prompt)) as outputs:
                async for output in outputs:
                    await self._advance(accepted, turn.step(accepted.state, output, self._ports.clock()))
            if accepted.state.ended:
                return
            if accepted.state.message_id is not None or not accepted.state.pending:
                raise ProviderProtocolError(f"{driver.name} ended its answer without saying why; try again")
        raise TurnLimitReached(f"The turn was stopped after {self._ports.limits.steps} model calls")

    async def _begin_again(self, accepted: Accepted) -> None:
        if accepted.attempt > self._ports.limits.attempts:
            raise TurnLimitReached(f"The server did not survive this turn {accepted.attempt} times; it is not begun again")
        now = accepted.state
        said = turn_events.TurnResumed(
            turn_id=now.turn_id, message_id=now.user_message_id, attempt=accepted.attempt, timestamp=self._ports.clock()
        )
        await self._emit((said,), accepted.scope)
        again = tuple(pending for pending in now.pending if self._ports.toolbox.may_repeat(pending.call.name))
        accepted.state = msgspec.structs.replace(now, pending=again)
        for pending in now.pending:
            if pending not in again:
                at = self._ports.clock()
                await self._advance(accepted, turn.tool_finished(accepted.state, pending.call, recovery.LOST, True, at))

    async def _prompt(self, driver: Driver, model: str, turn_id: TurnId) -> Prompt:
        definition = self.image.definition
        container = self._ports.store.tenant(self.tenant_id).container(self.image.container_id)
        history = await container.list_messages(self.session_id)
        tools = self._ports.toolbox.specs(definition.tools)
        window = driver.context_window(model)
        max_tokens = min(definition.max_tokens or self._ports.limits.max_tokens, window // 2)
        system = definition.system_prompt
        said = context.build(
            history, turn_id, system=system, tools=tools, budget=window - max_tokens - (definition.thinking or 0)
        )
        return Prompt(
            model=model,
            conversation=said,
            max_tokens=max_tokens,
            system=system,
            tools=tools,
            thinking=definition.thinking,
        )

    async def _run_tools(self, accepted: Accepted) -> None:
        pending = accepted.state.pending
        allowed = [spec.name for spec in self._ports.toolbox.specs(self.image.definition.tools)]
        accepted.state = msgspec.structs.replace(accepted.state, pending=())
        done, results = anyio.create_memory_object_stream[tuple[ToolCall, Outcome]](len(pending))
        async with open_tasks() as tasks:
            with done, results:
                for call in pending:
                    tasks.start_soon(self._run_tool, call, allowed, done)
                for _ in pending:
                    call_done, outcome = await results.receive()
                    at = self._ports.clock()
                    await self._advance(
                        accepted, turn.tool_finished(accepted.state, call_done, outcome.result, outcome.is_error, at)
                    )

    async def _run_tool(
        self,
        pending: turn.PendingCall,
        allowed: Sequence[str],
        done: "anyio.abc.ObjectSendStream[tuple[ToolCall, Outcome]]",
    ) -> None:
        try:
            if pending.problem is not None:
                outcome = Outcome(pending.problem, True)
            else:
                outcome = await self._ports.toolbox.run(pending.call, allowed)
        except Exception:  # Protects the turn: the model can go on without this result.
            logger.exception("tool_crashed", tool=pending.call.name, agent_id=self.agent_id)
            outcome = Outcome(f"{pending.call.name} failed because of an internal error", True)
        await done.send((pending.call, outcome))

    async def _advance(self, accepted: Accepted, made: turn.Step) -> None:
        log = await self._open_log()
        self._ports.journal.post(log, made[1], accepted.scope)
        accepted.state = made[0]
        if self._ports.journal.crowded:
            await self._ports.journal.settle(log, accepted.scope)


def _failure(error: AgentVMError) -> Failure:
    return error.code, str(error), not isinstance(error, ProviderError) or error.retryable
