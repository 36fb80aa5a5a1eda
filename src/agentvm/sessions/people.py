"""Pages for people — sessions as Markdown, and as self-contained HTML in which all content is escaped."""

import re
from base64 import b64encode
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from html import escape

import msgspec

from agentvm.model.attachment import references_of, referred_digest
from agentvm.model.image import Image
from agentvm.model.message import (
    AssistantMessage,
    ErrorMessage,
    FilePart,
    ImagePart,
    LinkPart,
    Message,
    OutputPart,
    TextPart,
    ThinkingPart,
    ToolCallMessage,
    ToolResultMessage,
    UserMessage,
    UserPart,
    parts_of,
    with_parts,
)
from agentvm.model.session import Session
from agentvm.sessions.export import ExportSource, Selection
from agentvm.sessions.line import blob_of
from agentvm.storage.sql.attachments import read_all

_SHOWN = re.compile(r"image/(?:png|jpeg|gif|webp)")
IMAGES_MAX_BYTES = 32 * 1024 * 1024
"""Bytes of the images of one message that are shown; others are only named."""
_FENCE = re.compile(r"`{3,}")
# What a page says of who speaks.
_SPEAKER = re.compile(r" {0,3}#{1,3}[ \t]+(?:User|Assistant|Error|Tool call:|Tool result:)")
_OPENS = re.compile(r" {0,3}(`{3,}|~{3,})(.*)")


@dataclass(frozen=True, slots=True)
class PageFormat:
    """The format of a page: its head and foot, and the rendering of sessions and messages."""

    head: str
    foot: str
    session: Callable[[Image, Session], str]
    message: Callable[[Message], str]
    pictures: bool
    """Whether images are shown, and not only named."""


async def export_pages(source: ExportSource, selections: Sequence[Selection], look: PageFormat) -> AsyncIterator[bytes]:
    """Yields one page of all sessions, as it is made."""
    yield look.head.encode()
    for leaving in await source.list(selections):
        for session in leaving.sessions:
            yield look.session(leaving.image, session).encode()
            history = await source.carrier.history(session.container_id, session.session_id)
            async for page in source.messages(session, history):
                for message in page:
                    complete = await _with_pictures(source, session, message) if look.pictures else message
                    if text := look.message(complete):
                        yield text.encode("utf-8", "replace")
    yield look.foot.encode()


async def _with_pictures(source: ExportSource, session: Session, message: Message) -> Message:
    """With the pictures that it refers to as if they had been sent in it, as far as they are there and not too much."""
    if not (digests := references_of(message)):
        return message
    files, left = source.store.container(session.container_id).attachments, IMAGES_MAX_BYTES
    sizes = await files.sizes(digests)
    parts: list[OutputPart] = []
    for part in parts_of(message):
        digest = referred_digest(part.data) if isinstance(part, ImagePart) and _SHOWN.fullmatch(part.media_type) else None
        if digest is not None and sizes.get(digest, left + 1) <= left and (body := await read_all(files, digest)) is not None:
            left -= len(body)
            part = msgspec.structs.replace(part, data=b64encode(body).decode())
        parts.append(part)
    return with_parts(message, tuple(parts))


def _when(at: int) -> str:
    try:
        return datetime.fromtimestamp(at / 1000, UTC).strftime("%Y-%m-%d %H:%M UTC")
    except (ValueError, OverflowError, OSError):
        return str(at)


def markdown_page(session: Session, name: str, messages: Sequence[Message]) -> str:
    """One session as a page of Markdown; `name` is its heading if it has no title."""
    return _markdown_head(session, name) + "".join(map(_markdown_message, messages))


def _title(session: Session, name: str) -> str:
    return " ".join((session.title or name).split()) or "Session"


def _json(value: object) -> str:
    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode()


def _fenced(text: str, language: str = "") -> str:
    """In a fence that is longer than any in the text, so that nothing gets out of it."""
    longest = max((len(run) for run in _FENCE.findall(text)), default=2)
    fence = "`" * (longest + 1)
    return f"{fence}{language}\n{text}\n{fence}\n\n"


def _named(part: ImagePart | FilePart) -> str:
    name = part.name if isinstance(part, ImagePart) else part.filename
    return name or part.media_type


def _markdown_session(image: Image, session: Session) -> str:
    return _markdown_head(session, image.name)


def _markdown_head(session: Session, name: str) -> str:
    title = re.sub(r"([\\`*_\[\]<>#])", r"\\\1", _title(session, name))
    return f"# {title}\n\n{_when(session.created_at)}\n\n"


def _own_words(text: str) -> str:
    """Escapes lines that look like the heading of a message, and closes an open code block."""
    shown: list[str] = []
    fence = ""
    for line in text.split("\n"):
        match = _OPENS.match(line)
        if match is not None and not fence:
            fence = match[1]
        elif match is not None and match[1].startswith(fence) and not match[2].strip():
            fence = ""
        shown.append(f"\\{line}" if not fence and _SPEAKER.match(line) else line)
    return "\n".join([*shown, fence] if fence else shown)


def _markdown_message(message: Message) -> str:
    match message:
        case UserMessage(content=content):
            shown = content if isinstance(content, str) else "\n\n".join(map(_markdown_part, content))
            return f"## User\n\n{_own_words(shown)}\n\n"
        case AssistantMessage(content=parts):
            return "## Assistant\n\n" + "".join(_markdown_entry(part) for part in parts) if parts else ""
        case ToolCallMessage(tool_call=call):
            return f"### Tool call: {' '.join(call.name.split())}\n\n{_fenced(_json(call.input), 'json')}"
        case ToolResultMessage(tool_result=result):
            return f"### Tool result: {' '.join(result.name.split())}\n\n{_fenced(result.output.text)}"
        case ErrorMessage():
            return f"## Error\n\n{_fenced(message.content)}"


def _markdown_part(part: UserPart) -> str:
    return part.text if isinstance(part, TextPart) else f"*[{part.media_type}: {_named(part)}]*"


def _markdown_entry(part: TextPart | ThinkingPart) -> str:
    if isinstance(part, TextPart):
        return f"{_own_words(part.text)}\n\n"
    return "".join(f"> {line}\n" for line in part.reasoning.splitlines()) + "\n"


def _html_session(image: Image, session: Session) -> str:
    return f"<h1>{escape(_title(session, image.name))}</h1>\n<p class=when>{_when(session.created_at)}</p>\n"


def _html_message(message: Message) -> str:
    body, kind = "".join(_html_parts(message)), message.role
    if not body:
        return ""
    author = escape(kind.capitalize())
    return f"<section class={kind}><h2>{author} <small>{_when(message.timestamp)}</small></h2>\n{body}</section>\n"


def _html_parts(message: Message) -> Iterator[str]:
    match message:
        case UserMessage(content=content):
            yield from (_pre(content),) if isinstance(content, str) else map(_html_part, content)
        case AssistantMessage(content=parts):
            yield from map(_html_entry, parts)
        case ToolCallMessage(tool_call=call):
            yield f"<details><summary>Tool call: {escape(call.name)}</summary>{_pre(_json(call.input))}</details>\n"
        case ToolResultMessage(tool_result=result):
            shown = "".join(map(_html_part, parts_of(message))) or _pre(result.output.text)
            yield f"<details><summary>Tool result: {escape(result.name)}</summary>{shown}</details>\n"
        case ErrorMessage():
            yield _pre(message.content)


def _html_entry(part: TextPart | ThinkingPart) -> str:
    if isinstance(part, TextPart):
        return _pre(part.text)
    return f"<details><summary>Thinking</summary>{_pre(part.reasoning)}</details>\n"


def _html_part(part: OutputPart) -> str:
    if isinstance(part, TextPart):
        return _pre(part.text)
    if isinstance(part, LinkPart):
        return _pre(part.uri)
    named = escape(_named(part))
    if isinstance(part, ImagePart) and _SHOWN.fullmatch(part.media_type) and blob_of(part.data) is not None:
        return f'<p><img src="data:{part.media_type};base64,{part.data}" alt="{named}"></p>\n'
    return f"<p>[{escape(part.media_type)}: {named}]</p>\n"


def _pre(text: str) -> str:
    return f"<pre>{escape(text)}</pre>\n"


_STYLE = (
    "body{font:16px/1.5 system-ui,sans-serif;max-width:48rem;margin:2rem auto;padding:0 1rem}"
    "pre{white-space:pre-wrap;overflow-wrap:anywhere;font:inherit}details pre{font:14px/1.4 monospace}"
    "section{border-left:4px solid #ccc;padding-left:1rem;margin:1rem 0}section.user{border-color:#48c}"
    "section.error{border-color:#c44}small,.when{color:#777;font-weight:normal}img{max-width:100%}"
)
# Nothing is fetched and nothing is run, whatever was said.
_POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"

MARKDOWN = PageFormat("", "", _markdown_session, _markdown_message, pictures=False)
HTML = PageFormat(
    f'<!doctype html>\n<html><head><meta charset="utf-8"><meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
    f'<meta name="viewport" content="width=device-width"><title>Sessions</title><style>{_STYLE}</style></head><body>\n',
    "</body></html>\n",
    _html_session,
    _html_message,
    pictures=True,
)
