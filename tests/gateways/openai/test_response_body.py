from typing import Any

import msgspec
import pytest

from agentvm.errors import InvalidInput, Unprocessable
from agentvm.errors.bounds import InputTooLarge
from agentvm.gateways.openai.response_body import ResponseAbout, ResponseBody, about_of, read_input, read_response_options
from agentvm.model.message import FilePart, ImagePart, TextPart
from agentvm.model.turn import ClientTool, TurnOptions

CALL = {"type": "function_call", "call_id": "c1", "name": "f", "arguments": '{"x": 1}'}
OUTPUT = {"type": "function_call_output", "call_id": "c1", "output": "done"}


def body(given: object, **about: object) -> ResponseBody:
    return msgspec.convert({"model": "m", "input": given, "unknown": 1, **about}, ResponseBody)


def test_a_text_is_a_message_and_items_are_a_history_and_a_message() -> None:
    assert read_input(body("hi")).content == "hi"
    said = read_input(
        body(
            [
                {"role": "system", "content": "a"},
                {"role": "user", "content": "one"},
                {"role": "assistant", "content": [{"type": "output_text", "text": "two"}]},
                CALL,
                {**CALL, "call_id": "c2", "arguments": "not json"},
                OUTPUT,
                {**OUTPUT, "call_id": "c2"},
                {"type": "reasoning", "id": "r"},
                {"role": "user", "content": "three"},
                {"role": "user", "content": [{"type": "input_text", "text": "four"}]},
            ],
            instructions="b",
        )
    )
    assert [seed.role for seed in said.history] == ["user", "assistant", "tool", "tool"]
    assert [(call.id, call.input) for call in said.history[1].tool_calls] == [("c1", {"x": 1}), ("c2", {})]
    assert (said.content, said.instructions, said.results) == ("three\n\nfour", "b\n\na", {})


def test_arguments_that_are_nested_too_deeply_are_refused() -> None:
    with pytest.raises(InputTooLarge, match="arguments"):
        read_input(body([{**CALL, "arguments": "[" * 100_000}, OUTPUT]))


def test_results_at_the_end_are_answers() -> None:
    said = read_input(body([{"role": "user", "content": "x"}, CALL, OUTPUT]))
    assert said.results == {"c1": "done"}
    with pytest.raises(Unprocessable, match="together"):
        read_input(body([OUTPUT, {"role": "user", "content": "x"}], previous_response_id="resp_1"))


def test_pictures_and_files_are_parts() -> None:
    parts: list[dict[str, Any]] = [
        {"type": "input_image", "image_url": "data:image/png;base64,AAAA"},
        {"type": "input_image", "image_url": "https://example.org/x.png"},
        {"type": "input_file", "file_data": "data:application/pdf;base64,AAAA", "filename": "a.pdf"},
        {"type": "input_file", "file_url": "https://example.org/a.pdf"},
    ]
    said = read_input(body([{"role": "user", "content": "see"}, {"role": "user", "content": parts}]))
    assert said.content == (
        TextPart(text="see"),
        ImagePart(data="AAAA", media_type="image/png"),
        ImagePart(data="https://example.org/x.png", media_type="image/*"),
        FilePart(data="AAAA", media_type="application/pdf", filename="a.pdf"),
        FilePart(data="https://example.org/a.pdf", media_type="application/octet-stream"),
    )
    with pytest.raises(Unprocessable, match="input_audio"):
        read_input(body([{"role": "user", "content": [{"type": "input_audio"}]}]))


def test_what_the_request_chooses_is_kept_with_the_turn() -> None:
    tool = {"type": "function", "name": "f", "description": "d", "parameters": {"type": "object"}}
    asked = body(
        "x", tools=[tool], reasoning={"effort": "low"}, max_output_tokens=9, temperature=0.5, store=False, metadata={"a": "b"}
    )
    options = read_response_options(asked, read_input(asked))
    assert options.tools == (ClientTool(name="f", description="d", parameters={"type": "object"}),)
    assert (options.thinking, options.max_tokens, options.temperature) == (5_000, 9, 0.5)
    assert about_of(options, "other") == ResponseAbout(model="m", store=False, metadata={"a": "b"})
    for others in (TurnOptions(client_data="somebody else's"), None):
        assert about_of(others, "other") == ResponseAbout(model="other")
    silent = body("x", tools=[tool], tool_choice="none")
    assert read_response_options(silent, read_input(silent)).tools == ()


def test_a_conversation_is_named_by_its_id_or_by_an_object() -> None:
    assert body("x", conversation="conv_1").conversation_id == body("x", conversation={"id": "conv_1"}).conversation_id
    both = body("x", conversation="conv_1", previous_response_id="resp_1")
    with pytest.raises(InvalidInput, match="exclude"):
        read_response_options(both, read_input(both))
