from agentvm.model.ids import MessageId, TurnId
from agentvm.model.message import (
    AssistantMessage,
    Message,
    TextPart,
    ToolCall,
    ToolCallMessage,
    ToolOutput,
    ToolResult,
    ToolResultMessage,
    UserMessage,
)
from agentvm.model.usage import Usage
from agentvm.runtime.recovery import Done, review

ONE, TWO = TurnId("turn_1"), TurnId("turn_2")
SPENT = Usage(input_tokens=3, output_tokens=5)


def user(turn_id: TurnId = ONE) -> Message:
    return UserMessage(id=MessageId("u"), timestamp=1, turn_id=turn_id, role="user", content="go")


def step(message_id: str, turn_id: TurnId = ONE) -> Message:
    parts = (TextPart(text="hm"),)
    return AssistantMessage(
        id=MessageId(message_id), timestamp=1, turn_id=turn_id, role="assistant", content=parts, usage=SPENT
    )


def call(call_id: str, parent: str, turn_id: TurnId = ONE) -> Message:
    asked = ToolCall(id=call_id, name="t", input={})
    return ToolCallMessage(
        id=MessageId(f"m_{call_id}"),
        timestamp=1,
        turn_id=turn_id,
        role="assistant",
        tool_call=asked,
        parent_id=MessageId(parent),
    )


def result(call_id: str) -> Message:
    given = ToolResult(id=call_id, name="t", output=ToolOutput(type="text", value="x"))
    return ToolResultMessage(
        id=MessageId(f"r_{call_id}"), timestamp=1, turn_id=ONE, role="tool", tool_call_id=call_id, tool_result=given
    )


def test_a_turn_that_had_not_begun_to_answer_has_done_nothing() -> None:
    assert review([user()], ONE) == Done()


def test_calls_with_a_result_are_done_and_those_without_are_left() -> None:
    done = review([user(), call("c1", "a"), call("c2", "a"), step("a"), result("c1")], ONE)
    assert [(pending.call.id, pending.problem) for pending in done.unanswered] == [("c2", None)]
    assert done.usage == SPENT
    assert done.call_ids == {"c1", "c2"}


def test_calls_of_a_step_that_was_not_finished_never_ran_but_their_ids_are_taken() -> None:
    done = review([user(), call("c1", "a"), step("a"), result("c1"), call("c2", "b")], ONE)
    assert done.unanswered == ()
    assert done.call_ids == {"c1", "c2"}


def test_other_turns_do_not_count() -> None:
    assert review([user(TWO), call("c1", "a", TWO), step("a", TWO)], ONE) == Done()


def test_every_finished_step_was_paid_for() -> None:
    assert review([user(), step("a"), step("b")], ONE).usage == SPENT + SPENT
