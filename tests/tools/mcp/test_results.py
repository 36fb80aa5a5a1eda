import base64
from typing import Any

import mcp_types as types
import pytest

from agentvm.errors import ToolFailed
from agentvm.tools.base import IMAGE_MAX_BYTES, CallResult, InputRequired, Question, QuestionAnswer, ResultImage, ResultText
from agentvm.tools.mcp.results import answers, call_result, input_required, question, url_questions, web_address


def text(value: str) -> types.TextContent:
    return types.TextContent(text=value)


def image(size: int = 3) -> types.ImageContent:
    return types.ImageContent(data=base64.b64encode(bytes(size)).decode(), mime_type="image/png")


def result(*content: types.ContentBlock, **members: Any) -> types.CallToolResult:
    return types.CallToolResult(content=list(content), **members)


def test_texts_are_one_text_and_structured_content_is_json() -> None:
    assert call_result(result(text("a\x1b[0m"), text("b"))) == CallResult(type="text", value="a[0m\nb")
    assert call_result(result(text("[1]"), structured_content=[1])) == CallResult(type="json", value=[1])
    assert call_result(result(text("no"), is_error=True)) == CallResult(type="error-text", value="no")
    assert call_result(result(is_error=True)).is_error


def test_an_image_makes_it_content_in_order() -> None:
    assert call_result(result(text("a"), image())) == CallResult(
        type="content", parts=(ResultText(text="a"), ResultImage(data=bytes(3), media_type="image/png"))
    )


@pytest.mark.parametrize(
    "content",
    [
        [image(IMAGE_MAX_BYTES + 1)],
        [image() for _ in range(21)],
        [text("a")] * 201,
        [types.ImageContent(data="no base64!", mime_type="image/png")],
        [types.EmbeddedResource(resource=types.BlobResourceContents(uri="file:///x", blob="%%%"))],
    ],
)
def test_content_that_is_too_much_or_damaged_is_an_error(content: list[types.ContentBlock]) -> None:
    with pytest.raises(ToolFailed):
        call_result(result(*content))


def test_a_media_type_of_a_stranger_is_checked() -> None:
    odd = types.ImageContent(data="AAAA", mime_type="image/png\r\nX-Evil: 1")
    (part,) = call_result(result(odd)).parts
    assert isinstance(part, ResultImage)
    assert part.media_type == "application/octet-stream"


def test_questions_and_their_answers() -> None:
    form = types.ElicitRequestFormParams(message="Which\u200b one?", requested_schema={"type": "object", "properties": {}})
    page = types.ElicitRequestURLParams(message="Sign in", url="https://a.example/login")
    required = types.InputRequiredResult(
        input_requests={"f": types.ElicitRequest(params=form), "u": types.ElicitRequest(params=page)}, request_state="s"
    )
    assert input_required(required) == InputRequired(
        questions={
            "f": Question(mode="form", message="Which one?", schema={"type": "object", "properties": {}}),
            "u": Question(mode="url", message="Sign in", url="https://a.example/login"),
        },
        state="s",
    )
    sent = answers({"f": QuestionAnswer(action="accept", content={"colour": "red"})})
    assert sent["f"].model_dump(exclude_none=True)["content"] == {"colour": "red"}


def test_a_server_gets_no_model_calls_and_no_folders() -> None:
    sampling = types.CreateMessageRequest(params=types.CreateMessageRequestParams(messages=[], max_tokens=1))
    with pytest.raises(ToolFailed):
        input_required(types.InputRequiredResult(input_requests={"s": sampling}))
    with pytest.raises(ToolFailed):
        input_required(types.InputRequiredResult(input_requests={"r": types.ListRootsRequest()}))


@pytest.mark.parametrize(
    "url", ["javascript:alert(1)", "http://a.example", "file:///etc/passwd", "https://a\n.example", "https://" + "a" * 5000]
)
def test_nobody_is_sent_to_a_page_that_is_not_https(url: str) -> None:
    with pytest.raises(ToolFailed):
        web_address(url)
    with pytest.raises(ToolFailed):
        question(types.ElicitRequestURLParams(message="x", url=url))


def test_the_error_of_older_servers_that_wants_a_page_visited() -> None:
    data = {"elicitations": [{"mode": "url", "message": "Sign in", "url": "https://a.example", "elicitationId": "1"}]}
    required = url_questions(data)
    assert required is not None
    assert required.questions["0"].url == "https://a.example"
    assert url_questions({"nothing": 1}) is None
