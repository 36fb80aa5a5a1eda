"""The text of strangers in a prompt: known also after a restart, and as it was when the model asked."""

from agentvm.model.ids import MessageId, TurnId
from agentvm.model.message import TextOutput, ToolCall, ToolCallMessage, ToolResult, ToolResultMessage
from agentvm.runtime.answering import _is_tainted
from agentvm.storage.base import Recalled

TURN = TurnId("t2")


def call(call_id: str, turn_id: str = "t2") -> ToolCallMessage:
    return ToolCallMessage(
        id=MessageId(f"call_{call_id}"),
        timestamp=1,
        turn_id=TurnId(turn_id),
        role="assistant",
        parent_id=MessageId("m"),
        tool_call=ToolCall(id=call_id, name="fetch", input={}),
    )


def result(call_id: str, *, tainted: bool, turn_id: str = "t2") -> ToolResultMessage:
    output = TextOutput(value="")
    return ToolResultMessage(
        id=MessageId(f"result_{call_id}"),
        timestamp=1,
        turn_id=TurnId(turn_id),
        role="tool",
        tool_call_id=call_id,
        tool_result=ToolResult(id=call_id, name="fetch", output=output, tainted=tainted),
    )


def test_a_result_beside_a_call_that_is_missing_its_own_was_not_in_the_prompt() -> None:
    history = Recalled(messages=(call("c1"), call("c2"), result("c1", tainted=True)))
    assert _is_tainted(history)
    assert not _is_tainted(history, TURN, {"c2"})


def test_whatever_was_said_before_the_call_was_in_the_prompt() -> None:
    history = Recalled(messages=(call("c0"), result("c0", tainted=True), call("c1")))
    assert _is_tainted(history, TURN, {"c1"})


def test_calls_of_other_turns_may_have_the_same_id() -> None:
    history = Recalled(messages=(call("c1", "t1"), result("c1", tainted=True, turn_id="t1"), call("c1")))
    assert _is_tainted(history, TURN, {"c1"})
