import msgspec
import pytest
from tests.conformance.records import EVERY_KIND

from agentvm.drivers.base import AssistantEntry, Prompt, ToolResultsEntry, ToolSpec, UserEntry
from agentvm.drivers.conversation import (
    conversation_of,
    count_tokens,
    estimate_input,
    last_user_text,
    share_window,
    split_data_url,
)
from agentvm.drivers.weighing import most_input
from agentvm.model.message import FilePart, ImagePart, Message, TextPart, ToolCallMessage


def test_an_answer_takes_at_most_half_of_a_window_and_thinking_comes_on_top() -> None:
    assert share_window(100_000, 4_096, None) == (4_096, 95_904)
    assert share_window(4_000, 4_096, 500) == (2_000, 1_500)


def with_call(*, by_provider: bool) -> list[Message]:
    return [
        msgspec.structs.replace(message, tool_call=msgspec.structs.replace(message.tool_call, by_provider=by_provider))
        if isinstance(message, ToolCallMessage)
        else message
        for message in EVERY_KIND
    ]


def test_an_exchange_is_told_with_its_calls_beside_their_results() -> None:
    first, second, said, answers = conversation_of(with_call(by_provider=False))
    assert isinstance(first, UserEntry)
    assert isinstance(second, UserEntry)
    assert isinstance(said, AssistantEntry)
    assert isinstance(answers, ToolResultsEntry)
    assert [one.id for one in said.tool_calls] == [one.id for one in answers.results] == ["c"]


def test_a_call_that_its_provider_ran_is_told_with_the_content_of_the_provider_alone() -> None:
    *_, said = conversation_of(with_call(by_provider=True))
    assert isinstance(said, AssistantEntry)
    assert said.tool_calls == ()
    assert said.provider_content is not None


def test_what_is_told_has_a_weight_and_never_more_tokens_than_that_allows() -> None:
    told = conversation_of(EVERY_KIND)
    prompt = Prompt(model="m", conversation=told, max_tokens=1, system="s" * 300)
    assert count_tokens(()) == 0
    assert 1_600 < count_tokens(told) < estimate_input(prompt) < most_input(prompt, driver="anthropic", window=200_000)


def test_what_a_provider_reads_includes_the_tools() -> None:
    prompt = Prompt(model="m", conversation=(UserEntry(content="hi"),), max_tokens=1)
    tools = (ToolSpec(name="look", description="d" * 300, input_schema={"type": "object"}),)
    assert estimate_input(msgspec.structs.replace(prompt, tools=tools)) > estimate_input(prompt) + 100


def test_a_document_by_url_does_not_weigh_what_its_address_does() -> None:
    file = FilePart(data="https://example.org/a.pdf", media_type="application/pdf")
    assert count_tokens((UserEntry(content=(file,)),)) > 10_000


def test_the_question_is_the_text_of_the_last_user_message() -> None:
    said = (UserEntry(content="a"), UserEntry(content=(ImagePart(data="x", media_type="image/png"), TextPart(text="b"))))
    assert last_user_text(Prompt(model="m", conversation=said, max_tokens=9)) == "b"
    assert last_user_text(Prompt(model="m", conversation=(), max_tokens=9)) == ""


@pytest.mark.parametrize(
    ("data", "given", "media_type", "content"),
    [
        ("data:image/png;base64,aGk=", "image/jpeg", "image/png", "aGk="),
        ("DATA:image/png;BASE64,aGk=", "image/jpeg", "image/png", "aGk="),
        ("data:;base64,aGk=", "image/jpeg", "image/jpeg", "aGk="),
        ("data:text/plain;charset=utf-8,h%69", "image/jpeg", "text/plain;charset=utf-8", "aGk="),
        ("aGk=", "image/jpeg", "image/jpeg", "aGk="),
        ("data:no comma", "image/jpeg", "image/jpeg", "data:no comma"),
    ],
)
def test_a_data_url_is_taken_apart(data: str, given: str, media_type: str, content: str) -> None:
    part = split_data_url(ImagePart(data=data, media_type=given, name="a"))
    assert part == ImagePart(data=content, media_type=media_type, name="a")
