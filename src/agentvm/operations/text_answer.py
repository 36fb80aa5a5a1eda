"""Text answers — messages that answer the calls that wait, for clients that can only send messages."""

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from agentvm.errors import InvalidInput
from agentvm.model.ids import ContainerId, SessionId, TurnId
from agentvm.model.wait import REASON_MAX, ToolWait, options_of
from agentvm.operations.gate import enter
from agentvm.operations.pages import is_number
from agentvm.operations.tool import ToolAnswer, give_answer
from agentvm.operations.wait_answer import answers_of

if TYPE_CHECKING:
    from agentvm.operations.context import Context

TEXT_ANSWER_MAX = REASON_MAX + 20
"""Characters of a message that may be an answer."""
WAITS_MAX = 100
"""Calls that one message answers."""
_COMMAS = re.compile("[,，、]")


@dataclass(frozen=True, slots=True)
class TextAnswer:
    decision: Literal["approve", "deny"]
    of_all: bool = False
    reason: str | None = None


_WHOLE = {
    "/approve": TextAnswer("approve"),
    "/approve all": TextAnswer("approve", of_all=True),
    "同意": TextAnswer("approve"),
    "/deny": TextAnswer("deny"),
    "拒绝": TextAnswer("deny"),
}


def parse_answer(text: str) -> TextAnswer | None:
    """Returns the answer that a message is; None for any other message."""
    text = text.strip()
    if text in _WHOLE:
        return _WHOLE[text]
    for word in ("/deny ", "拒绝 ", "拒绝：", "拒绝:"):
        if text.startswith(word):
            return TextAnswer("deny", reason=text.removeprefix(word).strip()[:REASON_MAX] or None)
    return None


async def answer_open_waits(
    context: "Context", container_id: ContainerId, session_id: SessionId, words: TextAnswer, client_key: str | None
) -> TurnId | None:
    """Answers the oldest call of the session that takes the decision, or all of them; None if there is none.

    A message that is sent again, which its key tells, answers no further call.
    """
    waits = context.store.waits((container_id,))
    if client_key is not None and (before := await waits.find_text_answer(session_id, client_key)) is not None:
        return before.turn_id
    page = await waits.list_page(session_id=session_id, state="open", after=0, limit=WAITS_MAX)
    fitting = [wait for _, wait in page if words.decision in wait.decisions]
    chosen = fitting if words.of_all else fitting[:1]
    for wait in chosen:
        answer = ToolAnswer(wait_id=wait.wait_id, fingerprint=wait.fingerprint, decision=words.decision, reason=words.reason)
        await give_answer(context, answer, client_key)
        await enter("wait.answer", context, "ok")
    return chosen[0].turn_id if chosen else None


async def answer_open_question(
    context: "Context", container_id: ContainerId, session_id: SessionId, text: str, client_key: str
) -> TurnId | None:
    """Answers the oldest question of the session with a text; None if nothing is asked, or the text is no answer to it.

    Of options, the text is one of them, or its number from 1 on; of several, a list with commas. The message that has begun a
    turn of the session is no answer when it is sent again.
    """
    waits = context.store.waits((container_id,))
    if (before := await waits.find_text_answer(session_id, client_key)) is not None:
        return before.turn_id
    page = await waits.list_page(session_id=session_id, state="open", after=0, limit=WAITS_MAX)
    wait = next((wait for _, wait in page if wait.kind in ("question", "elicitation")), None)
    result = None if wait is None else _fitting(wait, text.strip())
    if wait is None or result is None:
        return None
    if await context.store.container(container_id).log(session_id).find_turn(client_key) is not None:
        return None
    answer = ToolAnswer(wait_id=wait.wait_id, fingerprint=wait.fingerprint, decision="answer", result=result)
    await give_answer(context, answer, client_key)
    await enter("wait.answer", context, "ok")
    return wait.turn_id


def _fitting(wait: ToolWait, text: str) -> object:
    """Returns the answer that a text gives to a question; None if it does not fit."""
    options = options_of(wait.questions)
    words = [word.strip() for word in _COMMAS.split(text) if word.strip()]
    chosen = [options[int(word) - 1] if is_number(word) and 0 < int(word) <= len(options) else word for word in words]
    readings: list[object] = [text, chosen[0] if len(chosen) == 1 else None, chosen]
    for reading in readings:
        try:
            if reading and answers_of(wait, reading):
                return reading
        except InvalidInput:
            continue
    return None
