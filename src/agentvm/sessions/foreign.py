"""Foreign — conversations of other programs, in the one shape that ours are made from.

Each becomes an image with one session. What they cannot say, such as what a turn used, is not made up.
"""

import base64
import re
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, BinaryIO

import msgspec

from agentvm.errors import shorten
from agentvm.errors.archive import ArchiveTooLarge
from agentvm.model.definition import Definition, snapshot_of
from agentvm.model.ids import ContainerId, ImageId, MessageId, NewId, SessionId
from agentvm.model.image import Image, ImageConfig
from agentvm.model.message import (
    AssistantMessage,
    AssistantPart,
    Message,
    TextPart,
    ThinkingPart,
    ToolCall,
    ToolCallMessage,
    ToolOutput,
    ToolResult,
    ToolResultMessage,
    UserMessage,
    UserPart,
)
from agentvm.model.session import Session
from agentvm.sessions.line import MAX_TIME, Unfit
from agentvm.sessions.reading import invalid
from agentvm.sessions.spool import Spool

MAX_FOREIGN = 256 * 1024 * 1024
"""Bytes of a file that must be read as a whole."""
MAX_NODES = 200_000
"""Messages of one conversation."""
CONVERSATIONS = "conversations.json"
DEFINITION = Definition(name="imported")

Json = dict[str, Any]

# Two escapes that make a pair, or any other one: so that what stands behind an escaped backslash is not taken for an escape.
_ESCAPES = re.compile(rb"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\(?:u[0-9a-fA-F]{4}|.)")
_HALF = re.compile(rb"\\u[dD][89a-fA-F][0-9a-fA-F]{2}")
# Providers take no other names of tools, also not of those that were called long ago.
_NAMES = re.compile(r"[^a-zA-Z0-9_-]+")
_LONGEST_NAME = 64


@dataclass(slots=True)
class Conversation:
    """What a conversation of another program says. Times are in ms; 0 where nobody knows."""

    title: str
    created_at: int
    updated_at: int
    messages: list[Message] = field(default_factory=list)
    _calls: list[ToolCall] = field(default_factory=list)

    def user(self, parts: Iterable[UserPart], at: int) -> None:
        said = tuple(parts)
        if not said:
            return
        only = said[0] if len(said) == 1 else None
        content = only.text if isinstance(only, TextPart) else said
        self.messages.append(UserMessage(id=self._id(), timestamp=self._at(at), role="user", content=content))

    def assistant(self, parts: Iterable[AssistantPart], at: int) -> None:
        if said := tuple(parts):
            self.messages.append(AssistantMessage(id=self._id(), timestamp=self._at(at), role="assistant", content=said))

    def call(self, name: str, given: Json, at: int) -> None:
        parent = self.messages[-1].id if self.messages and isinstance(self.messages[-1], AssistantMessage) else None
        if parent is None:
            parent = self._id()
            self.messages.append(AssistantMessage(id=parent, timestamp=self._at(at), role="assistant", content=()))
        called = _NAMES.sub("_", name)[:_LONGEST_NAME] or "tool"
        call = ToolCall(id=f"call_{len(self.messages)}", name=called, input=given)
        self._calls.append(call)
        self.messages.append(
            ToolCallMessage(id=self._id(), timestamp=self._at(at), role="assistant", tool_call=call, parent_id=parent)
        )

    def result(self, text: str, at: int, *, failed: bool = False) -> None:
        """Of the first call that has none; a result of no call is left out."""
        if not self._calls:
            return
        call = self._calls.pop(0)
        output = ToolOutput(type="error-text" if failed else "text", value=text)
        result = ToolResult(id=call.id, name=call.name, output=output)
        self.messages.append(
            ToolResultMessage(id=self._id(), timestamp=self._at(at), role="tool", tool_call_id=call.id, tool_result=result)
        )

    def _id(self) -> MessageId:
        return MessageId(f"msg_{len(self.messages) + 1}")

    def _at(self, at: int) -> int:
        return at or self.created_at


Parse = Callable[[object], Iterator[Conversation]]


def read_foreign(file: BinaryIO, parse: Parse, spool: Spool, container_id: ContainerId, new_id: NewId) -> None:
    """Puts the conversations on the spool; `ArchiveInvalid` says which of them does not fit."""
    try:
        raw = decode(_content(file))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise invalid(f"It is not JSON that can be read: {shorten(str(error))}", CONVERSATIONS) from None
    try:
        for conversation in parse(raw):
            _put(conversation, spool, container_id, new_id)
    except Unfit as error:
        raise invalid(f"Conversation {spool.counts.images + 1}: {error}", CONVERSATIONS, member=error.member) from None
    except (UnicodeError, RecursionError) as error:
        raise invalid(f"Conversation {spool.counts.images}: it cannot be stored: {error}", CONVERSATIONS) from None


def _put(conversation: Conversation, spool: Spool, container_id: ContainerId, new_id: NewId) -> None:
    image_id, session_id = ImageId(new_id("img")), SessionId(new_id("sess"))
    name = shorten(" ".join(conversation.title.split())) or "Imported"
    created, updated = conversation.created_at, max(conversation.created_at, conversation.updated_at)
    spool.add_image(
        Image(
            image_id=image_id,
            container_id=container_id,
            session_id=session_id,
            name=name,
            definition_name=DEFINITION.name,
            digest=snapshot_of(DEFINITION)[0],
            definition=DEFINITION,
            config=ImageConfig(),
            created_at=created,
            updated_at=updated,
        )
    )
    spool.add_session(
        Session(
            session_id=session_id,
            image_id=image_id,
            container_id=container_id,
            title=name,
            created_at=created,
            updated_at=updated,
        )
    )
    for message in conversation.messages:
        spool.add_message(message)


def _content(file: BinaryIO) -> bytes:
    """Of the file, or of the one in the ZIP that such exports come in."""
    file.seek(0)
    if file.read(4) != b"PK\x03\x04":
        file.seek(0)
        return _bounded(file.read(MAX_FOREIGN + 1))
    try:
        with zipfile.ZipFile(file) as archive, archive.open(CONVERSATIONS) as member:
            return _bounded(member.read(MAX_FOREIGN + 1))
    except KeyError:
        raise invalid(f"There is no {CONVERSATIONS} in the ZIP") from None
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, ValueError) as error:
        raise invalid(f"The ZIP is damaged: {shorten(str(error))}") from None


def _bounded(body: bytes) -> bytes:
    if len(body) > MAX_FOREIGN:
        raise ArchiveTooLarge(f"{CONVERSATIONS} has more than {MAX_FOREIGN:,} bytes")
    return body


# What others wrote is looked at member by member: a member that is not what it should be is as good as absent.


def conversations(raw: object) -> Iterator[Json]:
    """The list, or the one that is not in a list."""
    items = raw if isinstance(raw, list) else [raw]
    for number, item in enumerate(items, 1):
        if not isinstance(item, dict):
            raise Unfit(f"it must be an object, and number {number} is not")
        yield item


def decode(body: bytes) -> Any:
    """JSON of others. They cut characters in half; half of a surrogate pair, which cannot be stored, becomes a mark."""
    try:
        return msgspec.json.decode(body)
    except msgspec.DecodeError:
        whole = _ESCAPES.sub(lambda found: b"\\ufffd" if _HALF.fullmatch(found[0]) else found[0], body)
        if whole == body:
            raise
        return msgspec.json.decode(whole)


def text_of(value: object) -> str:
    return value if isinstance(value, str) else ""


def dict_of(value: object) -> Json:
    return value if isinstance(value, dict) else {}


def list_of(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def seconds(value: object) -> int:
    """A time in seconds, as ms."""
    return _time(int(value * 1000)) if isinstance(value, int | float) and abs(value) < MAX_TIME else 0


def iso(value: object) -> int:
    try:
        return _time(int(datetime.fromisoformat(text_of(value)).timestamp() * 1000))
    except (ValueError, OverflowError, OSError):
        return 0


def _time(at: int) -> int:
    return at if 0 <= at <= MAX_TIME else 0


def texts(*found: str) -> Iterator[TextPart]:
    return (TextPart(text=text) for text in found if text.strip())


def thoughts(*found: str) -> Iterator[ThinkingPart]:
    return (ThinkingPart(reasoning=text) for text in found if text.strip())


def leaf(nodes: Json, parent: str) -> str | None:
    """The last message that nobody has answered, for a file that does not say which was looked at."""
    parents = {dict_of(node).get(parent) for node in nodes.values() if isinstance(dict_of(node).get(parent), str)}
    return next((name for name in reversed(nodes) if name not in parents), None)


def branch(nodes: Json, last: object, parent: str) -> list[Json]:
    """From the root to the node that was looked at last: of an edited conversation, the version that is shown."""
    path: list[Json] = []
    seen: set[str] = set()
    at = last
    while isinstance(at, str) and at in nodes:
        if at in seen or len(path) >= MAX_NODES:
            raise Unfit("its messages go round in a circle, or there are too many", shorten(at))
        seen.add(at)
        path.append(dict_of(nodes[at]))
        at = path[-1].get(parent)
    return path[::-1]


def as_json(text: str) -> Json:
    """What a tool was given, if that is an object."""
    try:
        found = decode(text.encode())
    except (msgspec.DecodeError, RecursionError):
        found = None
    return found if isinstance(found, dict) else {"text": text}


def data_uri(url: str) -> tuple[str, str] | None:
    """The media type and the base64 of a `data:` URI."""
    head, _, data = url.partition(",")
    if not head.startswith("data:") or not head.endswith(";base64") or not data:
        return None
    try:
        base64.b64decode(data, validate=True)
    except ValueError:
        return None
    return head.removeprefix("data:").removesuffix(";base64"), data
