"""Client calls — results of the caller's own tools, given to the calls that wait for them."""

from collections.abc import Mapping
from typing import Literal

from agentvm.errors import InvalidInput
from agentvm.gateways.talk import Talk
from agentvm.model.ids import ContainerId, SessionId, TurnId
from agentvm.operations.tool import ToolAnswer, ToolWaits, WaitView

NOT_AWAITED = "The tool calls that these results answer are no longer waited for"


async def client_waits(
    talk: Talk, *, session_id: SessionId | None = None, container_id: ContainerId | None = None, turn_id: TurnId | None = None
) -> dict[str, WaitView]:
    """Returns the calls that wait for the caller, by their ids; of a turn, also those that have been answered."""
    waits: dict[str, WaitView] = {}
    cursor: str | None = None
    state: Literal["open"] | None = "open" if turn_id is None else None
    while True:
        asked = ToolWaits(session_id=session_id, container_id=container_id, state=state, cursor=cursor)
        page = await talk.ask(asked)
        of_turn = (wait for wait in page.waits if turn_id is None or wait.turn_id == turn_id)
        waits |= {wait.call_id: wait for wait in of_turn if wait.kind == "client"}
        cursor = page.next_cursor
        if cursor is None:
            return waits


async def answer_calls(talk: Talk, waits: Mapping[str, WaitView], results: Mapping[str, str]) -> TurnId:
    """Answers calls of one turn, which goes on. `InvalidInput` when none of them waits."""
    waiting = [(waits[call_id], result) for call_id, result in results.items() if call_id in waits]
    if not waiting:
        raise InvalidInput(NOT_AWAITED)
    for wait, result in waiting:
        await talk.ask(ToolAnswer(wait_id=wait.wait_id, fingerprint=wait.fingerprint, decision="answer", result=result))
    return waiting[0][0].turn_id
