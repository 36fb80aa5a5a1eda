"""MCP results — the answer of a server to a call, as a result for the model or as questions for a person."""

import base64
import binascii
from collections.abc import Mapping

import mcp_types as types

from agentvm.errors import ToolFailed
from agentvm.model.long_json import folded
from agentvm.tools.base import (
    IMAGE_MAX_BYTES,
    IMAGES_MAX,
    CallResult,
    InputRequired,
    Question,
    QuestionAnswer,
    ResultFile,
    ResultImage,
    ResultLink,
    ResultPart,
    ResultText,
    plain_text,
)
from agentvm.tools.mcp.listing import clean, clean_schema

PARTS_MAX = 200
_URL_MAX = 4096


def call_result(result: types.CallToolResult) -> CallResult:
    """Converts a result: structured content is JSON, a single text a text, anything else parts in order."""
    if len(result.content) > PARTS_MAX:
        raise ToolFailed(f"The MCP server answers with more than {PARTS_MAX} parts")
    parts = tuple(map(_part, result.content))
    if sum(isinstance(part, ResultImage) for part in parts) > IMAGES_MAX:
        raise ToolFailed(f"The MCP server answers with more than {IMAGES_MAX} images")
    texts = [part.text for part in parts if isinstance(part, ResultText)]
    if result.is_error:
        return CallResult(type="error-text", value="\n".join(texts) or "The tool failed without saying why")
    only_text = len(texts) == len(parts)
    # Servers repeat structured content as text, for older clients.
    if result.structured_content is not None and only_text:
        return CallResult(type="json", value=folded(result.structured_content))
    if only_text:
        return CallResult(type="text", value="\n".join(texts))
    return CallResult(type="content", value=folded(result.structured_content), parts=parts)


def _part(block: types.ContentBlock) -> ResultPart:
    match block:
        case types.TextContent(text=text):
            return ResultText(text=plain_text(text))
        case types.ImageContent(data=data, mime_type=media_type):
            image = _decoded(data)
            if len(image) > IMAGE_MAX_BYTES:
                raise ToolFailed(f"The MCP server answers with an image of more than {IMAGE_MAX_BYTES} bytes")
            return ResultImage(data=image, media_type=_media_type(media_type))
        case types.AudioContent(data=data, mime_type=media_type):
            return ResultFile(data=_decoded(data), media_type=_media_type(media_type))
        case types.ResourceLink(uri=uri, name=name):
            return ResultLink(uri=plain_text(str(uri)), name=clean(name))
        case types.EmbeddedResource(resource=types.TextResourceContents(text=text)):
            return ResultText(text=plain_text(text))
        case types.EmbeddedResource(resource=types.BlobResourceContents(blob=blob, mime_type=kind, uri=uri)):
            file_name = clean(str(uri).rpartition("/")[2])[:200] or None
            return ResultFile(data=_decoded(blob), media_type=_media_type(kind), name=file_name)
        case _:
            raise ToolFailed("The MCP server returned an unknown kind of content")


def _decoded(data: str) -> bytes:
    try:
        return base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        raise ToolFailed("The MCP server answers with data that is not base64") from None


def _media_type(text: str | None) -> str:
    media_type = (text or "").partition(";")[0].strip().lower()
    fits = media_type.isascii() and media_type.isprintable() and len(media_type) <= 100 and media_type.count("/") == 1
    return media_type if fits else "application/octet-stream"


def input_required(result: types.InputRequiredResult) -> InputRequired:
    """Converts questions. Requests for anything but a person's answer are refused: sampling would spend the tenant's money."""
    questions = {}
    for key, request in (result.input_requests or {}).items():
        if not isinstance(request, types.ElicitRequest):
            raise ToolFailed("The MCP server requested model calls or folders of the client, which are not supported")
        questions[key] = question(request.params)
    return InputRequired(questions=questions, state=result.request_state)


def question(params: types.ElicitRequestParams) -> Question:
    match params:
        case types.ElicitRequestFormParams(message=message, requested_schema=schema):
            return Question(mode="form", message=clean(message), schema=clean_schema(schema))
        case types.ElicitRequestURLParams(message=message, url=url):
            return Question(mode="url", message=clean(message), url=web_address(url))
        case _:
            raise ToolFailed("The MCP server sent an unknown kind of question")


def web_address(url: str) -> str:
    """Returns an address that a person may be sent to: never a script, a file or an application."""
    if not url.lower().startswith("https://") or not url.isprintable() or len(url) > _URL_MAX:
        raise ToolFailed("The MCP server sends people to an address that is not https")
    return url


def answers(by_key: Mapping[str, QuestionAnswer]) -> dict[str, types.ElicitResult]:
    return {key: types.ElicitResult(action=answer.action, content=answer.content) for key, answer in by_key.items()}


def url_questions(data: object) -> InputRequired | None:
    """Converts the error by which a server of 2025-11-25 asks the user to visit a page; None for any other error."""
    try:
        required = types.ElicitationRequiredErrorData.model_validate(data)
    except ValueError:
        return None
    return InputRequired(questions={str(number): question(params) for number, params in enumerate(required.elicitations)})
