import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.conformance.records import EVERY_KIND

from agentvm.errors import InvalidInput
from agentvm.model.ids import MessageId, TurnId
from agentvm.model.message import (
    AssistantMessage,
    ContentOutput,
    DeniedOutput,
    ErrorJsonOutput,
    ErrorMessage,
    ErrorTextOutput,
    FilePart,
    ImagePart,
    JsonOutput,
    LinkPart,
    Message,
    TextOutput,
    TextPart,
    ThinkingPart,
    ToolCall,
    ToolCallMessage,
    ToolResult,
    ToolResultMessage,
    UserMessage,
    content_size,
    decode_message,
    encode_message,
    measure,
    repair_text,
    rough_size,
)
from agentvm.model.usage import Usage

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
ids = texts.map(MessageId)
turns = st.none() | texts.map(TurnId)
times = st.integers(0, 2**53)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=5,
)
parts = (
    st.builds(TextPart, text=texts)
    | st.builds(ImagePart, data=texts, media_type=texts, name=st.none() | texts)
    | st.builds(FilePart, data=texts, media_type=texts, filename=st.none() | texts)
)
spoken = st.builds(TextPart, text=texts) | st.builds(ThinkingPart, reasoning=texts, signature=st.none() | texts)
counts = st.integers(0, 2**40)
usages = st.builds(Usage, input_tokens=counts, output_tokens=counts, cache_read_tokens=counts, estimated=st.booleans())
output_parts = parts | st.builds(LinkPart, uri=texts, name=st.none() | texts)
outputs = (
    st.builds(TextOutput, value=texts)
    | st.builds(ErrorTextOutput, value=texts)
    | st.builds(JsonOutput, value=json_values)
    | st.builds(ErrorJsonOutput, value=json_values)
    | st.builds(DeniedOutput, reason=texts)
    | st.builds(ContentOutput, value=st.lists(output_parts).map(tuple))
)
messages: st.SearchStrategy[Message] = st.one_of(
    st.builds(
        UserMessage, id=ids, timestamp=times, turn_id=turns, role=st.just("user"), content=texts | st.lists(parts).map(tuple)
    ),
    st.builds(
        AssistantMessage,
        id=ids,
        timestamp=times,
        turn_id=turns,
        role=st.just("assistant"),
        content=st.lists(spoken, max_size=3).map(tuple),
        usage=st.none() | usages,
    ),
    st.builds(
        ToolCallMessage,
        id=ids,
        timestamp=times,
        turn_id=turns,
        role=st.just("assistant"),
        tool_call=st.builds(ToolCall, id=texts, name=texts, input=st.dictionaries(texts, json_values, max_size=3)),
        parent_id=ids,
    ),
    st.builds(
        ToolResultMessage,
        id=ids,
        timestamp=times,
        turn_id=turns,
        role=st.just("tool"),
        tool_call_id=texts,
        tool_result=st.builds(ToolResult, id=texts, name=texts, output=outputs),
    ),
    st.builds(ErrorMessage, id=ids, timestamp=times, turn_id=turns, role=st.just("error"), content=texts, error_code=texts),
)


@given(messages)
def test_a_message_reads_back_from_its_json(message: Message) -> None:
    assert decode_message(encode_message(message)) == message


@given(messages)
def test_every_message_names_its_role_and_subtype(message: Message) -> None:
    body = json.loads(encode_message(message))
    assert body["role"] == message.role
    assert body["subtype"] in {"user", "assistant", "tool-call", "tool-result", "error"}


def test_messages_have_the_shapes_1x_clients_read() -> None:
    call = ToolCall(id="toolu_1", name="Bash", input={"command": "ls"})
    result = ToolResult(id="toolu_1", name="Bash", output=TextOutput(value="a.txt"))
    call_message = ToolCallMessage(id=MessageId("m2"), timestamp=2, role="assistant", tool_call=call, parent_id=MessageId("m1"))
    result_message = ToolResultMessage(id=MessageId("m3"), timestamp=3, role="tool", tool_call_id="toolu_1", tool_result=result)
    assert json.loads(encode_message(call_message)) == {
        "id": "m2",
        "role": "assistant",
        "subtype": "tool-call",
        "toolCall": {"type": "tool-call", "id": "toolu_1", "name": "Bash", "input": {"command": "ls"}},
        "timestamp": 2,
        "parentId": "m1",
    }
    assert json.loads(encode_message(result_message)) == {
        "id": "m3",
        "role": "tool",
        "subtype": "tool-result",
        "toolCallId": "toolu_1",
        "toolResult": {
            "type": "tool-result",
            "id": "toolu_1",
            "name": "Bash",
            "output": {"type": "text", "value": "a.txt"},
        },
        "timestamp": 3,
    }


def test_the_text_of_an_answer_leaves_its_thinking_out() -> None:
    content = (ThinkingPart(reasoning="hm"), TextPart(text="a"), TextPart(text="b"))
    assert AssistantMessage(id=MessageId("m"), timestamp=1, role="assistant", content=content).text == "ab"


def test_a_message_is_measured_by_its_text_and_by_what_is_inside() -> None:
    picture = ImagePart(data="iVBO", media_type="image/png", name="é")
    paper = FilePart(data="http://example.org/ä.pdf", media_type="application/pdf")
    assert measure("héllo") == (6, 0)
    assert measure((TextPart(text="abc"), picture, paper)) == (3 + 2 + len("image/png") + len("application/pdf"), 4 + 24)
    with pytest.raises(InvalidInput, match="base64"):
        measure((ImagePart(data="\u4e2d" * 100_000, media_type="image/png"),))


def test_the_size_of_what_was_said_counts_texts_and_data() -> None:
    picture = ImagePart(data="abcd", media_type="image/png")
    assert content_size("hello") == 5
    assert content_size((TextPart(text="hello"), picture)) == 9


def test_the_rough_size_of_a_message_is_that_of_what_it_holds() -> None:
    for message in EVERY_KIND:
        assert 0 <= rough_size(message) <= len(encode_message(message))
    long = UserMessage(id=MessageId("m"), timestamp=1, role="user", content="x" * 1_000)
    assert rough_size(long) == 1_000


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_sound_text_is_left_alone(text: str) -> None:
    assert repair_text(text) is text


@given(st.text(st.characters()))
def test_any_text_becomes_encodable(text: str) -> None:
    assert repair_text(text).encode().decode() == repair_text(text)


@pytest.mark.parametrize(("text", "expected"), [("a\ud800b", "a\ufffdb"), ("\ud83d\ude00", "😀"), ("\udc00", "\ufffd")])
def test_only_lone_halves_are_replaced(text: str, expected: str) -> None:
    assert repair_text(text) == expected


def test_a_denied_call_of_an_older_server_is_read() -> None:
    body = encode_message(
        ToolResultMessage(
            id=MessageId("m"),
            timestamp=1,
            role="tool",
            tool_call_id="c",
            tool_result=ToolResult(id="c", name="t", output=DeniedOutput(value="not today")),
        )
    )
    assert b"reason" not in body
    message = decode_message(body)
    assert isinstance(message, ToolResultMessage)
    assert message.tool_result.output.text == "not today"


def test_the_text_of_a_result_with_pictures_names_them() -> None:
    picture = ImagePart(data="attachment:sha256:" + "0" * 64, media_type="image/png", name="plot.png")
    output = ContentOutput(value=(TextPart(text="Done."), picture, LinkPart(uri="https://a.test/x", name="more")))
    assert output.text == f"Done.\n[plot.png, image/png: {picture.data}]\nmore: https://a.test/x"
