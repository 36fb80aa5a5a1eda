from agentvm.gateways.langgraph.streamed_message import INPUT_MAX_CHARACTERS, StreamedMessage
from agentvm.gateways.turn_parts import CallBegun, CallInput, CallMade, TextAdded, ThinkingAdded
from agentvm.model.usage import NO_USAGE


def test_blocks_follow_each_other() -> None:
    message = StreamedMessage("m", "run")
    events = [*message.begin("")]
    for part in (
        ThinkingAdded("hm"),
        TextAdded("a"),
        CallBegun("c", "f"),
        CallInput("c", '{"a"'),
        CallMade("c", "f", {"a": 1}),
    ):
        events += message.write(part)
    events += message.end(NO_USAGE)
    assert [event["event"].removeprefix("content-block-") for event in events] == [
        "message-start", *("start", "delta", "finish") * 3, "message-finish",
    ]  # fmt: skip
    assert [event["content"] for event in events if event["event"] == "content-block-finish"] == [
        {"type": "reasoning", "reasoning": "hm"},
        {"type": "text", "text": "a"},
        {"name": "f", "args": {"a": 1}, "id": "c", "type": "tool_call"},
    ]
    whole = message.whole(NO_USAGE)
    assert (whole["content"], whole["additional_kwargs"]["reasoning_content"], len(whole["tool_calls"])) == ("a", "hm", 1)


def test_a_message_that_goes_on_begins_with_what_was_said() -> None:
    assert StreamedMessage("m", "run").begin("so far")[-1]["delta"] == {"type": "text-delta", "text": "so far"}


def test_a_call_that_is_not_finished_is_invalid() -> None:
    message = StreamedMessage("m", "run")
    message.write(CallBegun("c", "f"))
    message.write(CallInput("c", '{"a'))
    assert message.end(NO_USAGE)[0]["content"]["type"] == "invalid_tool_call"
    assert message.whole(NO_USAGE)["tool_calls"] == []


def test_a_long_input_follows_when_it_is_complete() -> None:
    message = StreamedMessage("m", "run")
    message.write(CallBegun("c", "f"))
    assert message.write(CallInput("c", "x" * INPUT_MAX_CHARACTERS))[0]["delta"]["fields"]["args"]
    assert message.write(CallInput("c", "x")) == []
