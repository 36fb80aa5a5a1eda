from typing import Any

import msgspec
import pytest

from agentvm.errors import InvalidInput, Unprocessable
from agentvm.gateways.media import read_data_url
from agentvm.gateways.openai.chat_body import ChatBody, digest_of, read_conversation, read_options
from agentvm.model.message import FilePart, ImagePart, TextPart
from agentvm.model.turn import ClientTool, TurnOptions

USER = {"role": "user", "content": "hi"}


def body(*messages: object, **about: object) -> ChatBody:
    return msgspec.convert({"model": "m", "messages": messages, "unknown": 1, **about}, ChatBody)


def test_the_last_message_is_said_and_the_others_are_history() -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "not json"}}
    said = read_conversation(
        body(
            {"role": "system", "content": "x"},
            USER,
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "c1", "content": [{"type": "text", "text": "a"}]},
            {"role": "tool", "tool_call_id": "c2", "content": "b"},
        )
    )
    assert [seed.role for seed in said.history] == ["user", "assistant"]
    assert [seed.content for seed in said.results] == ["a", "b"]
    assert said.history[1].tool_calls[0].input == {}
    assert read_conversation(body(USER)).results == ()


def test_content_becomes_text_pictures_and_files() -> None:
    parts: list[Any] = [
        {"type": "text", "text": "see"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}},
        {"type": "image_url", "image_url": "https://example.org/x.png"},
        {"type": "file", "file": {"file_data": "data:application/pdf;base64,AAAA", "filename": "a.pdf"}},
    ]
    assert read_conversation(body({"role": "user", "content": parts})).content == (
        TextPart(text="see"),
        ImagePart(data="AAAA", media_type="image/png"),
        ImagePart(data="https://example.org/x.png", media_type="image/*"),
        FilePart(data="AAAA", media_type="application/pdf", filename="a.pdf"),
    )
    with pytest.raises(Unprocessable, match="input_audio"):
        read_conversation(body({"role": "user", "content": [{"type": "input_audio"}]}))
    for url in ("data:image/png,AAAA", "data:image/png;base64,A", "https://example.org"):
        with pytest.raises(InvalidInput):
            read_data_url(url)


def test_options_are_none_when_nothing_is_chosen() -> None:
    assert read_options(body(USER)) is None
    tool = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}
    chosen = read_options(
        body(
            {"role": "developer", "content": "a"},
            {"role": "system", "content": "b"},
            USER,
            stop="x",
            max_tokens=5,
            tools=[tool],
        )
    )
    assert chosen == TurnOptions(
        instructions="a\n\nb", stop=("x",), max_tokens=5, tools=(ClientTool(name="f", parameters={"type": "object"}),)
    )
    assert read_options(body(USER, tools=[tool], tool_choice="none")) is None


@pytest.mark.parametrize("member", [{"n": 2}, {"logprobs": True}, {"functions": [{"name": "f"}]}, {"audio": {"voice": "x"}}])
def test_what_a_completion_cannot_have_is_a_wrong_parameter(member: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput, match=f"{next(iter(member))} is not supported") as refused:
        read_options(body(USER, **member))
    assert refused.value.code == "invalid_input", "400, not 422"


def test_equal_histories_have_one_digest() -> None:
    first = read_conversation(body(USER, {"role": "assistant", "content": "yes "}, USER)).history
    same = read_conversation(body(USER, {"role": "assistant", "content": [{"type": "text", "text": "yes"}]}, USER)).history
    other = read_conversation(body(USER, {"role": "assistant", "content": "no"}, USER)).history
    assert digest_of("m", first) == digest_of("m", same)
    assert len({digest_of("m", first), digest_of("n", first), digest_of("m", other)}) == 3
