"""Client calls — answers of the caller for tool calls that wait: results of its own tools, approvals, answers to questions."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Literal

from msgspec import structs

from agentvm.errors import InvalidInput
from agentvm.gateways.blocks import Stretch
from agentvm.gateways.talk import SentTurn, Talk
from agentvm.model.ids import ContainerId, SessionId, TurnId
from agentvm.model.message import UserContent
from agentvm.model.session import Session
from agentvm.model.turn import Turn
from agentvm.model.wait import AnswerDecision, WaitId, WaitKind
from agentvm.operations.text_answer import answer_open_question
from agentvm.operations.tool import ToolAnswer, ToolWaits, WaitView

AMBIGUOUS = "Several conversations wait for these tool calls: give previous_response_id, or conversation"
NOT_AWAITED = "The tool calls that these results answer are no longer waited for"


@dataclass(frozen=True, slots=True, kw_only=True)
class CallerAnswer:
    """An answer of the caller, before the wait that it belongs to is known."""

    decision: AnswerDecision
    result: object = None
    input: dict[str, object] | None = None
    reason: str | None = None


async def client_waits(talk: Talk, *, session_id: SessionId, turn_id: TurnId | None = None) -> dict[str, WaitView]:
    """Returns the calls that wait for the caller, by their ids; of a turn, also those that have been answered."""
    state: Literal["open"] | None = "open" if turn_id is None else None
    waits = await _list_waits(talk, ToolWaits(session_id=session_id, state=state))
    of_turn = (wait for wait in waits if turn_id is None or wait.turn_id == turn_id)
    return {wait.call_id: wait for wait in of_turn if wait.kind == "client"}


async def find_waiting_turn(
    talk: Talk, call_ids: Collection[str], *, session_id: SessionId | None, container_id: ContainerId
) -> tuple[Turn, dict[str, WaitView]]:
    """Returns the turn that waits for these calls, with all calls that it waits for.

    `InvalidInput` for none, and for several: ids of calls are the model's, and some models number them.
    """
    waits = await _list_waits(talk, ToolWaits(session_id=session_id, container_id=container_id, state="open"))
    turn_ids = {wait.turn_id for wait in waits if wait.kind == "client" and wait.call_id in call_ids}
    if not turn_ids:
        raise InvalidInput(NOT_AWAITED)
    if len(turn_ids) > 1:
        raise InvalidInput(AMBIGUOUS)
    turn = await talk.turn(turn_ids.pop())
    return turn, {wait.call_id: wait for wait in waits if wait.kind == "client" and wait.turn_id == turn.turn_id}


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


async def answer_question(
    talk: Talk, session: Session, content: UserContent, key: str | None
) -> tuple[SentTurn, WaitView] | None:
    """Answers the question that the answer before has ended with; returns the turn, and the wait that it continues after.

    None if nothing is asked. The same request again is the same answer.
    """
    if not isinstance(content, str):
        return None
    with talk.context() as context:
        client_key = key or talk.vm.new_id("msg")
        turn_id = await answer_open_question(context, session.container_id, session.session_id, content, client_key)
        context.finish()
    if turn_id is None:
        return None
    answered = [wait for wait in await turn_waits(talk, session.session_id, turn_id) if wait.answered_at is not None]
    return await talk.sent(await talk.turn(turn_id)), max(answered, key=lambda wait: wait.answered_at or 0)


async def answer_questions(talk: Talk, session: Session, content: UserContent, key: str | None) -> tuple[SentTurn, bool] | None:
    """Answers all questions of a turn with one message; returns the turn, and whether it still waits for answers."""
    before = await _open_waits(talk, session, "question", "elicitation")
    first = await answer_question(talk, session, content, key)
    if first is None:
        return None
    sent, answered = first
    left = before.keys() & await _open_waits(talk, session, "question", "elicitation")
    if left != before.keys():
        for place in range(len(left)):
            await answer_question(talk, session, content, None if key is None else f"{key}/{place}")
        left &= (await _open_waits(talk, session, "question", "elicitation")).keys()
    calls = (await _open_waits(talk, session, "client")).values()
    # A call that was made beside the question, not one that has followed on its answer.
    is_called = any(wait.asked_at < (answered.answered_at or 0) for wait in calls)
    return sent, is_called or (bool(left) and left != before.keys())


async def _open_waits(talk: Talk, session: Session, *kinds: WaitKind) -> dict[WaitId, WaitView]:
    waits = await _list_waits(talk, ToolWaits(session_id=session.session_id, state="open"))
    return {wait.wait_id: wait for wait in waits if wait.kind in kinds}


def _answer(wait: WaitView, answer: CallerAnswer) -> ToolAnswer:
    return ToolAnswer(
        wait_id=wait.wait_id,
        fingerprint=wait.fingerprint,
        decision=answer.decision,
        input=answer.input,
        result=answer.result,
        reason=answer.reason,
    )


async def answer_waits(talk: Talk, session: Session, answers: Mapping[str, CallerAnswer]) -> tuple[SentTurn, Stretch]:
    """Answers the waits of a session, by their ids or those of their calls; returns the rest of the turn. Answering twice in
    the same way changes nothing.

    `InvalidInput` when none of them was asked for, or when another wait of the turn has no answer.
    """
    waits = await _list_waits(talk, ToolWaits(session_id=session.session_id))
    named = {wait.wait_id: key for wait in waits for key in (wait.wait_id, wait.call_id) if key in answers}
    awaited = [wait for wait in waits if wait.wait_id in named]
    if not awaited:
        raise InvalidInput(NOT_AWAITED)
    turn_id = awaited[-1].turn_id
    opened = [wait for wait in waits if wait.turn_id == turn_id and wait.answered_at is None]
    named_waits = [wait for wait in opened if wait.wait_id in named]
    if named_waits and (missing := next((wait for wait in opened if wait.wait_id not in named), None)):
        raise InvalidInput(f"There is no answer to the call {missing.call_id[:80]}, which waits as well")
    with talk.vm.answering.changing([wait.wait_id for wait in named_waits]):
        for wait in named_waits:
            await talk.ask(_answer(wait, answers[named[wait.wait_id]]))
    sent = await talk.sent(await talk.turn(turn_id))
    # Stored one after the other: the turn may wait in between for those that are on their way.
    answered = frozenset(wait.wait_id for wait in awaited)
    return sent, Stretch(after=(named_waits or awaited)[-1].wait_id, answered=answered)


AnsweredCalls = tuple[SentTurn, tuple[WaitView, ...]]
"""A turn whose calls the caller has answered, and their waits, after which it continues."""


async def answered_calls(talk: Talk, session: Session, call_ids: Collection[str]) -> AnsweredCalls | None:
    """Returns the turn of the calls; None if none of them was answered."""
    waits = await _list_waits(talk, ToolWaits(session_id=session.session_id))
    answered = [wait for wait in waits if wait.call_id in call_ids and wait.kind == "client" and wait.answered_at is not None]
    if not answered:
        return None
    answered.sort(key=lambda wait: wait.answered_at or 0)
    turn_id = answered[-1].turn_id
    # Some models number their calls anew in each answer: the latest of a name is meant.
    latest = {wait.call_id: wait for wait in answered if wait.turn_id == turn_id}
    return await talk.sent(await talk.turn(turn_id)), tuple(latest.values())


async def entire_turn(talk: Talk, sent: SentTurn) -> Stretch:
    """Returns a turn from its beginning to its latest event."""
    waits = await _list_waits(talk, ToolWaits(session_id=sent.session_id))
    answered = (wait.wait_id for wait in waits if wait.turn_id == sent.turn_id and wait.answered_at is not None)
    return Stretch(answered=frozenset(answered))


async def answer_calls(talk: Talk, waits: Mapping[str, WaitView], results: Mapping[str, str]) -> TurnId:
    """Answers calls of one turn, which continues. `InvalidInput` when none of them waits, or when another one does."""
    waiting = [(waits[call_id], result) for call_id, result in results.items() if call_id in waits]
    if not waiting:
        raise InvalidInput(NOT_AWAITED)
    open_ids = [call_id for call_id, wait in waits.items() if wait.answered_at is None]
    # Results that are given again are not for the calls that wait by now.
    if not results.keys().isdisjoint(open_ids) and (missing := [call_id for call_id in open_ids if call_id not in results]):
        raise InvalidInput(f"There is no result for the tool call {missing[0][:80]}, which waits as well")
    for wait, result in waiting:
        await talk.ask(ToolAnswer(wait_id=wait.wait_id, fingerprint=wait.fingerprint, decision="answer", result=result))
    return waiting[0][0].turn_id
