"""Parking — parked turns: how an answer resumes one, how one ends unanswered, and when waits expire.

A parked turn is rows: its messages, its row with `parked_at`, and one row for each wait. An answer is committed first, then
sent; the same commit unparks the turn, so that the next start takes it up should this process die before it continues.
"""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Literal

import anyio
import msgspec

from agentvm.errors import AgentBusy, AgentVMError, InvalidInput, StoreFailed
from agentvm.errors.resource import ResourceInvalid
from agentvm.events.base import Event, EventScope
from agentvm.events.tool import ToolWaiting
from agentvm.events.turn import TurnResponse
from agentvm.log import get_logger
from agentvm.model.ids import Clock, TenantId, TurnId, UserId
from agentvm.model.message import ToolCall
from agentvm.model.turn import OnParked, TurnOrigin
from agentvm.model.wait import ToolWait, WaitAnswer
from agentvm.resources.schema import misfits
from agentvm.runtime.acting_agent import acting_image
from agentvm.runtime.history import REWRITE_MAX_BYTES, Choose, select
from agentvm.runtime.lifecycle import AgentState, Move, move
from agentvm.runtime.policy import decide
from agentvm.runtime.waiting import answer_events
from agentvm.storage.sql.store import Store

if TYPE_CHECKING:
    from agentvm.runtime.agent import Agent

logger = get_logger(__name__)

EXPIRED_MAX = 100
"""Waits that are ended in one go."""
RETRY_SECONDS = 10.0
"""Pause before waits that are due, and could not be ended, are tried again."""
WAKE_PAUSES_SECONDS = (0.1, 1.0, 5.0, 30.0, 120.0, 600.0)
"""Pauses between attempts to resume a turn whose answer is stored."""
LONGEST_SLEEP_SECONDS = 60.0
"""Waits that were opened in the meantime, also by another process, are looked for at least so often."""


async def answer_wait(
    agent: "Agent", wait: ToolWait, answer: WaitAnswer, by: UserId | None, *, told_at: EventScope | None = None
) -> bool:
    """Commits and sends the answer to an open wait; then its turn continues. Once begun it is completed, even if the caller is
    cancelled.

    Returns False when the turn has ended. The answer is also told at `told_at`, for the wait of a sub-agent.
    """
    with anyio.CancelScope(shield=True):
        at, turn_id = agent.ports.clock(), wait.turn_id
        if await _has_ended(agent, turn_id):
            # Its waits are closed with it, and its end is the last that is told of it.
            return False
        accepted = agent.find(turn_id)
        if accepted is not None:
            accepted.answering += 1
        try:
            scope = msgspec.structs.replace(agent.scope, turn_id=turn_id)
            await agent.writer.emit(answer_events(wait, answer, by, at), scope)
        finally:
            if accepted is not None:
                accepted.answering -= 1
        if told_at is not None:
            events = answer_events(wait, answer, by, at)
            await agent.ports.sub_agents.publish_at_root(agent.ports, await agent.writer.log(), told_at, events)
        accepted = agent.find(turn_id)
        if accepted is None:
            await wake(agent, turn_id)
        else:
            accepted.take_answer(msgspec.structs.replace(wait, answer=answer, answered_at=at, answered_by=by))
    return True


async def _has_ended(agent: "Agent", turn_id: TurnId) -> bool:
    accepted = agent.find(turn_id)
    if accepted is not None:
        return accepted.state.ended
    if any(scope.turn_id == turn_id for _, scope in agent.writer.unstored):
        return True
    log = await agent.writer.log()
    if log.parked == turn_id:
        return False
    # An end that is posted, and is not in the store before its commit.
    if any(isinstance(event.data, TurnResponse) and event.data.turn_id == turn_id for event in log.tail):
        return True
    left = await agent.ports.store.tenant(agent.tenant_id).find_turn(turn_id)
    return agent.find(turn_id) is None and left is not None and left.outcome is not None


async def close_wait(agent: "Agent", wait: ToolWait) -> None:
    """Ends the wait of a turn that has ended. Nothing is told: the end of the turn was its last event."""
    (changed, *_) = answer_events(wait, WaitAnswer(decision="superseded"), None, agent.ports.clock())
    with anyio.CancelScope(shield=True):
        await agent.writer.emit((changed,), agent.scope)


async def check_edit(agent: "Agent", wait: ToolWait, edited: dict[str, object], origin: TurnOrigin | None = None) -> None:
    """Refuses an input that does not match the tool's schema, or that needs another approval."""
    ports, (image, _) = agent.ports, await acting_image(agent, origin)
    async with ports.tools.open(agent.tenant_id, image) as tools:
        schema = next((spec.input_schema for spec in tools.specs if spec.name == wait.tool), {})
        try:
            faults = misfits("input", schema, edited)
        except ResourceInvalid as error:
            raise InvalidInput(f"input cannot be checked: {error}") from None
        if faults:
            raise InvalidInput(f"input does not fit the tool: {'; '.join(map(str, faults))}")
        layers = ports.policy(agent.tenant_id, image)
        for tainted in (False, True):
            before, after = (
                tools.facts(ToolCall(id=wait.call_id, name=wait.tool, input=values), tainted=tainted)
                for values in (wait.input, edited)
            )
            if before is None or after is None or decide(before, layers).do != "ask":
                continue
            verdict = decide(after, layers)
            audience = (verdict.approval.audience, verdict.approval.not_sender)
            if verdict.do == "deny" or (verdict.do == "ask" and audience != (wait.audience, wait.not_sender)):
                raise InvalidInput(f"a call with this input is not covered by the approval that was asked for: {verdict.why}")


async def wake(agent: "Agent", turn_id: TurnId) -> None:
    """Resumes a parked turn, unless another task does; retries later if its row cannot be read now."""
    try:
        await _wake(agent, turn_id)
    except AgentVMError as error:
        logger.error("turn_not_woken", turn_id=turn_id, code=error.code, error=str(error))
        agent.ports.tasks.start_soon(_wake_later, agent, turn_id)


async def _wake_later(agent: "Agent", turn_id: TurnId) -> None:
    """The answer is stored: should every attempt fail, the next start takes the turn up."""
    with agent.in_use():
        for pause_seconds in WAKE_PAUSES_SECONDS:
            await anyio.sleep(pause_seconds)
            if agent.state not in (AgentState.IDLE, AgentState.RUNNING):
                return
            try:
                await _wake(agent, turn_id)
            except AgentVMError as error:
                logger.error("turn_not_woken", turn_id=turn_id, code=error.code, error=str(error))
            else:
                return


async def _wake(agent: "Agent", turn_id: TurnId) -> None:
    log = await agent.writer.log()
    left = await agent.ports.store.tenant(agent.tenant_id).find_turn(turn_id)
    if left is not None and left.outcome is None and agent.find(turn_id) is None:
        # It is open from here on: the journal keeps a stop that is told before it has resumed.
        log.open_turns[turn_id] = None
        accepted = agent.resume(left, suspended=True)
        # Before the messages that came after it.
        agent.inbox.rotate(1)
        agent.release(accepted)


async def make_way_for(agent: "Agent", on_parked: OnParked) -> None:
    """Ends the parked turn for a message, if there is one; not for a message that waits. `AgentBusy` for `reject`."""
    if on_parked == "supersede":
        await end_parked(agent)
    elif on_parked == "reject" and (await agent.writer.log()).parked is not None:
        raise AgentBusy("A turn waits for answers; answer it, or send with onParked supersede or queue")


async def clear_way(agent: "Agent") -> Literal["clear", "changed", "parked"]:
    """Puts the parked turn, to be ended, before the turn that waited behind it: two are never open beside each other.

    Returns `changed` when the next turn may be another than before, `parked` when that waits until the parked turn has ended.
    """
    try:
        log = await agent.writer.log()
        if log.parked is None:
            return "clear"
        left = await agent.container.log(agent.session_id).find_parked()
    except AgentVMError as error:
        logger.error("parked_turn_not_ended", session_id=agent.session_id, code=error.code, error=str(error))
        return "clear"
    if left is None:
        log.parked = None
    elif agent.find(left.turn_id) is None:
        if agent.inbox[0].waits_for_parked and not agent.inbox[0].stopped:
            return "parked"
        agent.resume(left, stopped=True, suspended=True).release()
        agent.inbox.rotate(1)
    else:
        return "clear"
    return "changed"


async def end_parked(agent: "Agent", choose: Choose | None = None, *, turn_id: TurnId | None = None) -> None:
    """Ends the turn that waits for answers, if there is one, and it is the one of that id: its user does not wait any more.

    Nothing is ended for a change of the history that is refused (`choose` raises).
    """
    if (await agent.writer.log()).parked is None:
        return
    if choose is not None:
        async with agent.ports.rewrites:
            select(choose, *await agent.container.list_recent_messages(agent.session_id, REWRITE_MAX_BYTES))
    left = await agent.container.log(agent.session_id).find_parked()
    if left is None or agent.find(left.turn_id) is not None or turn_id not in (None, left.turn_id):
        return
    if agent.ports.journal.failing:
        raise StoreFailed("The store refuses writes, so the turn that waits for answers is not ended; try again later")
    move(agent.state, Move.RECEIVE)
    accepted = agent.resume(left, stopped=True, suspended=True)
    # Before the messages that wait for its end.
    agent.inbox.rotate(1)
    agent.release(accepted)
    await accepted.over.wait()


async def end_stopped(agent: "Agent", turn_id: TurnId) -> None:
    """Ends a turn that was stopped in the moment in which it was parked, also if an answer has woken it since."""
    if (awake := agent.find(turn_id)) is None:
        await end_parked(agent, turn_id=turn_id)
    elif not awake.stopped:
        agent.cancel(awake)


Expire = Callable[[TenantId, ToolWait], Awaitable[bool]]
"""Ends a wait; False when that cannot be done now."""


class ShortTimers:
    """Wakes the expiry task when a call begins to wait for a time, which may be the earliest; an effector."""

    kinds = (ToolWaiting,)

    def __init__(self) -> None:
        self._begun = anyio.Event()

    def react(self, event: Event) -> None:
        if isinstance(event.data, ToolWaiting) and event.data.kind == "timer":
            self._begun.set()

    async def sleep(self, seconds: float) -> None:
        """Returns after that time, or when another timer has begun."""
        with anyio.move_on_after(seconds):
            await self._begun.wait()
        self._begun = anyio.Event()


async def watch_expiry(store: Store, clock: Clock, expire: Expire, timers: ShortTimers) -> None:
    """Ends waits whose time is up, for the whole server, until cancelled. One that cannot be ended keeps no other waiting."""
    while True:
        ended, following = 0, None
        try:
            for tenant_id, wait in await store.due_waits.list_due(clock(), EXPIRED_MAX):
                ended += await _expire_one(expire, tenant_id, wait)
            following = await store.due_waits.next_due()
        except AgentVMError as error:
            logger.error("waits_not_expired", code=error.code, error=str(error))
        until_next = LONGEST_SLEEP_SECONDS if following is None else max(0.0, (following - clock()) / 1000)
        soonest = 0.0 if ended or until_next else RETRY_SECONDS
        if soonest:
            await anyio.sleep(soonest)
        await timers.sleep(min(until_next, LONGEST_SLEEP_SECONDS))


async def _expire_one(expire: Expire, tenant_id: TenantId, wait: ToolWait) -> bool:
    try:
        return await expire(tenant_id, wait)
    except AgentVMError as error:
        logger.error("wait_not_expired", tenant_id=tenant_id, wait_id=wait.wait_id, code=error.code, error=str(error))
        return False
