import pytest

from agentvm.errors import InvalidInput, NotFound
from agentvm.gateways.openai.response_items import items_of, page_of, parts_of
from agentvm.gateways.openai.response_outputs import call_error
from agentvm.gateways.turn_parts import CallEnded, CallMade, CallWaits, TextAdded, ThinkingAdded, TurnEnded, TurnWaits
from agentvm.model.ids import ContainerId, ImageId, MessageId, SessionId, TurnId
from agentvm.model.message import (
    AssistantMessage,
    ErrorMessage,
    ErrorTextOutput,
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
from agentvm.model.turn import Turn

MINE = frozenset({"mine"})
ASKED = UserMessage(
    id=MessageId("m1"),
    timestamp=1,
    role="user",
    content=(
        TextPart(text="see"),
        ImagePart(data="AAAA", media_type="image/png"),
        FilePart(data="https://example.org/a", media_type="text/plain", filename="a"),
    ),
)


def called(number: int, name: str, parent: str) -> ToolCallMessage:
    call = ToolCall(id=f"c{number}", name=name, input={"x": number})
    return ToolCallMessage(
        id=MessageId(f"t{number}"), timestamp=1, role="assistant", tool_call=call, parent_id=MessageId(parent)
    )


def ended(number: int, name: str, text: str, *, is_error: bool = False) -> ToolResultMessage:
    output = ErrorTextOutput(value=text) if is_error else TextOutput(value=text)
    result = ToolResult(id=f"c{number}", name=name, output=output)
    return ToolResultMessage(
        id=MessageId(f"r{number}"), timestamp=1, role="tool", tool_call_id=f"c{number}", tool_result=result
    )


MESSAGES: list[Message] = [
    ASKED,
    called(1, "own", "m2"),
    called(2, "mine", "m2"),
    AssistantMessage(
        id=MessageId("m2"), timestamp=1, role="assistant", content=(ThinkingPart(reasoning="hm"), TextPart(text="well"))
    ),
    ended(1, "own", "no", is_error=True),
    ended(2, "mine", "yes"),
    called(3, "own", "m3"),
    AssistantMessage(id=MessageId("m3"), timestamp=1, role="assistant", content=()),
    ErrorMessage(id=MessageId("m4"), timestamp=1, role="error", content="too slow", error_code="timeout"),
]


def turn(**about: object) -> Turn:
    where = {"container_id": ContainerId("c"), "image_id": ImageId("img_1"), "session_id": SessionId("sess_1")}
    return Turn(turn_id=TurnId("turn_1"), message_id=MessageId("m1"), accepted_at=1, **where, **about)  # type: ignore[arg-type]


def test_messages_are_items_in_the_order_of_speech() -> None:
    items = items_of(MESSAGES, MINE)
    assert [(item["type"], item["id"]) for item in items] == [
        ("message", "m1"), ("reasoning", "rs_m2"), ("message", "m2"), ("mcp_call", "mcp_t1"), ("function_call", "fc_t2"),
        ("function_call_output", "fco_r2"), ("mcp_call", "mcp_t3"),
    ]  # fmt: skip
    assert [part["type"] for part in items[0]["content"]] == ["input_text", "input_image", "input_file"]
    assert items[0]["content"][1]["image_url"] == "data:image/png;base64,AAAA"
    assert items[0]["content"][2]["file_data"] == "https://example.org/a"
    assert (items[3]["error"], items[3]["status"]) == (call_error("no"), "failed")
    assert (items[4]["call_id"], items[4]["arguments"], items[5]["output"]) == ("c2", '{"x":2}', "yes")
    assert items[6]["status"] == "in_progress"


def test_a_turn_without_events_has_the_parts_of_its_messages() -> None:
    kinds = [type(part) for part in parts_of(turn(outcome="failed"), MESSAGES, MINE)]
    asked = [CallMade, CallMade, CallWaits, TurnWaits]
    assert kinds == [ThinkingAdded, TextAdded, *asked, CallEnded, CallEnded, CallMade, TurnEnded]
    *_, end = parts_of(turn(outcome="failed"), MESSAGES, MINE)
    assert isinstance(end, TurnEnded)
    assert (end.stop, end.error) == ("error", ("timeout", "too slow"))
    *_, end = parts_of(turn(), MESSAGES[:4], MINE)
    assert isinstance(end, TurnWaits)


def test_a_list_is_read_in_pages_from_either_end() -> None:
    items = [{"id": f"i{number}"} for number in range(5)]

    def read(**query: str) -> tuple[list[str], bool]:
        page = page_of(items, query)
        data = page["data"]
        assert isinstance(data, list)
        assert page["object"] == "list"
        assert (page["first_id"], page["last_id"]) == ((data[0]["id"], data[-1]["id"]) if data else ("", ""))
        return [item["id"] for item in data], bool(page["has_more"])

    assert read() == (["i4", "i3", "i2", "i1", "i0"], False)
    assert read(order="asc", limit="2") == (["i0", "i1"], True)
    assert read(order="asc", limit="3", after="i1") == (["i2", "i3", "i4"], False)
    assert read(after="i0") == ([], False)
    with pytest.raises(NotFound):
        read(after="x")
    for query in ({"limit": "101"}, {"limit": "0"}, {"limit": "-1"}, {"limit": "9" * 5_000}, {"order": "up"}):
        with pytest.raises(InvalidInput):
            read(**query)
