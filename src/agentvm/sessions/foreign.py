"""Foreign — conversations of other programs, in the one shape that ours are made from.

Each becomes an image with one session. Missing data, such as the usage of a turn, is left empty.
"""

import base64
import hashlib
import os
import re
import zipfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import IO, Any, BinaryIO, Literal

import msgspec

from agentvm.errors import shorten
from agentvm.errors.archive import ArchiveTooLarge
from agentvm.model.definition import Definition, snapshot_of
from agentvm.model.ids import ContainerId, ImageId, MessageId, SessionId
from agentvm.model.image import Image, ImageConfig
from agentvm.model.message import (
    AssistantMessage,
    AssistantPart,
    ErrorTextOutput,
    Message,
    TextOutput,
    TextPart,
    ThinkingPart,
    ToolCall,
    ToolCallMessage,
    ToolResult,
    ToolResultMessage,
    UserMessage,
    UserPart,
)
from agentvm.model.session import Session
from agentvm.sessions.archive import unpacked_max
from agentvm.sessions.bounds import MAX_SESSIONS, count_values
from agentvm.sessions.json_items import items
from agentvm.sessions.line import TIME_MAX, Unfit
from agentvm.sessions.reading import CONVERSATIONS, UNPACKING, invalid
from agentvm.sessions.spool import Spool

MAX_NODES = 200_000
"""Maximum of messages in one conversation."""
DEFINITION = Definition(name="imported")
_SNAPSHOT = snapshot_of(DEFINITION)[0]
_UNNAMED = MessageId("")
UNKNOWN = (
    "The format of this file is unknown. Archives of AgentVM and exports of ChatGPT, Claude and Open WebUI can be imported; "
    "set `from` if it is one of these"
)

Program = Literal["chatgpt", "claude", "openwebui"]
_MEMBERS: Mapping[str, Program] = {"mapping": "chatgpt", "chat_messages": "claude", "chat": "openwebui"}
"""The field of a conversation that identifies its program."""

Json = dict[str, Any]

# Two escapes that make a pair, or any other one: so that what stands behind an escaped backslash is not taken for an escape.
_ESCAPES = re.compile(rb"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\(?:u[0-9a-fA-F]{4}|.)")
_HALF = re.compile(rb"\\u[dD][89a-fA-F][0-9a-fA-F]{2}")
# Providers take no other names of tools, also not of those that were called long ago.
_NAMES = re.compile(r"[^a-zA-Z0-9_-]+")
_TOOL_NAME_MAX = 64


@dataclass(slots=True)
class Conversation:
    """A conversation of another program. Times are in ms; 0 where they are unknown.

    The id of a message is derived from the conversation up to and including it. So a conversation that has grown since has the
    same ids and some more, and one that was edited has others from there on.
    """

    title: str
    created_at: int
    updated_at: int
    source_id: str = ""
    """The id in the other program; empty if it has none."""
    messages: list[Message] = field(default_factory=list)
    _calls: list[ToolCall] = field(default_factory=list)

    def user(self, parts: Iterable[UserPart], at: int) -> None:
        body = tuple(parts)
        if not body:
            return
        only = body[0] if len(body) == 1 else None
        content = only.text if isinstance(only, TextPart) else body
        self._add(UserMessage(id=_UNNAMED, timestamp=self._at(at), role="user", content=content))

    def assistant(self, parts: Iterable[AssistantPart], at: int) -> None:
        if content := tuple(parts):
            self._add(AssistantMessage(id=_UNNAMED, timestamp=self._at(at), role="assistant", content=content))

    def call(self, name: str, arguments: Json, at: int) -> None:
        if not self.messages or not isinstance(self.messages[-1], AssistantMessage):
            self._add(AssistantMessage(id=_UNNAMED, timestamp=self._at(at), role="assistant", content=()))
        parent = self.messages[-1].id
        called = _NAMES.sub("_", name)[:_TOOL_NAME_MAX] or "tool"
        call = ToolCall(id=f"call_{len(self.messages)}", name=called, input=arguments)
        self._calls.append(call)
        self._add(ToolCallMessage(id=_UNNAMED, timestamp=self._at(at), role="assistant", tool_call=call, parent_id=parent))

    def result(self, text: str, at: int, *, failed: bool = False) -> None:
        """Adds the result of the first call without one; a result without a call is left out."""
        if not self._calls:
            return
        call = self._calls.pop(0)
        output = ErrorTextOutput(value=text) if failed else TextOutput(value=text)
        result = ToolResult(id=call.id, name=call.name, output=output)
        self._add(ToolResultMessage(id=_UNNAMED, timestamp=self._at(at), role="tool", tool_call_id=call.id, tool_result=result))

    def _add(self, message: Message) -> None:
        before = self.messages[-1].id if self.messages else ""
        body = msgspec.json.encode(msgspec.structs.replace(message, timestamp=0))
        self.messages.append(msgspec.structs.replace(message, id=MessageId(f"msg_{digest(before.encode(), body)}")))

    def _at(self, at: int) -> int:
        return at or self.created_at


Parse = Callable[[object], Iterator[Conversation]]


@dataclass(slots=True)
class ForeignText:
    """The JSON of another program's export, which can be read again and again; `most_bytes` are as many as it may have."""

    _open: Callable[[], IO[bytes]]
    _most_bytes: int

    def conversations(self) -> Iterator[bytes]:
        """Yields each conversation as text, in order; `ArchiveInvalid` for invalid JSON."""
        left = self._most_bytes
        source = self._open()

        def read(size: int) -> bytes:
            nonlocal left
            block = source.read(size)
            left -= len(block)
            if left < 0:
                raise ArchiveTooLarge(
                    f"it has more than {self._most_bytes:,} bytes, which is more than an import may have "
                    "(limits.importBytes), or more than a file of its size; import it in several files"
                )
            return block

        try:
            yield from items(read)
        except Unfit as error:
            raise invalid(f"It is not valid JSON: {error}", CONVERSATIONS) from None
        except ArchiveTooLarge as error:
            raise ArchiveTooLarge(f"{CONVERSATIONS}: {error}", details={"file": CONVERSATIONS}) from None
        except UNPACKING as error:
            raise invalid(f"The ZIP is damaged: {shorten(str(error))}") from None


@contextmanager
def open_foreign(file: BinaryIO, most_bytes: int) -> Iterator[ForeignText]:
    """Opens the file, or the one in the ZIP of such an export."""
    size = file.seek(0, os.SEEK_END)
    file.seek(0)
    if file.read(4) != b"PK\x03\x04":

        def again() -> IO[bytes]:
            file.seek(0)
            return file

        yield ForeignText(again, most_bytes)
        return
    try:
        archive = zipfile.ZipFile(file)
    except UNPACKING as error:
        raise invalid(f"The ZIP is damaged: {shorten(str(error))}") from None
    with archive:
        if CONVERSATIONS not in archive.namelist():
            raise invalid(f"There is no {CONVERSATIONS} in the ZIP")
        yield ForeignText(lambda: archive.open(CONVERSATIONS), unpacked_max(size, most_bytes))


def recognise(text: ForeignText) -> Program:
    """Returns the program that wrote the file, by its first conversation."""
    for body in text.conversations():
        first = _decoded(body, 1)
        shape = first if isinstance(first, dict) else {}
        programs = (program for member, program in _MEMBERS.items() if member in shape)
        if (match := next(programs, None)) is not None:
            return match
        raise invalid(UNKNOWN, CONVERSATIONS)
    raise invalid("It has no conversations", CONVERSATIONS)


def read_foreign(text: ForeignText, program: Program, parse: Parse, spool: Spool, container_id: ContainerId) -> None:
    """Puts the conversations on the spool; `ArchiveInvalid` says which of them does not fit."""
    seen: Counter[str] = Counter()
    for number, body in enumerate(text.conversations(), 1):
        if number > MAX_SESSIONS:
            raise ArchiveTooLarge(f"There are more than {MAX_SESSIONS:,} conversations; import them in several files")
        raw = _decoded(body, number)
        try:
            # In a list: what is a list itself is no conversation.
            for conversation in parse([raw]):
                _put(conversation, spool, container_id, program, seen)
        except Unfit as error:
            raise invalid(f"Conversation {number}: {error}", CONVERSATIONS, member=error.member) from None
        except (UnicodeError, RecursionError) as error:
            raise invalid(f"Conversation {number} cannot be stored: {error}", CONVERSATIONS) from None


def _decoded(body: bytes, number: int) -> object:
    try:
        return decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        why = f"Conversation {number} is not valid JSON: {shorten(str(error))}"
        raise invalid(why, CONVERSATIONS) from None


def digest(*parts: bytes) -> str:
    """The same for the same parts; enough of it that no two are alike by chance."""
    hasher = hashlib.sha256()
    for part in parts:
        hasher.update(len(part).to_bytes(8, "big") + part)
    return hasher.hexdigest()[:24]


def _identity(conversation: Conversation, program: Program, seen: Counter[str]) -> str:
    """Returns an id of the conversation that stays when it grows, so that it is recognised when it is imported again."""
    first = conversation.messages[0].id if conversation.messages else ""
    named = conversation.source_id or f"{conversation.created_at} {first}"
    seen[named] += 1
    return digest(program.encode(), named.encode(), str(seen[named]).encode())


def _put(conversation: Conversation, spool: Spool, container_id: ContainerId, program: Program, seen: Counter[str]) -> None:
    identity = _identity(conversation, program, seen)
    image_id, session_id = ImageId(f"img_{identity}"), SessionId(f"sess_{identity}")
    name = shorten(" ".join(conversation.title.split())) or "Imported"
    created, updated = conversation.created_at, max(conversation.created_at, conversation.updated_at)
    spool.add_image(
        Image(
            image_id=image_id,
            container_id=container_id,
            session_id=session_id,
            name=name,
            definition_name=DEFINITION.name,
            digest=_SNAPSHOT,
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


# What others wrote is looked at member by member: a member that is not what it should be is as good as absent.


def conversations(raw: object) -> Iterator[Json]:
    """The list, or the one that is not in a list."""
    items = raw if isinstance(raw, list) else [raw]
    for item in items:
        if not isinstance(item, dict):
            raise Unfit("it must be an object")
        yield item


def decode(body: bytes) -> Any:
    """JSON of others. They cut characters in half; half of a surrogate pair, which cannot be stored, becomes a mark."""
    try:
        return msgspec.json.decode(body)
    except msgspec.DecodeError:
        whole = _ESCAPES.sub(lambda match: b"\\ufffd" if _HALF.fullmatch(match[0]) else match[0], body)
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
    return _time(int(value * 1000)) if isinstance(value, int | float) and abs(value) < TIME_MAX else 0


def iso(value: object) -> int:
    try:
        return _time(int(datetime.fromisoformat(text_of(value)).timestamp() * 1000))
    except (ValueError, OverflowError, OSError):
        return 0


def _time(at: int) -> int:
    return at if 0 <= at <= TIME_MAX else 0


def texts(*pieces: str) -> Iterator[TextPart]:
    return (TextPart(text=text) for text in pieces if text.strip())


def thoughts(*pieces: str) -> Iterator[ThinkingPart]:
    return (ThinkingPart(reasoning=text) for text in pieces if text.strip())


def leaf(nodes: Json, parent: str) -> str | None:
    """The last unanswered message, for a file that does not name the current one."""
    parents = {dict_of(node).get(parent) for node in nodes.values() if isinstance(dict_of(node).get(parent), str)}
    return next((name for name in reversed(nodes) if name not in parents), None)


def branch(nodes: Json, last: object, parent: str) -> list[Json]:
    """From the root to the node that was looked at last: of an edited conversation, the version that is shown."""
    path: list[Json] = []
    seen: set[str] = set()
    at = last
    while isinstance(at, str) and at in nodes:
        if at in seen or len(path) >= MAX_NODES:
            raise Unfit("its messages form a cycle, or there are too many", shorten(at))
        seen.add(at)
        path.append(dict_of(nodes[at]))
        at = path[-1].get(parent)
    return path[::-1]


def as_json(text: str) -> Json:
    """Returns the input of a tool, if it is a JSON object."""
    try:
        body = text.encode()
        count_values(body)
        value = decode(body)
    except (msgspec.DecodeError, RecursionError, ArchiveTooLarge):
        value = None
    return value if isinstance(value, dict) else {"text": text}


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
