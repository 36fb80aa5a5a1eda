from agentvm.gateways.langgraph.messages import human, messages_of, moment, up_to_turn
from agentvm.model.ids import MessageId, TurnId
from agentvm.model.message import (
    AssistantMessage,
    ErrorMessage,
    FilePart,
    ImagePart,
    Message,
    TextOutput,
    TextPart,
    ThinkingPart,
    ToolCall,
    ToolCallMessage,
    ToolResult,
    ToolResultMessage,
    UserMessage,
)
from agentvm.model.usage import Usage


def said(name: str, turn: str | None = None) -> UserMessage:
    turn_id = None if turn is None else TurnId(turn)
    return UserMessage(id=MessageId(name), timestamp=1, turn_id=turn_id, role="user", content=name)


def answered(name: str, turn: str) -> AssistantMessage:
    return AssistantMessage(
        id=MessageId(name), timestamp=1, turn_id=TurnId(turn), role="assistant", content=(TextPart(text=name),)
    )


def test_a_message_of_the_model_has_its_calls_wherever_they_are_stored() -> None:
    made = ToolCall(id="c", name="f", input={"a": 1})
    history: list[Message] = [
        said("q"),
        ToolCallMessage(id=MessageId("t"), timestamp=1, role="assistant", tool_call=made, parent_id=MessageId("a")),
        AssistantMessage(
            id=MessageId("a"),
            timestamp=1,
            role="assistant",
            content=(ThinkingPart(reasoning="hm"),),
            usage=Usage(input_tokens=1, output_tokens=2, cache_read_tokens=3),
        ),
        ToolResultMessage(
            id=MessageId("r"),
            timestamp=1,
            role="tool",
            tool_call_id="c",
            tool_result=ToolResult(id="c", name="f", output=TextOutput(value="2")),
        ),
        ErrorMessage(id=MessageId("e"), timestamp=1, role="error", content="no", error_code="x"),
    ]
    listed = messages_of(history)
    assert [message["type"] for message in listed] == ["human", "ai", "tool"]
    assert listed[1]["tool_calls"] == [{"name": "f", "args": {"a": 1}, "id": "c", "type": "tool_call"}]
    assert listed[1]["additional_kwargs"] == {"reasoning_content": "hm"}
    assert listed[1]["usage_metadata"]["total_tokens"] == 6
    assert (listed[2]["tool_call_id"], listed[2]["content"], listed[2]["status"]) == ("c", "2", "success")


def test_parts_are_blocks() -> None:
    parts = (TextPart(text="x"), ImagePart(data="AAAA", media_type="image/png"), FilePart(data="BB==", media_type="a/b"))
    blocks = human("m", parts)["content"]
    assert [block["type"] for block in blocks] == ["text", "image_url", "file"]
    assert blocks[1]["image_url"]["url"] == "data:image/png;base64,AAAA"
    assert moment(0) == "1970-01-01T00:00:00+00:00"


def test_a_turn_that_was_queued_has_seen_the_answer_before_it() -> None:
    history: list[Message] = [
        said("seed"),
        said("q1", "1"),
        said("q2", "2"),
        answered("a1", "1"),
        answered("a2", "2"),
        said("q3", "3"),
    ]
    assert [message.id for message in up_to_turn(history, "2", whole=False)] == ["seed", "q1", "a1", "q2"]
    assert [message.id for message in up_to_turn(history, "2", whole=True)] == ["seed", "q1", "a1", "q2", "a2"]
    assert [message.id for message in up_to_turn(history, "1", whole=True)] == ["seed", "q1", "a1"]
