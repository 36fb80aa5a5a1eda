"""Client calls — answers of the caller for tool calls that wait: results of its own tools, approvals, answers to questions."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from msgspec import structs

from agentvm.errors import InvalidInput
from agentvm.gateways.blocks import Stretch
from agentvm.gateways.talk import SentTurn, Talk
from agentvm.model.ids import ContainerId, SessionId, TurnId
from agentvm.model.session import Session
from agentvm.model.wait import AnswerDecision
from agentvm.operations.tool import ToolAnswer, ToolWaits, WaitView

NOT_AWAITED = "The tool calls that these results answer are no longer waited for"


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenAnswer:
    """An answer of the caller, before it is known what waits for it."""

    decision: AnswerDecision
    result: object = None
    input: dict[str, object] | None = None
    reason: str | None = None


async def client_waits(
    talk: Talk, *, session_id: SessionId | None = None, container_id: ContainerId | None = None, turn_id: TurnId | None = None
) -> dict[str, WaitView]:
    """Returns the calls that wait for the caller, by their ids; of a turn, also those that have been answered."""
    state: Literal["open"] | None = "open" if turn_id is None else None
    waits = await _list_waits(talk, ToolWaits(session_id=session_id, container_id=container_id, state=state))
    of_turn = (wait for wait in waits if turn_id is None or wait.turn_id == turn_id)
    return {wait.call_id: wait for wait in of_turn if wait.kind == "client"}


async def _list_waits(talk: Talk, request: ToolWaits) -> list[WaitView]:
    page = await talk.ask(request)
    waits = list(page.waits)
    while page.next_cursor is not None:
        page = await talk.ask(structs.replace(request, cursor=page.next_cursor))
        waits += page.waits
    return waits


async def turn_waits(talk: Talk, session_id: SessionId, turn_id: TurnId) -> list[WaitView]:
    """Returns all that a turn has waited for."""
    return [wait for wait in await _list_waits(talk, ToolWaits(session_id=session_id)) if wait.turn_id == turn_id]


async def answer_waits(talk: Talk, session: Session, given: Mapping[str, GivenAnswer]) -> tuple[SentTurn, Stretch]:
    """Answers the waits of a session, by their ids or those of their calls; returns what follows. The same again is the same.

    `InvalidInput` when none of them was asked for, or when another wait of the turn has no answer.
    """
    waits = await _list_waits(talk, ToolWaits(session_id=session.session_id))
    named = {wait.wait_id: key for wait in waits for key in (wait.wait_id, wait.call_id) if key in given}
    awaited = [wait for wait in waits if wait.wait_id in named]
    if not awaited:
        raise InvalidInput(NOT_AWAITED)
    turn_id = awaited[-1].turn_id
    opened = [wait for wait in waits if wait.turn_id == turn_id and wait.answered_at is None]
    named_waits = [wait for wait in opened if wait.wait_id in named]
    if named_waits and (missing := next((wait for wait in opened if wait.wait_id not in named), None)):
        raise InvalidInput(f"There is no answer to the call {missing.call_id[:80]}, which waits as well")
    for wait in named_waits:
        answer = given[named[wait.wait_id]]
        await talk.ask(
            ToolAnswer(
                wait_id=wait.wait_id,
                fingerprint=wait.fingerprint,
                decision=answer.decision,
                input=answer.input,
                result=answer.result,
                reason=answer.reason,
            )
        )
    sent = await talk.sent(await talk.turn(turn_id))
    return sent, Stretch(after=(named_waits or awaited)[-1].wait_id)


async def whole_turn(talk: Talk, sent: SentTurn) -> Stretch:
    """Returns a turn from its beginning to what happens now."""
    waits = await _list_waits(talk, ToolWaits(session_id=sent.session_id))
    answered = (wait.wait_id for wait in waits if wait.turn_id == sent.turn_id and wait.answered_at is not None)
    return Stretch(answered=frozenset(answered))


async def answer_calls(talk: Talk, waits: Mapping[str, WaitView], results: Mapping[str, str]) -> TurnId:
    """Answers calls of one turn, which goes on. `InvalidInput` when none of them waits."""
    waiting = [(waits[call_id], result) for call_id, result in results.items() if call_id in waits]
    if not waiting:
        raise InvalidInput(NOT_AWAITED)
    for wait, result in waiting:
        await talk.ask(ToolAnswer(wait_id=wait.wait_id, fingerprint=wait.fingerprint, decision="answer", result=result))
    return waiting[0][0].turn_id
