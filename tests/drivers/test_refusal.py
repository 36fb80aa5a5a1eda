"""What Anthropic's and OpenAI's errors say about what they refuse, and what of the prompt that is."""

from typing import Any

import msgspec
import pytest
from tests.drivers.fixtures import FAILURES, answered, called, prompt

from agentvm.drivers import anthropic_body, chat_body
from agentvm.drivers.base import AssistantEntry, Prompt, UserEntry
from agentvm.drivers.refusal import RefusalKind, explain
from agentvm.errors import ProviderBadRequest
from agentvm.model.message import FilePart, ImagePart, TextPart

PICTURE = ImagePart(data="aGk=", media_type="image/png", name="a.png")
PDF = FilePart(data="cGRm", media_type="application/pdf", filename="a.pdf")
# With a part that Anthropic is not sent, tools, and an answer that no provider is sent.
SAID = prompt(
    UserEntry(content="first"),
    called(("c1", "weather"), ("c2", "weather"), text="hm"),
    answered("c1", "sunny"),
    AssistantEntry(text=""),
    UserEntry(content=(TextPart(text=" "), TextPart(text="look"), PICTURE, PDF)),
    AssistantEntry(text="nice"),
    UserEntry(content="and now?"),
    system="Be brief.",
)


def of_anthropic(message: str, kind: str = "invalid_request_error", status: int = 400) -> ProviderBadRequest:
    body = {"type": "error", "error": {"type": kind, "message": message}}
    error = FAILURES.status(status, msgspec.json.encode(body), {})
    assert isinstance(error, ProviderBadRequest)
    return error


def of_openai(message: str, *, param: str | None = None, code: str | None = None, status: int = 400) -> ProviderBadRequest:
    body: Any = {"error": {"message": message, "type": "invalid_request_error", "param": param, "code": code}}
    error = FAILURES.status(status, msgspec.json.encode(body), {})
    assert isinstance(error, ProviderBadRequest)
    return error


@pytest.mark.parametrize(
    ("message", "place", "kind"),
    [
        ("messages.3.content.1.image.source.base64: image exceeds 5 MB maximum: 6 bytes > 5 bytes", (4, 2), "media"),
        ("messages.3.content.2.document.source.base64: The PDF specified was not valid.", (4, 3), "media"),
        ("messages.3.content.0.text: text content blocks must be non-empty", (4, 1), "unknown"),
        ("messages.2.content.0: unexpected `tool_use_id` found in `tool_result` blocks: c9", (2, None), "tools"),
        ("messages.1: `tool_use` ids were found without `tool_result` blocks immediately after: c2", (1, None), "tools"),
        ("messages.0.content: Input should be a valid list", (0, None), "unknown"),
        ("Could not process image", None, "media"),
        ("Image does not match the provided media type image/png", None, "media"),
        ("messages: at least one message is required", None, "unknown"),
        ("messages.99.content.0.image: beyond what there is", None, "media"),
        ("prompt is too long: 250000 tokens > 200000 maximum", None, None),
        ("max_tokens: 99999 > 8192, which is the maximum allowed number of output tokens", None, None),
        ("Your credit balance is too low to access the Anthropic API.", None, None),
    ],
)
def test_what_anthropic_refuses(message: str, place: tuple[int, int | None] | None, kind: RefusalKind | None) -> None:
    error = of_anthropic(message)
    explain(error, anthropic_body.origins(SAID))
    assert (error.place, error.kind) == (place, kind)


@pytest.mark.parametrize(
    ("error", "place", "kind"),
    [
        (of_openai("Invalid image.", param="messages.[4].content.[2].image_url", code="invalid_image_url"), (4, 2), "media"),
        (of_openai("Invalid 'messages[4].content[2].image_url.url'. Expected a base64-encoded data URL."), (4, 2), "media"),
        (of_openai("Expected a base64-encoded data URL", param="messages[4].content[3].file.file_data"), (4, 3), "media"),
        (of_openai("Invalid id: string too long.", param="messages[2].tool_calls[0].id"), (1, None), "tools"),
        (of_openai("messages with role 'tool' must be a response to a preceeding message with 'tool_calls'."), None, "tools"),
        (of_openai("You uploaded an unsupported image. Please check it.", code="invalid_image_format"), None, "media"),
        (of_openai("Failed to download it.", code="invalid_image_url"), None, "media"),
        (of_openai("Conversation roles must alternate user/assistant/user/assistant/..."), None, "unknown"),
        (of_openai("This model's maximum context length is 8192 tokens.", code="context_length_exceeded"), None, None),
        (of_openai("Unsupported parameter: 'temperature'", param="temperature", code="unsupported_parameter"), None, None),
        (of_openai("The model `x` does not exist", code="model_not_found", status=404), None, None),
    ],
)  # fmt: skip
def test_what_openai_refuses(error: ProviderBadRequest, place: tuple[int, int | None] | None, kind: RefusalKind | None) -> None:
    explain(error, chat_body.origins(SAID))
    assert (error.place, error.kind) == (place, kind)


def test_the_request_itself_is_not_what_was_said() -> None:
    late = prompt(AssistantEntry(text="hello"), UserEntry(content="hi"))
    error = of_anthropic("messages.0.content.0.text: no")
    explain(error, anthropic_body.origins(late))
    assert error.place is None
    error = of_openai("no", param="messages[0].content")
    explain(error, chat_body.origins(SAID))
    assert error.place is None


def test_what_we_could_not_even_send_is_no_refusal() -> None:
    error = FAILURES.bad_request("a file of type application/zip")
    assert isinstance(error, ProviderBadRequest)
    explain(error, ())
    assert error.kind is None


@pytest.mark.parametrize("said", [SAID, prompt(UserEntry(content=(TextPart(text=" "),))), prompt(AssistantEntry(text="hello"))])
def test_every_message_of_a_request_has_an_origin(said: Prompt) -> None:
    for origins, body in (
        (anthropic_body.origins(said), anthropic_body.messages_body(said, FAILURES)),
        (chat_body.origins(said), chat_body.chat_body(said, FAILURES)),
    ):
        messages: Any = body["messages"]
        assert len(origins) == len(messages)
        for (number, parts), message in zip(origins, messages, strict=True):
            assert not parts or len(parts) == len(message["content"])
            assert number is None or number < len(said.conversation)
