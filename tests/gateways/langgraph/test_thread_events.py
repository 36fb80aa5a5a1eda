from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from langgraph_sdk._sync import stream as sdk_stream
from langgraph_sdk.stream.decoders import MessagesDecoder, ToolCallsDecoder
from tests.gateways.langgraph.test_run_events import PARTS, USED, decoded

from agentvm.gateways.langgraph.messages import human
from agentvm.gateways.langgraph.run_events import VALUES_MAX_BYTES
from agentvm.gateways.langgraph.thread_events import ThreadEvents
from agentvm.gateways.turn_parts import AnswerBegun, AnswerEnded, TextAdded, TurnEnded, TurnPart

ALL = frozenset({"values", "checkpoints", "messages", "tools", "lifecycle", "input"})
ChatModelStream: Any = vars(sdk_stream)["ChatModelStream"]
TOOL_TURN: list[TurnPart] = [*PARTS[:8], AnswerBegun("n"), TextAdded("do"), TextAdded("ne"), AnswerEnded(USED), PARTS[10]]


def written(parts: list[TurnPart], after: int = 0, channels: frozenset[str] = ALL) -> list[dict[str, Any]]:
    events = ThreadEvents(channels, after)
    events.begin("run", [human("h", "hi")])
    raw = b"".join(events.write(part, number, 7) for number, part in enumerate(parts, 1))
    return [data for _, data, _ in decoded(raw)]


class Handle:
    """A call as the official client follows it."""

    def __init__(self, **about: Any) -> None:
        self.about, self.output = about, ""

    def _finish(self, output: str) -> None:
        self.output = output

    def _fail(self, error: Exception) -> None:
        self.output = str(error)


@settings(max_examples=30)
@given(st.lists(st.sampled_from(PARTS), max_size=30))
def test_any_order_of_parts_is_a_stream_that_the_official_client_reads(parts: list[TurnPart]) -> None:
    said = MessagesDecoder([], lambda **about: ChatModelStream(**about))
    calls = ToolCallsDecoder([], lambda **about: Handle(**about))
    is_open, ids = False, set[str]()
    for event in written(parts):
        assert event["event_id"] not in ids
        ids.add(event["event_id"])
        data = event["params"]["data"]
        for _ in (*said.feed(event), *calls.feed(event)):
            pass
        if event["method"] == "messages":
            match data["event"]:
                case "content-block-start":
                    assert not is_open
                    is_open = True
                case "content-block-delta":
                    assert is_open
                case "content-block-finish":
                    assert is_open
                    is_open = False
                case _:
                    assert not is_open


@settings(max_examples=30)
@given(st.lists(st.sampled_from(PARTS), max_size=30))
def test_a_stream_that_goes_on_loses_nothing(parts: list[TurnPart]) -> None:
    """A client goes on after the number it has seen, and leaves out events that it has, by their ids."""
    whole = written(parts)
    for seen in range(min(len(whole), 8)):
        since = max((event["seq"] for event in whole[:seen]), default=0)
        rest = {event["event_id"] for event in written(parts, since)}
        assert {event["event_id"] for event in whole[seen:]} <= rest


def test_events_have_the_same_ids_on_every_stream() -> None:
    whole = {event["event_id"]: event["params"] for event in written(TOOL_TURN)}
    for channel in ALL:
        for event in written(TOOL_TURN, channels=frozenset({channel})):
            assert whole[event["event_id"]] == event["params"]


def test_a_tool_turn_is_written_on_all_channels() -> None:
    events = written(TOOL_TURN)
    told = [(event["method"], event["params"]["data"]) for event in events]
    assert [data["event"] for method, data in told if method == "lifecycle"] == ["running", "completed"]
    assert [data["event"] for method, data in told if method == "tools"] == ["tool-started", "tool-finished"]
    values = [[message["type"] for message in data["messages"]] for method, data in told if method == "values"]
    assert values == [["human"], ["human", "ai"], ["human", "ai", "tool"], ["human", "ai", "tool", "ai"]]
    assert [data["step"] for method, data in told if method == "checkpoints"] == [1, 2, 3, 4]
    streams = MessagesDecoder([], lambda **about: ChatModelStream(**about))
    first, last = [stream for event in events for stream in streams.feed(event)]
    assert (str(first.text), first.tool_calls.get()) == (
        'a "b"\n',
        [{"name": "f", "args": {"a": 1}, "id": "c", "type": "tool_call"}],
    )
    assert str(last.text) == "done"


def test_a_turn_that_waits_says_for_what_and_runs_again_afterwards() -> None:
    events = written([*PARTS[:7], PARTS[8], PARTS[9], PARTS[7], PARTS[10]])
    told = [(event["method"], event["params"]["data"]) for event in events]
    requested = [data for method, data in told if method == "input.requested"]
    assert requested[0]["interrupt_id"] == "w"
    assert requested[0]["payload"] == requested[0]["value"]
    states = [data["event"] for method, data in told if method == "lifecycle"]
    assert states == ["running", "interrupted", "running", "completed"]


def test_an_answer_that_is_begun_again_replaces_the_first() -> None:
    events = written([AnswerBegun("m"), TextAdded("lost"), AnswerBegun("m"), TextAdded("kept"), AnswerEnded(USED), PARTS[10]])
    values = [event["params"]["data"]["messages"] for event in events if event["method"] == "values"]
    assert [[message["content"] for message in messages] for messages in values] == [["hi"], ["hi", "kept"]]


def test_a_failure_is_the_last_event() -> None:
    last = written([AnswerBegun("m"), TextAdded("a"), PARTS[11]])[-1]
    assert last["params"]["data"] == {"event": "failed", "error": "busy"}


def test_a_large_history_is_sent_once_at_the_end() -> None:
    events = ThreadEvents(frozenset({"values"}))
    events.begin("run", [human("h", "x" * VALUES_MAX_BYTES)])
    parts: tuple[TurnPart, ...] = (
        AnswerBegun("m"),
        TextAdded("a"),
        AnswerEnded(USED),
        TurnEnded("completed", "end_turn", USED),
    )
    raw = b"".join(events.write(part, number, 7) for number, part in enumerate(parts, 1))
    assert [data["seq"] for _, data, _ in decoded(raw)] == [4]
