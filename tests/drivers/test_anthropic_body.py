from typing import Any, cast

import msgspec
import pytest
from tests.drivers.fixtures import CLOCK, EVERY_PART, FAILURES, WEATHER, answered, answered_with_pictures, called, prompt

from agentvm.drivers.anthropic_body import messages_body, redacted_mark
from agentvm.drivers.base import AssistantEntry, UserEntry
from agentvm.drivers.chat_body import CONTINUE_INSTRUCTION, reasoning_mark
from agentvm.errors import ProviderBadRequest
from agentvm.model.message import FilePart, ImagePart, TextPart, ThinkingPart, UserContent

CACHED = {"type": "ephemeral"}


def test_what_every_call_shares_is_marked_for_the_cache() -> None:
    body = messages_body(
        prompt(UserEntry(content="a"), UserEntry(content="b"), system="Be brief.", tools=(WEATHER, CLOCK)), FAILURES
    )
    assert body["system"] == [{"type": "text", "text": "Be brief.", "cache_control": CACHED}]
    tools, messages = body["tools"], body["messages"]
    assert isinstance(tools, list)
    assert isinstance(messages, list)
    assert ["cache_control" in tool for tool in tools] == [False, True]
    assert messages == [
        {"role": "user", "content": [{"type": "text", "text": "a"}]},
        {"role": "user", "content": [{"type": "text", "text": "b", "cache_control": CACHED}]},
    ]


def test_parts_become_blocks() -> None:
    body = messages_body(prompt(UserEntry(content=EVERY_PART), UserEntry(content="?")), FAILURES)
    messages = body["messages"]
    assert isinstance(messages, list)
    pdf = {"type": "base64", "media_type": "application/pdf", "data": "cGRm"}
    assert messages[0]["content"] == [
        {"type": "text", "text": "look"},
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGk="}},
        {"type": "image", "source": {"type": "url", "url": "https://example.test/a.png"}},
        {"type": "document", "source": pdf, "title": "a.pdf"},
        {"type": "text", "text": "a.txt:\nnotes"},
    ]


def test_a_file_that_is_text_is_read_whatever_kind_of_text() -> None:
    part = FilePart(data="e30=", media_type="application/json", filename="a.json")
    messages = messages_body(prompt(UserEntry(content=(part,)), UserEntry(content="?")), FAILURES)["messages"]
    assert isinstance(messages, list)
    assert messages[0]["content"] == [{"type": "text", "text": "a.json:\n{}"}]


def test_a_document_may_be_given_by_url_but_not_any_file() -> None:
    by_url = FilePart(data="https://example.test/a.pdf", media_type="application/pdf")
    assert "https://example.test/a.pdf" in str(messages_body(prompt(UserEntry(content=(by_url,))), FAILURES))
    with pytest.raises(ProviderBadRequest, match="application/zip"):
        messages_body(prompt(UserEntry(content=(FilePart(data="aGk=", media_type="application/zip"),))), FAILURES)


def test_calls_and_results_keep_their_pairing_also_with_foreign_ids() -> None:
    said = prompt(UserEntry(content="?"), called(("call:1", "weather"), text="Wait."), answered("call:1", "rain", failed=True))
    assert messages_body(said, FAILURES)["messages"] == [
        {"role": "user", "content": [{"type": "text", "text": "?"}]},
        {
            "role": "assistant",
            "content": [
                {"type": "text", "text": "Wait."},
                {"type": "tool_use", "id": "call_1", "name": "weather", "input": {"a": 1}},
            ],
        },
        {
            "role": "user",
            "content": [
                {
                    "type": "tool_result",
                    "tool_use_id": "call_1",
                    "content": "rain",
                    "is_error": True,
                    "cache_control": CACHED,
                }
            ],
        },
    ]


@pytest.mark.parametrize(("signature", "thinks"), [("c2ln", True), (None, False), ("openai:reasoning", False)])
def test_results_of_calls_that_another_provider_asked_for_are_answered_without_thinking(
    signature: str | None, thinks: bool
) -> None:
    asked = called(("c1", "weather"))
    thought = msgspec.structs.replace(asked, thinking=(ThinkingPart(reasoning="hm", signature=signature),))
    said = (UserEntry(content="?"), thought, answered("c1", "sun"))
    assert ("thinking" in messages_body(prompt(*said, thinking=2_000), FAILURES)) is thinks
    assert "thinking" in messages_body(prompt(*said, UserEntry(content="and now?"), thinking=2_000), FAILURES)


def test_only_thinking_that_anthropic_signed_goes_back() -> None:
    thinking = (
        ThinkingPart(reasoning="mine", signature="c2ln"),
        ThinkingPart(reasoning="", signature=redacted_mark("SECRET==")),
        ThinkingPart(reasoning="cut off"),
        ThinkingPart(reasoning="foreign", signature=reasoning_mark("reasoning")),
    )
    said = prompt(UserEntry(content="?"), AssistantEntry(text="so", thinking=thinking), UserEntry(content="?"))
    messages = messages_body(said, FAILURES)["messages"]
    assert isinstance(messages, list)
    assert messages[1]["content"] == [
        {"type": "thinking", "thinking": "mine", "signature": "c2ln"},
        {"type": "redacted_thinking", "data": "SECRET=="},
        {"type": "text", "text": "so"},
    ]


@pytest.mark.parametrize("text", ["", " \n"])
def test_an_assistant_that_said_nothing_is_left_out(text: str) -> None:
    thinking = (ThinkingPart(reasoning="mine", signature="c2ln"),)
    body = messages_body(prompt(AssistantEntry(text=text, thinking=thinking), UserEntry(content="?")), FAILURES)
    messages = body["messages"]
    assert isinstance(messages, list)
    assert [message["role"] for message in messages] == ["user"]


def test_a_conversation_that_an_assistant_began_begins_with_a_user() -> None:
    greeted = prompt(AssistantEntry(text="Hello!"), UserEntry(content="hi"))
    messages = messages_body(greeted, FAILURES)["messages"]
    assert isinstance(messages, list)
    assert [one["role"] for one in messages] == ["user", "assistant", "user"]
    assert messages[0]["content"] == [{"type": "text", "text": "(nothing)"}]


def test_a_prompt_without_system_and_tools_sends_neither() -> None:
    assert set(messages_body(prompt(), FAILURES)) == {"model", "max_tokens", "messages", "stream"}


UNREADABLE = FilePart(data="aGk=", media_type="application/msword", filename="a.doc")


def blocks(*said: UserEntry) -> list[object]:
    """The content of each message, without the mark for the cache."""
    messages = messages_body(prompt(*said), FAILURES)["messages"]
    assert isinstance(messages, list)
    for block in messages[-1]["content"]:
        block.pop("cache_control", None)
    return [message["content"] for message in messages]


def test_a_part_that_was_refused_becomes_a_note_once_it_is_history() -> None:
    with pytest.raises(ProviderBadRequest):
        blocks(UserEntry(content="before"), UserEntry(content=(UNREADABLE,)))
    assert blocks(UserEntry(content=(TextPart(text="look"), UNREADABLE)), UserEntry(content="never mind")) == [
        [{"type": "text", "text": "look"}, {"type": "text", "text": "[a.doc: this model cannot read it]"}],
        [{"type": "text", "text": "never mind"}],
    ]


@pytest.mark.parametrize(
    ("content", "texts"),
    [
        ((TextPart(text=" \n"), TextPart(text="so"), TextPart(text="")), ["so"]),
        ((TextPart(text=""), TextPart(text="\t")), ["(nothing)"]),
        ((), ["(nothing)"]),
        (" \n", ["(nothing)"]),
    ],
)
def test_blank_text_of_a_user_is_left_out_but_never_the_message(content: UserContent, texts: list[str]) -> None:
    assert blocks(UserEntry(content=content)) == [[{"type": "text", "text": text} for text in texts]]


@pytest.mark.parametrize(("wanted", "budget"), [(1, 1_024), (1_024, 1_024), (5_000, 5_000)])
def test_the_budget_for_thinking_comes_on_top_of_the_answers(wanted: int, budget: int) -> None:
    body = messages_body(prompt(thinking=wanted), FAILURES)
    assert body["thinking"] == {"type": "enabled", "budget_tokens": budget}
    assert body["max_tokens"] == 100 + budget


@pytest.mark.parametrize(("wanted", "sent"), [(0.0, 0.0), (0.3, 0.3), (1.7, 1.0)])
def test_a_temperature_is_sent_as_far_as_the_scale_goes(wanted: float, sent: float) -> None:
    assert messages_body(prompt(temperature=wanted), FAILURES)["temperature"] == sent


def test_no_temperature_goes_beside_thinking_which_takes_none() -> None:
    assert "temperature" not in messages_body(prompt(temperature=0.3, thinking=2_000), FAILURES)
    assert "temperature" not in messages_body(prompt(), FAILURES)


def test_a_picture_and_a_file_may_come_as_data_urls() -> None:
    parts = (
        ImagePart(data="data:image/png;base64,aGk=", media_type="image/jpeg"),
        FilePart(data="data:application/pdf;base64,cGRm", media_type="application/octet-stream"),
        FilePart(data="data:text/plain,hi", media_type="application/octet-stream", filename="a.txt"),
    )
    body = msgspec.json.decode(msgspec.json.encode(messages_body(prompt(UserEntry(content=parts)), FAILURES)))
    picture, document, text = body["messages"][0]["content"]
    assert picture["source"] == {"type": "base64", "media_type": "image/png", "data": "aGk="}
    assert document["source"] == {"type": "base64", "media_type": "application/pdf", "data": "cGRm"}
    assert text["text"] == "a.txt:\nhi"


def test_a_model_is_asked_to_go_on_with_what_it_has_begun() -> None:
    begun = msgspec.structs.replace(prompt(thinking=2_000), begun="The answer is ")
    body = msgspec.json.decode(msgspec.json.encode(messages_body(begun, FAILURES)))
    assert [(message["role"], message["content"][0]["text"]) for message in body["messages"]] == [
        ("user", "hi"),
        ("assistant", "The answer is"),
        ("user", CONTINUE_INSTRUCTION),
    ]
    # What the next call shares with this one can be read from the cache.
    assert "cache_control" in body["messages"][-1]["content"][0]


def test_pictures_of_a_result_stand_inside_it() -> None:
    body = messages_body(prompt(UserEntry(content="plot it"), called(("c1", "plot")), answered_with_pictures("c1")), FAILURES)
    (result,) = cast(list[dict[str, Any]], body["messages"])[-1]["content"]
    assert (result["type"], result["tool_use_id"]) == ("tool_result", "c1")
    assert [block["type"] for block in result["content"]] == ["text", "image", "text", "text"]
    assert result["content"][1]["source"] == {"type": "base64", "media_type": "image/png", "data": "aGk="}


@pytest.mark.parametrize(("choice", "sent"), [("required", {"type": "any"}), ("weather", {"type": "tool", "name": "weather"})])
def test_a_tool_that_has_to_be_called_is_named_and_nothing_is_thought_before(choice: str, sent: dict[str, str]) -> None:
    body = messages_body(prompt(UserEntry(content="?"), tools=(WEATHER,), tool_choice=choice, thinking=2_000), FAILURES)
    assert (body["tool_choice"], "thinking" in body) == (sent, False)
    assert "tool_choice" not in messages_body(prompt(UserEntry(content="?"), tool_choice=choice), FAILURES)
