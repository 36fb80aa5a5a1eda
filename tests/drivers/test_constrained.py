import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs
from tests.drivers.fixtures import FAILURES, WEATHER, answered, called, prompt

from agentvm.drivers.base import (
    MessageStopped,
    ModelOutput,
    TextChunk,
    TextStarted,
    TextStopped,
    ToolCallStarted,
    ToolCallStopped,
    ToolInputChunk,
    UserEntry,
)
from agentvm.drivers.chat_completions import DONE, ChatDecoder
from agentvm.drivers.constrained import ConstrainedDecoder, constrained_body
from agentvm.model.turn import OutputFormat


def decode(*pieces: str, finish: str = "stop", is_text: bool = True) -> list[ModelOutput]:
    decoder = ConstrainedDecoder(ChatDecoder(FAILURES, model="m", prompt_tokens=1), is_text=is_text)
    outputs: list[ModelOutput] = []
    for piece in pieces:
        outputs += decoder.feed(json.dumps({"choices": [{"index": 0, "delta": {"content": piece}}]}))
    outputs += decoder.feed(json.dumps({"choices": [{"index": 0, "delta": {}, "finish_reason": finish}]}))
    outputs += decoder.feed(DONE)
    assert decoder.finished
    return outputs


def text_of(outputs: list[ModelOutput]) -> str:
    return "".join(output.text for output in outputs if isinstance(output, TextChunk))


@given(st.text(), st.data())
def test_an_answer_is_streamed_as_it_was_written_wherever_it_is_cut(text: str, data: st.DataObject) -> None:
    written = json.dumps({"tool": "none", "answer": text}, ensure_ascii=data.draw(st.booleans()))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(written)), max_size=8)))
    outputs = decode(*(written[a:b] for a, b in zip([0, *cuts], [*cuts, len(written)], strict=True)))
    assert text_of(outputs) == text
    assert [type(output) for output in outputs if isinstance(output, TextStarted | TextStopped)] == [TextStarted, TextStopped]
    assert outputs[-1] == MessageStopped("end_turn")


def test_an_answer_is_shown_before_it_ends() -> None:
    decoder = ConstrainedDecoder(ChatDecoder(FAILURES, model="m", prompt_tokens=1))
    piece = json.dumps({"choices": [{"index": 0, "delta": {"content": '{"tool": "none", "answer": "Hel'}}]})
    assert text_of(list(decoder.feed(piece))) == "Hel"


def test_a_call_is_taken_whole() -> None:
    outputs = decode('{"tool": "wea', 'ther", "input": {"city"', ': "Bern"}}')
    started = next(output for output in outputs if isinstance(output, ToolCallStarted))
    assert started.name == "weather"
    assert started.call_id
    assert ToolInputChunk('{"city":"Bern"}') in outputs
    assert ToolCallStopped() in outputs
    assert outputs[-1] == MessageStopped("tool_use")


@pytest.mark.parametrize("cut", ['{"tool": "weather", "input": {"ci', '{"to', "", '{"a":' + "[" * 100_000])
def test_a_call_that_is_cut_off_is_not_made(cut: str) -> None:
    outputs = decode(cut, finish="length")
    assert not any(isinstance(output, ToolCallStarted) for output in outputs)
    assert outputs[-1] == MessageStopped("max_tokens")


def test_the_answer_and_the_input_of_each_tool_are_enforced() -> None:
    body = constrained_body(prompt(UserEntry(content="Hi?"), tools=(WEATHER,)), FAILURES)
    response_format = body["response_format"]
    assert isinstance(response_format, dict)
    answer, call = response_format["json_schema"]["schema"]["anyOf"]
    assert answer["properties"] == {"tool": {"const": "none"}, "answer": {"type": "string"}}
    assert call["properties"]["tool"] == {"const": WEATHER.name}
    assert "tools" not in body
    assert WEATHER.description in json.dumps(body["messages"])


def test_an_answer_with_a_form_is_bound_to_its_schema_and_told_as_json() -> None:
    form = OutputFormat(name="x", schema={"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]})
    asked = prompt(UserEntry(content="Hi?"), tools=(WEATHER,))
    body = constrained_body(structs.replace(asked, output=form), FAILURES)
    assert '"n"' in json.dumps(body["response_format"])
    assert text_of(decode('{"tool": "none", "answer": {"n": 1}}')) == '{"n":1}'


def test_a_form_is_told_and_one_that_is_no_object_is_bound_as_well() -> None:
    asked = prompt(UserEntry(content="Hi?"), tools=(WEATHER,))
    for schema, bound in (
        ({"enum": ["yes", "no"]}, {"enum": ["yes", "no"]}),
        ({"type": "array", "items": {"type": "integer"}}, {"type": "array", "items": {"type": "integer"}}),
    ):
        body = constrained_body(structs.replace(asked, output=OutputFormat(name="x", schema=schema)), FAILURES)
        assert json.dumps(schema, separators=(",", ":")) in body["messages"][0]["content"]  # type: ignore[index]
        assert body["response_format"]["json_schema"]["schema"]["anyOf"][0]["properties"]["answer"] == bound  # type: ignore[index]
    free = constrained_body(structs.replace(asked, output=OutputFormat(name="x", schema={"not": {"type": "null"}})), FAILURES)
    answer = free["response_format"]["json_schema"]["schema"]["anyOf"][0]["properties"]["answer"]  # type: ignore[index]
    assert {"type": "string"} in answer["anyOf"]


@pytest.mark.parametrize("value", ['"yes"', "[1,2]", "3", "null"])
def test_an_answer_with_a_form_is_json_whatever_its_type(value: str) -> None:
    assert text_of(decode(f'{{"tool": "none", "answer": {value}}}', is_text=False)) == value


def test_a_call_that_was_repeated_is_not_offered_a_third_time() -> None:
    once = (UserEntry(content="Hi?"), called(("c", "weather")), answered("c", "sunny"))
    assert "weather" in json.dumps(constrained_body(prompt(*once, tools=(WEATHER,)), FAILURES)["response_format"])
    twice = (*once, called(("d", "weather")), answered("d", "sunny"))
    assert "weather" not in json.dumps(constrained_body(prompt(*twice, tools=(WEATHER,)), FAILURES)["response_format"])


@pytest.mark.parametrize("choice", ["required", "weather"])
def test_a_tool_that_has_to_be_called_is_the_only_answer(choice: str) -> None:
    tools = (WEATHER, structs.replace(WEATHER, name="other"))
    body = constrained_body(prompt(UserEntry(content="?"), tools=tools, tool_choice=choice), FAILURES)
    form: Any = body["response_format"]
    names = [reply["properties"]["tool"]["const"] for reply in form["json_schema"]["schema"]["anyOf"]]
    assert names == (["weather", "other"] if choice == "required" else ["weather"])
