"""MCP reading — conversations as tools and as resources: search them, read one."""

import html
import re
from typing import Any, Final

import msgspec

from agentvm.gateways.mcp.messages import McpCall
from agentvm.gateways.routes import Lenient
from agentvm.gateways.talk import Talk
from agentvm.model.ids import SessionId
from agentvm.model.message import (
    AssistantMessage,
    ErrorMessage,
    Message,
    ToolCallMessage,
    ToolResultMessage,
    UserMessage,
    shown_part,
)
from agentvm.operations.session_lists import SessionHistory, SessionSearch

SEARCH, READ = "search_sessions", "read_session"
SCHEME: Final = "session://"
RECENT_MAX: Final = 200
"""Messages in a conversation that is read as a resource: the newest."""
_TAG: Final = re.compile(r"</?mark>")
_READ_ONLY: Final = {"readOnlyHint": True, "openWorldHint": False}
_TEXT: Final = {"type": "string"}
_CURSOR: Final = {"type": "string", "description": "`nextCursor` of the page before."}

READING_TOOLS: Final[tuple[dict[str, Any], ...]] = (
    {
        "name": SEARCH,
        "title": "Search conversations",
        "description": "Find messages in earlier conversations with agents. Every word must occur.",
        "inputSchema": {"type": "object", "properties": {"q": _TEXT, "cursor": _CURSOR}, "required": ["q"]},
        "annotations": _READ_ONLY,
    },
    {
        "name": READ,
        "title": "Read a conversation",
        "description": "Read the messages of a conversation, oldest first, a page at a time.",
        "inputSchema": {"type": "object", "properties": {"id": _TEXT, "cursor": _CURSOR}, "required": ["id"]},
        "annotations": _READ_ONLY,
    },
)


class SearchArguments(Lenient, frozen=True):
    q: str
    cursor: str | None = None


class ReadArguments(Lenient, frozen=True):
    id: str
    cursor: str | None = None


async def search_sessions(talk: Talk, call: McpCall, arguments: SearchArguments, container: str | None) -> dict[str, Any]:
    reply = await talk.ask(SessionSearch(q=arguments.q, cursor=arguments.cursor, container_id=container))
    matches = [
        {
            "sessionId": match.session_id,
            "title": match.title,
            "role": match.role,
            "at": match.at,
            "text": html.unescape(_TAG.sub("", match.snippet)),
        }
        for match in reply.found
    ]
    titles = [{"sessionId": match.session_id, "title": match.title, "at": match.at} for match in reply.titles]
    structured: dict[str, Any] = {"found": matches, "titles": titles, "total": reply.total}
    lines = [f"{match['sessionId']} {match['title'] or ''} [{match['role']}] {match['text']}" for match in matches]
    lines += [f"{match['sessionId']} {match['title']}" for match in titles]
    return _result(call, "\n".join(lines) or "Nothing was found.", structured, reply.next_cursor)


async def read_session(talk: Talk, call: McpCall, arguments: ReadArguments) -> dict[str, Any]:
    reply = await talk.ask(SessionHistory(session_id=SessionId(arguments.id), cursor=arguments.cursor))
    messages = [{"role": message.role, "at": message.timestamp, "text": _text(message)} for message in reply.messages]
    structured = {"sessionId": reply.session_id, "messages": messages, "total": reply.total}
    return _result(call, transcript(reply.messages), structured, reply.next_cursor)


async def session_content(talk: Talk, uri: str) -> dict[str, Any]:
    """Returns the newest messages of a conversation as the content of a resource."""
    session_id = SessionId(uri.removeprefix(SCHEME))
    reply = await talk.ask(SessionHistory(session_id=session_id, order="newest", limit=RECENT_MAX))
    return {"uri": uri, "mimeType": "text/plain", "text": transcript(reply.messages[::-1])}


def transcript(messages: tuple[Message, ...]) -> str:
    return "\n\n".join(f"{message.role}: {_text(message)}" for message in messages)


def _text(message: Message) -> str:
    match message:
        case UserMessage(content=str(text)) | ErrorMessage(content=text):
            return text
        case UserMessage(content=parts):
            return "\n".join(part if isinstance(part, str) else shown_part(part) for part in parts)
        case AssistantMessage():
            return message.text
        case ToolCallMessage(tool_call=made):
            return f"{made.name}({msgspec.json.encode(made.input).decode()})"
        case ToolResultMessage(tool_result=result):
            return result.output.text


def _result(call: McpCall, text: str, structured: dict[str, Any], cursor: str | None) -> dict[str, Any]:
    if cursor is not None:
        structured["nextCursor"] = cursor
        text = f"{text}\n\nThere is more: cursor {cursor}"
    return call.result({"content": [{"type": "text", "text": text}], "structuredContent": structured, "isError": False})
