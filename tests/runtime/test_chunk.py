"""Events as bytes and back: nothing is lost, and text that is in a message is not written twice."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.runtime.fixtures import Ticking, json_objects, model_calls, texts

from agentvm.drivers.base import ModelOutput
from agentvm.drivers.scripted import reply
from agentvm.events.base import Event, EventData, EventScope
from agentvm.events.message import MessageEvent
from agentvm.events.state import ToolCompleted
from agentvm.events.stream import MessageStart, MessageStop, TextDelta
from agentvm.model.ids import DEFAULT_TENANT, MessageId, SessionId, TurnId
from agentvm.model.message import Message, encode_message
from agentvm.protocol.dialect_v1 import encode_stored_events
from agentvm.runtime import turn
from agentvm.runtime.calls import ToolOutcome
from agentvm.runtime.chunk import (
    decode_events,
    decode_some,
    encode_chunk,
    encode_events,
    first_seq,
    join_events,
    last_seq,
    named_messages,
    open_chunk,
)

TURN = TurnId("turn_1")


def numbered(told: list[EventData], first: int = 1, clock: Ticking | None = None, step: int = 1) -> list[Event]:
    scope = EventScope(session_id=SessionId("s"), turn_id=TURN)
    return [
        Event(data=data, scope=scope, timestamp=1_000 + at * step, tenant_id=DEFAULT_TENANT, seq=first + at)
        for at, data in enumerate(told)
    ]


def play(calls: list[list[ModelOutput]]) -> list[EventData]:
    """What a turn with these model calls tells."""
    clock = Ticking()
    now, told = turn.begin(TURN, MessageId("m"), 1), []
    for outputs in calls:
        for output in outputs:
            now, made = turn.step(now, output, clock())
            told += [data for data in made if data.told]
        for pending in now.pending:
            now, made = turn.tool_finished(now, pending, ToolOutcome({"of": pending.input}, False), clock())
            told += [data for data in made if data.told]
    return told


def messages_of(events: list[Event]) -> dict[str, Message]:
    return {event.data.message.id: event.data.message for event in events if isinstance(event.data, MessageEvent)}


def there_and_back(events: list[Event]) -> list[Event]:
    body = open_chunk(encode_chunk(events))
    known = messages_of(events)
    return decode_events(body, DEFAULT_TENANT, {name: known[name] for name in named_messages(body)})


def frames(events: list[Event]) -> list[str]:
    """As a client sees them."""
    return [encode_stored_events(event).bare for event in events]


@given(st.lists(model_calls(), min_size=1, max_size=3), st.integers(1, 10**9))
def test_whatever_a_turn_tells_comes_back_as_it_was(calls: list[list[ModelOutput]], first: int) -> None:
    events = numbered(play(calls), first)
    back = there_and_back(events)
    assert frames(back) == frames(events)
    assert [event.seq for event in back] == [event.seq for event in events]
    assert all(event.tenant_id == DEFAULT_TENANT for event in back)


@given(st.lists(model_calls(), min_size=1, max_size=3), st.data())
def test_a_turn_cut_anywhere_comes_back_from_its_parts(calls: list[list[ModelOutput]], data: st.DataObject) -> None:
    """As the journal carries it: each part by itself, with the messages that are stored by then."""
    events = numbered(play(calls))
    cuts = sorted(data.draw(st.sets(st.integers(1, max(1, len(events) - 1)), max_size=4)))
    parts = [events[start:end] for start, end in zip([0, *cuts], [*cuts, len(events)], strict=True) if events[start:end]]
    known = messages_of(events)
    back = [event for part in parts for event in decode_events(encode_events(part), DEFAULT_TENANT, known)]
    assert frames(back) == frames(events)


@given(st.lists(model_calls(), min_size=1, max_size=3), st.data())
def test_parts_are_joined_without_any_message(calls: list[list[ModelOutput]], data: st.DataObject) -> None:
    events = numbered(play(calls), step=3)
    at = data.draw(st.integers(0, len(events)))
    parts = [encode_events(part) for part in (events[:at], events[at:]) if part]
    joined = join_events(parts)
    assert (first_seq(joined), last_seq(joined)) == (1, len(events))
    assert decode_events(joined, DEFAULT_TENANT, messages_of(events)) == events


@given(st.lists(model_calls(), min_size=1, max_size=3))
def test_some_kinds_of_events_are_read_without_any_message(calls: list[list[ModelOutput]]) -> None:
    events = numbered(play(calls))
    kinds = (MessageStart, MessageStop)
    found = decode_some(encode_events(events), DEFAULT_TENANT, kinds)
    assert found == [event for event in events if isinstance(event.data, kinds)]


@given(json_objects | st.floats(allow_nan=False, allow_infinity=False) | texts | st.none() | st.integers(-(2**80), 2**80))
def test_a_tools_result_may_be_any_json(result: object) -> None:
    events = numbered([ToolCompleted(tool_id="c", tool_name="t", result=result)])
    assert frames(there_and_back(events)) == frames(events)


def test_times_come_back_also_within_a_run_of_deltas() -> None:
    told = play([[*reply("a", "b", "c")]])  # type: ignore[list-item]  # no pauses and no errors among them
    events = numbered(told, step=7)
    assert [event.timestamp for event in there_and_back(events)] == [event.timestamp for event in events]


def test_a_chunk_from_before_gaps_were_kept_has_the_time_of_a_runs_first() -> None:
    events = numbered(play([[*reply("a", "b", "c")]]), step=7)  # type: ignore[list-item]
    chunk = msgspec.msgpack.decode(encode_events(events))
    # Entries were shorter by their last member.
    older = msgspec.msgpack.encode([*chunk[:3], [entry[:8] for entry in chunk[3]]])
    back = decode_events(older, DEFAULT_TENANT, messages_of(events))
    assert [event.data for event in back] == [event.data for event in events]
    first, second, _ = (event.timestamp for event in events if isinstance(event.data, TextDelta))
    # Between the first two an event stands, so they are not of one run.
    assert [event.timestamp for event in back if isinstance(event.data, TextDelta)] == [first, second, second]


@pytest.mark.parametrize("word", ["word ", "中文字", "é"])
def test_the_log_of_a_long_answer_is_small_beside_its_text(word: str) -> None:
    deltas = [f"{word}{number}" for number in range(1_000)]
    events = numbered(play([[*reply(*deltas)]]), step=13)  # type: ignore[list-item]
    text = len("".join(deltas).encode())
    stored = sum(len(encode_message(message)) for message in messages_of(events).values())
    assert stored + len(encode_chunk(events)) <= 1.3 * text


def test_text_that_is_in_no_message_is_kept_in_the_chunk() -> None:
    events = numbered([TextDelta(text="half "), TextDelta(text="an answer")])
    body = encode_events(events)
    assert named_messages(body) == []
    assert frames(decode_events(body, DEFAULT_TENANT, {})) == frames(events)
