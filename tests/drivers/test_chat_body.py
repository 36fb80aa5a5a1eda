from typing import Any, cast

import msgspec
import pytest
from msgspec import structs
from tests.drivers.fixtures import EVERY_PART, FAILURES, WEATHER, answered, answered_with_pictures, called, prompt

from agentvm.drivers.base import AssistantEntry, UserEntry
from agentvm.drivers.chat_body import CONTINUE_INSTRUCTION, chat_body, estimate_prompt, origins, reasoning_mark
from agentvm.errors import ProviderBadRequest
from agentvm.model.attachment import is_text
from agentvm.model.message import FilePart, ImagePart, TextPart, ThinkingPart


def test_the_system_prompt_comes_first_and_tools_are_functions() -> None:
    body = chat_body(prompt(system="Be brief.", tools=(WEATHER,)), FAILURES, limit="max_completion_tokens")
    assert body["messages"] == [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "hi"}]
    function = {"name": "weather", "description": "The weather", "parameters": WEATHER.input_schema}
    assert body["tools"] == [{"type": "function", "function": function}]
    assert body["max_completion_tokens"] == 100
    assert "max_tokens" not in body


def test_parts_become_what_chat_completions_knows() -> None:
    body = chat_body(prompt(UserEntry(content=EVERY_PART)), FAILURES)
    assert body["messages"] == [
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "look"},
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}},
                {"type": "image_url", "image_url": {"url": "https://example.test/a.png"}},
                {"type": "file", "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,cGRm"}},
                {"type": "text", "text": "a.txt:\nnotes"},
            ],
        }
    ]


@pytest.mark.parametrize(
    "part",
    [
        FilePart(data="https://example.test/a.pdf", media_type="application/pdf"),
        FilePart(data="not base64!", media_type="text/plain"),
        FilePart(data="/////w==", media_type="text/plain"),
    ],
)
def test_a_part_that_cannot_be_sent_is_refused(part: FilePart) -> None:
    with pytest.raises(ProviderBadRequest):
        chat_body(prompt(UserEntry(content=(part,))), FAILURES)


@pytest.mark.parametrize("speech_only", [False, True])
def test_answers_one_after_the_other_are_one_message(speech_only: bool) -> None:
    said = [AssistantEntry(text="nope"), AssistantEntry(text=""), AssistantEntry(text="{}")]
    asked = prompt(UserEntry(content="a"), *said, UserEntry(content="b"))
    messages = cast("list[dict[str, Any]]", chat_body(asked, FAILURES, speech_only=speech_only)["messages"])
    assert [(one["role"], one["content"]) for one in messages] == [("user", "a"), ("assistant", "nope\n\n{}"), ("user", "b")]
    assert [place for place, _ in origins(asked)] == [0, 3, 4]


def test_a_call_after_an_answer_is_in_its_message() -> None:
    asked = prompt(UserEntry(content="a"), AssistantEntry(text="nope"), called(("c", "weather")), answered("c", "sunny"))
    messages = cast("list[dict[str, Any]]", chat_body(asked, FAILURES)["messages"])
    assert [one["role"] for one in messages] == ["user", "assistant", "tool"]
    assert (messages[1]["content"], messages[1]["tool_calls"][0]["id"]) == ("nope", "c")
    assert [place for place, _ in origins(asked)] == [0, 2, 3]


@pytest.mark.parametrize("media_type", ["text/csv", "TEXT/Markdown; charset=utf-8", "application/json", "application/ld+json"])
@pytest.mark.parametrize("speech_only", [False, True])
def test_a_file_that_is_text_is_read_by_every_model(media_type: str, speech_only: bool) -> None:
    part = FilePart(data="aGk=", media_type=media_type, filename="a.txt")
    body = chat_body(prompt(UserEntry(content=(part,))), FAILURES, speech_only=speech_only)
    assert "a.txt:\nhi" in str(msgspec.json.decode(msgspec.json.encode(body))["messages"][0]["content"]).replace("\\n", "\n")
    assert not is_text("application/zip")


def test_an_assistant_that_said_nothing_is_left_out() -> None:
    body = chat_body(prompt(UserEntry(content="a"), AssistantEntry(text=""), UserEntry(content="b")), FAILURES)
    assert body["messages"] == [{"role": "user", "content": "a"}, {"role": "user", "content": "b"}]


def test_reasoning_goes_back_in_the_member_it_came_in_with_every_call() -> None:
    first, second = called(("c1", "weather")), called(("c2", "weather"))
    thought = ThinkingPart(reasoning="hm", signature=reasoning_mark("reasoning_content"))
    first = AssistantEntry(text=first.text, tool_calls=first.tool_calls, thinking=(thought,))
    body = chat_body(prompt(first, answered("c1", "sun"), second, answered("c2", "sun")), FAILURES)
    messages = body["messages"]
    assert isinstance(messages, list)
    assert messages[0]["reasoning_content"] == "hm"
    assert messages[2]["reasoning_content"] == ""


def test_reasoning_of_another_provider_is_not_sent() -> None:
    said = called(("c1", "weather"))
    said = AssistantEntry(text="", tool_calls=said.tool_calls, thinking=(ThinkingPart(reasoning="hm", signature="c2ln"),))
    body = chat_body(prompt(said, answered("c1", "sun")), FAILURES)
    assert "hm" not in str(body)


def test_a_model_without_tools_hears_what_they_said_as_text() -> None:
    said = (UserEntry(content=EVERY_PART[:1] + EVERY_PART[4:]), called(("c1", "weather"), text="Wait."), answered("c1", "sun"))
    body = chat_body(prompt(*said, tools=(WEATHER,)), FAILURES, speech_only=True)
    assert "tools" not in body
    assert body["messages"] == [
        {"role": "user", "content": "look\na.txt:\nnotes"},
        {"role": "assistant", "content": "Wait."},
        {"role": "user", "content": "weather: sun"},
    ]


def test_a_model_without_eyes_is_not_sent_pictures() -> None:
    said = prompt(UserEntry(content=(ImagePart(data="aGk=", media_type="image/png"),)))
    with pytest.raises(ProviderBadRequest, match="text only"):
        chat_body(said, FAILURES, speech_only=True)


def test_tokens_are_estimated_from_what_is_sent() -> None:
    short, long = (chat_body(prompt(UserEntry(content="word " * count)), FAILURES) for count in (1, 1000))
    assert 0 < estimate_prompt(short) < 30
    assert 1000 < estimate_prompt(long) < 1500


UNREADABLE = FilePart(data="/////w==", media_type="text/plain", filename="a.doc")


@pytest.mark.parametrize("data", ["/////w==", "é", "aGk"])
def test_a_part_that_was_refused_becomes_a_note_once_it_is_history(data: str) -> None:
    part = FilePart(data=data, media_type="text/plain", filename="a.doc")
    with pytest.raises(ProviderBadRequest):
        chat_body(prompt(UserEntry(content=(part,))), FAILURES)
    said = prompt(UserEntry(content=(TextPart(text="look"), part)), UserEntry(content="never mind"))
    assert chat_body(said, FAILURES)["messages"] == [
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "look"},
                {"type": "text", "text": "[a.doc: this model cannot read it]"},
            ],
        },
        {"role": "user", "content": "never mind"},
    ]


def test_a_model_without_eyes_hears_of_older_pictures_as_notes() -> None:
    pictures = (ImagePart(data="aGk=", media_type="image/png"), ImagePart(data="aGk=", media_type="image/png", name="x.png"))
    said = prompt(UserEntry(content=(*pictures, UNREADABLE)), UserEntry(content="never mind"))
    assert chat_body(said, FAILURES, speech_only=True)["messages"] == [
        {
            "role": "user",
            "content": "[image/png: this model cannot read it]\n"
            "[x.png: this model cannot read it]\n"
            "[a.doc: this model cannot read it]",
        },
        {"role": "user", "content": "never mind"},
    ]


@pytest.mark.parametrize("speech_only", [False, True])
def test_the_newest_user_message_is_refused_also_while_its_tools_are_answered(speech_only: bool) -> None:
    newest = UserEntry(content=(UNREADABLE,))
    said = prompt(UserEntry(content="before"), newest, called(("c1", "weather")), answered("c1", "sun"))
    with pytest.raises(ProviderBadRequest, match=r"a\.doc"):
        chat_body(said, FAILURES, speech_only=speech_only)


def test_a_temperature_is_sent_only_if_somebody_chose_one() -> None:
    assert chat_body(prompt(temperature=0.0), FAILURES)["temperature"] == 0.0
    assert "temperature" not in chat_body(prompt(), FAILURES)


def test_a_picture_and_a_file_may_come_as_data_urls() -> None:
    parts = (
        ImagePart(data="data:image/png;base64,aGk=", media_type="image/jpeg"),
        FilePart(data="data:text/plain;base64,aGk=", media_type="application/octet-stream", filename="a.txt"),
        FilePart(data="data:application/pdf;base64,cGRm", media_type="application/pdf", filename="a.pdf"),
    )
    (message,) = msgspec.json.decode(msgspec.json.encode(chat_body(prompt(UserEntry(content=parts)), FAILURES)))["messages"]
    picture, text, document = message["content"]
    assert picture["image_url"]["url"] == "data:image/png;base64,aGk="
    assert text == {"type": "text", "text": "a.txt:\nhi"}
    assert document["file"]["file_data"] == "data:application/pdf;base64,cGRm"


@pytest.mark.parametrize("speech_only", [False, True])
def test_a_model_is_asked_to_go_on_with_what_it_has_begun(speech_only: bool) -> None:
    begun = structs.replace(prompt(), begun="The answer is ")
    body = chat_body(begun, FAILURES, speech_only=speech_only)
    assert body["messages"] == [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": "The answer is"},
        {"role": "user", "content": CONTINUE_INSTRUCTION},
    ]
    assert chat_body(structs.replace(begun, begun=" \n"), FAILURES)["messages"] == [{"role": "user", "content": "hi"}]


def test_pictures_of_results_follow_after_all_results_in_a_message_of_their_own() -> None:
    results = answered_with_pictures("c1", "c2")
    conversation = (UserEntry(content="plot it"), called(("c1", "plot"), ("c2", "plot")), results)
    body = chat_body(prompt(*conversation), FAILURES)
    *_, first, second, pictures = cast(list[dict[str, Any]], body["messages"])
    assert [(each["role"], each.get("tool_call_id")) for each in (first, second, pictures)] == [
        ("tool", "c1"),
        ("tool", "c2"),
        ("user", None),
    ]
    assert first["content"] == "A plot.\n[image/png]\n[a.zip, application/zip]\nhttps://example.test/more"
    assert [block["type"] for block in pictures["content"]] == ["text", "image_url", "text", "image_url"]
    assert "c2" in pictures["content"][2]["text"]
    assert [place for place, _ in origins(prompt(*conversation))] == [0, 1, 2, 2, 2]


def test_a_model_that_reads_text_only_is_told_that_there_was_a_picture() -> None:
    conversation = (UserEntry(content="plot it"), called(("c1", "plot")), answered_with_pictures("c1"))
    body = chat_body(prompt(*conversation), FAILURES, speech_only=True)
    *_, told = cast(list[dict[str, Any]], body["messages"])
    assert "image/png: this model cannot read it" in told["content"]


def test_a_tool_that_has_to_be_called_is_named_beside_the_tools() -> None:
    def choice(**about: Any) -> object:
        return chat_body(prompt(UserEntry(content="?"), **about), FAILURES).get("tool_choice")

    assert choice(tools=(WEATHER,), tool_choice="required") == "required"
    assert choice(tools=(WEATHER,), tool_choice="weather") == {"type": "function", "function": {"name": "weather"}}
    assert choice(tools=(WEATHER,)) is choice(tool_choice="required") is None
