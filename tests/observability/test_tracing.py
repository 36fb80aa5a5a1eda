"""Spans are those of the turns that were told, whatever becomes of them, and what is remembered is bounded."""

from pathlib import Path

import anyio
import pytest
from tests.observability.scripts import plan, play
from tests.observability.test_metrics import run
from tests.runtime.fixtures import open_world, tool
from tests.runtime.test_answering_fallback import ok
from tests.runtime.test_billing import Till, entries

from agentvm.drivers.base import MessageStarted, TextChunk, TextStarted
from agentvm.drivers.scripted import Pause, ScriptedDriver, ScriptStep, in_turn, reply, tool_calls
from agentvm.events import error, state, stream
from agentvm.events import turn as turns
from agentvm.events.base import Event, EventData, EventScope
from agentvm.model.ids import DEFAULT_TENANT, MessageId, SessionId, TurnId
from agentvm.model.usage import NO_USAGE, Usage
from agentvm.observability import tracing as module
from agentvm.observability.spans import Span, TracedCall, span_of, trace_of
from agentvm.observability.tracing import OTHER, UNKNOWN, Tracing


def span(number: int) -> Span:
    return Span(f"chat {number}", trace_of("t"), span_of("t", str(number)), None, 1, 2, {})


def told(data: EventData, turn_id: str, at: int = 5, seq: int = 1) -> Event:
    scope = EventScope(session_id=SessionId("sess_1"), turn_id=TurnId(turn_id))
    return Event(data=data, scope=scope, timestamp=at, tenant_id=DEFAULT_TENANT, seq=seq)


def end(turn_id: str, outcome: str = "completed") -> turns.TurnResponse:
    return turns.TurnResponse(
        turn_id=TurnId(turn_id),
        message_id=MessageId("m"),
        outcome=outcome,  # type: ignore[arg-type]
        stop_reason="end_turn",
        duration=4,
        usage=NO_USAGE,
        timestamp=9,
    )


def tell_turn(tracing: Tracing, turn_id: str) -> None:
    tracing.react(told(turns.TurnRequest(turn_id=TurnId(turn_id), message_id=MessageId("m"), timestamp=5), turn_id))
    tracing.react(told(end(turn_id), turn_id))


@pytest.mark.parametrize("seed", range(3))
async def test_every_turn_is_one_span_and_every_entry_of_the_ledger_another_with_its_tokens(seed: int) -> None:
    planned, spans, calls = plan(seed, 25), list[Span](), list[TracedCall]()
    tracing = Tracing(spans.append, calls.append, tools=lambda: ("good",))
    driver = ScriptedDriver(lambda prompt: play(planned, prompt))
    async with open_world(driver, tools=[tool("good", ok)], meter=Till(), effectors=[tracing]) as world:
        await run(world, planned)
        ledger = await entries(world)
    wholes = {one.attributes["agentvm.turn.id"]: one for one in spans if one.parent_id is None}
    assert len(wholes) == 25
    outcomes = {"refused": "failed", "cut": "failed", "stopped": "interrupted"}
    kinds = [outcomes.get(one.kind, "completed") for one in planned]
    assert [one.attributes["agentvm.outcome"] for one in wholes.values()] == kinds
    assert [one.error is not None for one in wholes.values()] == [kind == "failed" for kind in kinds]
    chats = {one.attributes["agentvm.message.id"]: one for one in spans if one.remote}
    assert chats.keys() == {entry.key for entry in ledger}
    for entry in ledger:
        about, used = chats[entry.key].attributes, entry.usage
        assert about["gen_ai.usage.input_tokens"] == used.input_tokens + used.cache_read_tokens + used.cache_write_tokens
        assert about["gen_ai.usage.output_tokens"] == used.output_tokens
        assert chats[entry.key].parent_id == wholes[entry.turn_id].span_id
    assert len(calls) == len(ledger)
    stopped = [one for one in chats.values() if one.attributes.get("agentvm.outcome") == "interrupted"]
    assert len(stopped) == sum(one.kind == "stopped" for one in planned)
    assert sum(one.error is not None for one in chats.values()) == sum(one.kind == "cut" for one in planned)
    tools = [one for one in spans if one.name.startswith("execute_tool ")]
    assert len(tools) == sum(one.good + one.bad for one in planned)
    assert {one.name for one in tools} <= {"execute_tool good", f"execute_tool {OTHER}"}
    assert tracing._open == {}


async def test_an_end_that_is_told_twice_is_one_span() -> None:
    broken, spans = [True], list[Span]()
    async with open_world(
        ScriptedDriver(), fails=lambda number: broken[0] and number > 1, effectors=[Tracing(spans.append)]
    ) as world:
        agent = world.start()
        await world.say(agent, "one")
        await world.hear("turn_response")
        await agent.rest()
        broken[0] = False
        second = await world.say(agent, "two")
        await world.hear("turn_response", turn_id=second)
        await agent.rest()
    assert [one.error for one in spans if one.parent_id is None] == ["store_failed", None]
    assert len({one.span_id for one in spans}) == len(spans)


async def test_a_turn_that_a_restart_puts_off_goes_on_in_its_trace(tmp_path: Path) -> None:
    hold, before, after = anyio.Event(), list[Span](), list[Span]()
    head = (MessageStarted("", "scripted"), TextStarted(), TextChunk("part"))
    first: list[list[ScriptStep]] = [tool_calls(("call_1", "ok", {})), [*head, Pause(hold)]]
    driver = ScriptedDriver(in_turn(*first))
    async with open_world(
        driver, tools=[tool("ok", ok)], path=tmp_path / "a.db", suspends=True, effectors=[Tracing(before.append)]
    ) as world:
        turn_id = await world.say(world.start(), "hello")
        await world.hear("text_delta")
    assert {one.name for one in before} == {"chat scripted", f"execute_tool {OTHER}"}
    second = ScriptedDriver(lambda prompt: reply("well", usage=Usage(input_tokens=3, output_tokens=2)))
    async with open_world(second, path=tmp_path / "a.db", suspends=True, effectors=[Tracing(after.append)]) as world:
        await world.hear("turn_response")
        ledger = await entries(world)
    assert {one.trace_id for one in (*before, *after)} == {trace_of(turn_id)}
    (whole,) = (one for one in after if one.parent_id is None)
    assert {one.parent_id for one in (*before, *after)} == {None, whole.span_id}
    assert [name for name, _, _ in whole.moments] == ["agentvm.resumed"]
    chats = [one.attributes["agentvm.message.id"] for one in (*before, *after) if one.remote]
    assert sorted(map(str, chats)) == sorted(entry.key for entry in ledger)


def test_a_call_that_a_crash_cut_off_has_its_tokens_and_no_duration() -> None:
    spans, calls = list[Span](), list[TracedCall]()
    tracing = Tracing(spans.append, calls.append)
    used = Usage(input_tokens=3, output_tokens=1)
    tracing.react(told(turns.TurnResumed(turn_id=TurnId("t"), message_id=MessageId("m"), attempt=2, timestamp=5), "t"))
    for _ in range(2):
        tracing.react(told(turns.ModelCalled(call_id="msg_1", model="m-1", usage=used), "t"))
    tracing.react(told(end("t"), "t"))
    cut, whole = spans
    assert (cut.name, cut.start, cut.end, cut.error) == ("chat m-1", 5, 5, UNKNOWN)
    assert cut.attributes["gen_ai.usage.input_tokens"] == 3
    assert (whole.start, whole.end) == (5, 9)
    assert [call.asked_at for call in calls] == [None]


def test_turns_that_never_end_and_turns_without_end_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "TURNS_MAX", 3)
    monkeypatch.setattr(module, "STEPS_MAX", 2)
    spans: list[Span] = []
    tracing = Tracing(spans.append)
    for number in range(9):
        tracing.react(told(error.ErrorReceived(message="x", error_code="made-up"), f"turn_{number}"))
    assert list(tracing._open) == ["turn_6", "turn_7", "turn_8"]
    for number in range(4):
        tracing.react(told(stream.MessageStart(message_id=f"m{number}", model="x" * 900), "turn_8"))
        tracing.react(told(turns.ModelCalled(call_id=f"m{number}", model="x", usage=NO_USAGE), "turn_8"))
        tracing.react(told(state.ToolCompleted(tool_id=f"t{number}", tool_name="x", result=1), "turn_8"))
    tracing.react(told(end("turn_8", "failed"), "turn_8"))
    *steps, whole = spans
    assert len(steps) == 4
    assert (whole.attributes["agentvm.steps_dropped"], whole.error) == (4, UNKNOWN)
    assert len(steps[0].name) < 300


def test_nothing_is_kept_or_made_of_a_delta() -> None:
    spans: list[Span] = []
    tracing = Tracing(spans.append)
    tracing.react(told(stream.TextDelta(text="hello"), "t"))
    assert (tracing._open, spans) == ({}, [])


def test_a_ratio_of_nothing_sends_none_and_of_one_all() -> None:
    for ratio, sent in ((0.0, 0), (1.0, 20)):
        spans: list[Span] = []
        tracing = Tracing(spans.append, ratio=ratio)
        for number in range(20):
            tell_turn(tracing, f"turn_{number}")
        assert len(spans) == sent
