from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from langgraph_sdk.sse import SSEDecoder

from agentvm.gateways.langgraph.messages import human
from agentvm.gateways.langgraph.run_events import VALUES_MAX_BYTES, RunEvents
from agentvm.gateways.turn_parts import (
    AnswerBegun,
    AnswerEnded,
    CallBegun,
    CallEnded,
    CallInput,
    CallMade,
    CallWaits,
    TextAdded,
    ThinkingAdded,
    TurnEnded,
    TurnPart,
    TurnWaits,
)
from agentvm.model.usage import Usage
from agentvm.model.wait import WaitId

USED = Usage(input_tokens=1, output_tokens=2)
ALL = frozenset({"values", "messages", "messages-tuple", "updates"})
PARTS: tuple[TurnPart, ...] = (
    AnswerBegun("m"),
    TextAdded('a "b"\n'),
    ThinkingAdded("hm"),
    CallBegun("c", "f"),
    CallInput("c", '{"a"'),
    CallMade("c", "f", {"a": 1}),
    AnswerEnded(USED),
    CallEnded("c", "f", "2", is_error=False, message_id="r"),
    CallWaits("c", "f", {}, "approval", WaitId("w"), "p"),
    TurnWaits((WaitId("w"),)),
    TurnEnded("completed", "end_turn", USED),
    TurnEnded("failed", "error", USED, ("provider_overloaded", "busy")),
)


def decoded(raw: bytes) -> list[tuple[str, Any, str | None]]:
    decoder = SSEDecoder()
    parts = [decoder.decode(line) for line in raw.split(b"\n")]
    return [(part.event, part.data, part.id) for part in parts if part is not None]


def written(parts: list[TurnPart], after: int = 0, modes: frozenset[str] = ALL) -> bytes:
    events = RunEvents("run", "thread", "agent", modes, after)
    raw = events.begin(0) + events.remember([human("h", "hi")], 1)
    return raw + b"".join(events.write(part, number) for number, part in enumerate(parts, 1))


@given(st.lists(st.sampled_from(PARTS), max_size=30))
def test_any_order_of_parts_is_a_stream_that_the_official_client_reads(parts: list[TurnPart]) -> None:
    events = decoded(written(parts))
    assert events[0][:2] == ("metadata", {"run_id": "run", "attempt": 1})
    assert {name for name, _, _ in events} <= {"metadata", "values", "messages", "messages/complete", "updates", "error"}


@given(st.lists(st.sampled_from(PARTS), max_size=30), st.integers(0, 30))
def test_a_stream_that_goes_on_repeats_nothing(parts: list[TurnPart], after: int) -> None:
    whole = [event for event in decoded(written(parts)) if event[0] != "metadata"]
    rest = [event for event in decoded(written(parts, after)) if event[0] != "metadata"]
    assert [event[:2] for event in rest] == [event[:2] for event in whole[len(whole) - len(rest) :]]
    assert all(int(number) >= after for _, _, number in rest if number)


def test_a_tool_turn_is_written_message_by_message() -> None:
    parts: list[TurnPart] = [*PARTS[:8], AnswerBegun("n"), TextAdded("done"), AnswerEnded(USED), PARTS[10]]
    values = [data for name, data, _ in decoded(written(parts)) if name == "values"]
    assert [[message["type"] for message in data["messages"]] for data in values] == [
        ["human"],
        ["human", "ai"],
        ["human", "ai", "tool"],
        ["human", "ai", "tool", "ai"],
    ]
    assert values[-1]["messages"][1]["tool_calls"][0]["args"] == {"a": 1}


def test_a_turn_that_waits_ends_with_what_it_waits_for() -> None:
    events = decoded(written([*PARTS[:7], PARTS[8], PARTS[9]]))
    assert events[-1][1]["__interrupt__"][0]["id"] == "w"


def test_a_large_history_is_sent_once_at_the_end() -> None:
    events = RunEvents("run", "thread", "agent", frozenset({"values"}))
    raw = events.begin(0) + events.remember([human("h", "x" * VALUES_MAX_BYTES)], 1)
    raw += b"".join(events.write(part, number) for number, part in enumerate((PARTS[0], PARTS[1], PARTS[6], PARTS[10]), 1))
    assert [name for name, _, _ in decoded(raw)] == ["metadata", "values"]
