import json

from tests.gateways.ai_sdk.test_ui_chunks import kinds, written

from agentvm.gateways.blocks import Stretch, encode
from agentvm.gateways.turn_parts import (
    CallBegun,
    CallEnded,
    CallInput,
    TextAdded,
    ThinkingAdded,
    TurnEnded,
    TurnPart,
    TurnWaits,
)
from agentvm.model.wait import WaitId

END = TurnEnded("completed", "end_turn")


def test_a_call_that_was_cut_is_ended_and_a_result_without_a_call_has_one() -> None:
    told: list[TurnPart] = [CallInput("b", "x"), CallBegun("a", "f"), CallBegun("a", "f"), CallInput("a", "{"), END]
    assert kinds(written(told)) == ["start", "start-step", "tool-input-start", "tool-input-delta", "finish-step", "finish"]
    result = kinds(written([CallEnded("a", "f", "x", is_error=True), END]))
    assert result == ["start", "tool-input-available", "tool-output-error", "finish"]


def test_a_block_ends_where_another_begins() -> None:
    told: list[TurnPart] = [TextAdded("a"), TextAdded("b"), ThinkingAdded("c"), TextAdded("d"), END, TextAdded("e")]
    seen = kinds(written(told))
    assert seen[2:6] == ["text-start", "text-delta", "text-delta", "text-end"]
    assert seen.count("text-start") == 2
    assert seen[-1] == "finish"


def test_a_stretch_whose_wait_was_never_told_is_the_end_of_the_turn() -> None:
    told: list[TurnPart] = [TextAdded("a"), TurnWaits((WaitId("other"),)), TextAdded("b"), END]
    assert kinds(written(told, Stretch(after=WaitId("w")))) == ["start", "finish"]


def test_a_value_is_one_event() -> None:
    assert json.loads(encode({"x": "\n"}).removeprefix(b"data: ").removesuffix(b"\n\n")) == {"x": "\n"}
