"""Parking — turns that wait for somebody: how an answer wakes one, how one ends unanswered, and when waits expire.

A parked turn is rows: its messages, its row with `parked_at`, and one row for each wait. An answer is committed first, then
told; the same commit unparks the turn, so that the next start takes it up should this process die before it goes on.
"""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

import anyio
import msgspec

from agentvm.errors import AgentVMError
from agentvm.log import get_logger
from agentvm.model.ids import Clock, TenantId, TurnId, UserId
from agentvm.model.wait import ToolWait, WaitAnswer
from agentvm.runtime.tool_step import answer_events
from agentvm.storage.sql.store import Store

if TYPE_CHECKING:
    from agentvm.runtime.agent import Agent

logger = get_logger(__name__)

EXPIRED_MAX = 100
"""Waits that are ended in one go."""
LONGEST_SLEEP_SECONDS = 60.0
"""Waits that were opened meanwhile, also by another process, are looked for at least so often."""


async def answer_wait(agent: "Agent", wait: ToolWait, answer: WaitAnswer, by: UserId | None) -> None:
    """Commits and tells the answer to an open wait; then its turn goes on."""
    at, turn_id = agent.ports.clock(), wait.turn_id
    accepted = agent.find(turn_id)
    if accepted is not None:
        accepted.answering += 1
    try:
        scope = msgspec.structs.replace(agent.scope, turn_id=turn_id)
        await agent.writer.emit(answer_events(wait, answer, by, at), scope)
    finally:
        if accepted is not None:
            accepted.answering -= 1
    accepted = agent.find(turn_id)
    if accepted is None:
        await wake(agent, turn_id)
        return
    accepted.waits[wait.call_id] = msgspec.structs.replace(wait, answer=answer, answered_at=at, answered_by=by)
    accepted.answered = True


async def wake(agent: "Agent", turn_id: TurnId) -> None:
    """Takes up a turn that was parked, unless somebody else does."""
    left = await agent.ports.store.tenant(agent.tenant_id).find_turn(turn_id)
    if left is not None and left.outcome is None and agent.find(turn_id) is None:
        agent.release(agent.resume(left, suspended=True))


async def end_parked(agent: "Agent") -> None:
    """Ends the turn that waits for answers, if there is one: its user does not wait any more."""
    if (await agent.writer.log()).parked is None:
        return
    left = await agent.container.log(agent.session_id).find_parked()
    if left is None or agent.find(left.turn_id) is not None:
        return
    accepted = agent.resume(left, stopped=True, suspended=True)
    agent.release(accepted)
    await accepted.over.wait()


Expire = Callable[[TenantId, ToolWait], Awaitable[None]]


async def watch_expiry(store: Store, clock: Clock, expire: Expire) -> None:
    """Ends waits whose time is up, for the whole server, until cancelled."""
    while True:
        try:
            due = await store.due_waits.list_due(clock(), EXPIRED_MAX)
            for tenant_id, wait in due:
                await expire(tenant_id, wait)
            following = None if due else await store.due_waits.next_due()
        except AgentVMError as error:
            logger.error("waits_not_expired", code=error.code, error=str(error))
            due, following = (), None
        if not due:
            until_next = LONGEST_SLEEP_SECONDS if following is None else max(0.0, (following - clock()) / 1000)
            await anyio.sleep(min(until_next, LONGEST_SLEEP_SECONDS))
