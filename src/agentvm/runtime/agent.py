"""Agent — the running instance of one session: one inbox, one turn at a time.

An idle agent is a few hundred bytes: it has no task and no queue of its own; a task exists only while there are turns to
run. Whatever goes wrong in a turn becomes that turn's terminal event; it never reaches a neighbour.
"""

from collections import deque
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import dataclass, field

import anyio
import anyio.abc
import msgspec

from agentvm.drivers.base import Driver, Prompt
from agentvm.drivers.models import Models
from agentvm.ecosystem import Ecosystem
from agentvm.errors import AgentVMError, InboxFull, ProviderError, ProviderProtocolError, TurnLimitReached
from agentvm.events import lifecycle, message, state
from agentvm.events import turn as turn_events
from agentvm.events.base import Event, EventData, Scope
from agentvm.log import get_logger
from agentvm.model.ids import AgentId, Clock, MessageId, NewId, SessionId, TenantId, TurnId
from agentvm.model.image import Image
from agentvm.model.limits import Limits
from agentvm.model.message import ToolCall, UserContent, UserMessage
from agentvm.model.usage import estimate_tokens
from agentvm.runtime import context, turn
from agentvm.runtime.lifecycle import AgentState, Move, move
from agentvm.runtime.recorder import is_durable
from agentvm.runtime.tasks import open_tasks
from agentvm.runtime.tools import Outcome, Toolbox
from agentvm.storage.base import Store

logger = get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ports:
    """What every agent of the process shares."""

    ecosystem: Ecosystem
    store: Store
    models: Models
    toolbox: Toolbox
    clock: Clock
    new_id: NewId
    tasks: anyio.abc.TaskGroup
    limits: Limits


@dataclass(slots=True, eq=False)
class Accepted:
    """A turn that is committed. It runs once it is released, which is after its sender has been answered."""

    state: turn.TurnState
    scope: Scope
    released: bool = False
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

    @property
    def state(self) -> AgentState:
        return self._state

    async def receive(self, content: UserContent) -> Accepted:
        """Commits the user's message and its turn. The turn runs after `release`."""
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
            turn_events.TurnRequest(turn_id=turn_id, message_id=message_id, timestamp=at),
        ]
        if self._running is not None or self._inbox:
            told.append(state.ConversationQueued(message_id=message_id))
        accepted = Accepted(turn.begin(turn_id, message_id, at), msgspec.structs.replace(self._scope, turn_id=turn_id))
        self._accepting += 1
        try:
            with anyio.CancelScope(shield=True):
                await self._ports.ecosystem.emit(self._events(told, accepted.scope))
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
        elif self._state is AgentState.STOPPED:
            # Committed while the agent was being stopped: it still gets its one end.
            self._ports.tasks.start_soon(self._drop_waiting)

    def interrupt(self) -> Accepted | None:
        """Tells everybody that the current turn is being stopped, and returns it for `cancel`."""
        said = lifecycle.Interrupted(agent_id=self.agent_id, container_id=self.image.container_id)
        self._ports.ecosystem.tell(self._events((said,), self._scope))
        if self._running is not None:
            return self._running
        return self._inbox[0] if self._inbox and self._inbox[0].released else None

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
                await self._drop_waiting()
            finally:
                self._ended.set()

    async def rest(self) -> None:
        """Returns when no turn runs."""
        await self._rested.wait()

    # --- running turns

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
        failure: tuple[str, str, bool] | None = None
        try:
            with accepted.cancelling, anyio.fail_after(limits.turn_seconds):
                await self._answer(accepted)
        except TimeoutError:
            failure = ("timeout", f"Request timeout after {limits.turn_seconds * 1000:.0f}ms", True)
        except AgentVMError as error:
            failure = (error.code, str(error), not isinstance(error, ProviderError) or error.retryable)
        except Exception:  # Protects every other agent: a bug in one turn ends that turn only.
            logger.exception("turn_crashed", turn_id=accepted.scope.turn_id, agent_id=self.agent_id)
            failure = ("internal_error", "The turn failed because of an internal error", True)
        finally:
            # Also when the whole runtime is being cancelled.
            if not accepted.state.ended:
                if failure is not None:
                    logger.warning("turn_failed", turn_id=accepted.scope.turn_id, image_id=self.image.image_id, code=failure[0])
                now, at = accepted.state, self._ports.clock()
                await self._finish(accepted, turn.failed(now, *failure, at) if failure else turn.interrupted(now, at))

    async def _finish(self, accepted: Accepted, end: turn.Step) -> None:
        accepted.state, told = end
        events = self._events(told, accepted.scope)
        try:
            with anyio.CancelScope(shield=True):
                await self._ports.ecosystem.emit(events)
        except Exception:  # Protects whoever waits for this turn, and every other agent.
            # The disk may be full, or the image deleted meanwhile: all the same the turn has ended, and its peers hear so.
            logger.exception("turn_end_not_stored", turn_id=accepted.scope.turn_id)
            self._ports.ecosystem.tell(events)

    async def _answer(self, accepted: Accepted) -> None:
        """Model call, tools, model call … until the model is done."""
        definition = self.image.definition
        driver, model = self._ports.models.choose(definition.model)
        for _ in range(self._ports.limits.steps):
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
            await self._run_tools(accepted, [spec.name for spec in prompt.tools])
        raise TurnLimitReached(f"The turn was stopped after {self._ports.limits.steps} model calls")

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

    async def _run_tools(self, accepted: Accepted, allowed: Sequence[str]) -> None:
        pending = accepted.state.pending
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
        after, told = made
        events = self._events(told, accepted.scope)
        if any(is_durable(event) for event in events):
            # A commit that was begun is not abandoned: what is stored must also be told.
            with anyio.CancelScope(shield=True):
                await self._ports.ecosystem.emit(events)
        else:
            self._ports.ecosystem.tell(events)
        accepted.state = after

    def _events(self, told: Sequence[EventData], scope: Scope) -> list[Event]:
        at = self._ports.clock()
        return [Event(data=data, scope=scope, timestamp=at, tenant_id=self.tenant_id) for data in told]
