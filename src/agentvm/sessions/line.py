"""Line — a record as a line of an archive, and back, without losing or adding anything.

Data of the server is left out: the container of a session is stored with its image, senders and read marks belong to accounts,
and everything derived from the messages is derived again. Binary parts are blobs beside the lines: `blob` stands for data that
was in the message, `attachment` for a file that it refers to.
"""

import base64
import binascii
import hashlib
import re
from collections.abc import Callable, Collection
from typing import Any, TypeVar

import msgspec

from agentvm.errors import shorten
from agentvm.errors.validation import explain
from agentvm.model.attachment import is_digest, reference_to, referred_digest
from agentvm.model.base import Record
from agentvm.model.ids import MessageId
from agentvm.model.image import Image
from agentvm.model.message import FilePart, ImagePart, Message, parts_of
from agentvm.model.session import Session
from agentvm.model.session_file import FileChange, FileDelta, file_path
from agentvm.model.turn import Turn
from agentvm.sessions.bounds import count_values

_OF_SESSION = ("containerId", "deletedAt", "lastMessageAt", "preview")
_OF_TURN = ("containerId", "imageId", "sessionId", "userId", "keyId")
_ID = re.compile(r"[A-Za-z0-9_.:@+-]{1,200}")
TIME_MAX = 253_402_300_799_999
"""The last millisecond of the year 9999."""

Json = dict[str, Any]
F = TypeVar("F", bound="FileLine")
_encode = msgspec.json.Encoder().encode


class Unfit(ValueError):
    """Raised for an invalid line; `member` is the invalid field."""

    def __init__(self, why: str, member: str | None = None) -> None:
        super().__init__(why)
        self.member = member


def of_image(image: Image) -> bytes:
    return _encode({"type": "image", "image": msgspec.to_builtins(image)}) + b"\n"


def of_session(session: Session) -> bytes:
    return line_of("session", session, _OF_SESSION)


def of_turn(turn: Turn) -> bytes:
    return line_of("turn", turn, _OF_TURN)


def line_of(kind: str, record: Record, without: tuple[str, ...]) -> bytes:
    """Returns a record as a line, but for some members."""
    fields = {name: value for name, value in msgspec.to_builtins(record).items() if name not in without}
    return _encode({"type": kind, kind: fields}) + b"\n"


def of_message(message: Message, attachments: Collection[str] = ()) -> tuple[bytes, list[str]]:
    """The line, and the digests of its parts that become blobs, in order.

    `attachments` are those that come along; a reference to any other stays the reference that it is.
    """
    fields = msgspec.to_builtins(message)
    digests: list[str] = []
    parts = parts_of(message)
    for part, shown in zip(parts, _lines_of(fields), strict=True) if parts else ():
        if not isinstance(part, ImagePart | FilePart):
            continue
        if (digest := referred_digest(part.data)) in attachments and digest is not None:
            del shown["data"]
            shown["attachment"] = digest
        elif (body := blob_of(part.data)) is not None:
            digests.append(digest_of(body))
            del shown["data"]
            shown["blob"] = digests[-1]
    return _encode({"type": "message", "message": fields}) + b"\n", digests


class FileLine(Record):
    """A change of a file of the session, in order. Without `blob` the file was deleted."""

    path: str
    blob: str | None = None
    size: int = 0
    executable: bool = False
    tainted: bool = False
    at: int
    after: MessageId | None = None
    """The message of the change; None for one before the first message."""


def of_file(delta: FileDelta) -> bytes:
    return b"".join(
        _encode({"type": "file", "file": FileLine(blob=change.digest, after=delta.message_id, at=delta.at, **_named(change))})
        + b"\n"
        for change in delta.changes
    )


def _named(change: FileChange) -> Json:
    return {"path": change.path, "size": change.size, "executable": change.executable, "tainted": change.tainted}


def to_file(data: Json) -> FileLine:
    file: FileLine = exactly(data, FileLine)
    return check_file(file)


def check_file(file: F) -> F:
    check_values(file.at, *(() if file.after is None else (file.after,)))
    if file_path(file.path) != file.path:
        raise Unfit("the path is not in canonical form", "file.path")
    if file.size < 0 or (file.blob is not None and not is_digest(file.blob)):
        raise Unfit("a file has a digest and a size", "file.blob")
    return file


def blobs_of(message: Message) -> dict[str, bytes]:
    parts = (part for part in parts_of(message) if isinstance(part, ImagePart | FilePart))
    return {digest_of(body): body for part in parts if (body := blob_of(part.data)) is not None}


def _lines_of(data: Json) -> Any:
    """Returns the parts of a message with parts: written by its sender, or of a tool's result."""
    return data["content"] if "content" in data else data["toolResult"]["output"]["value"]


def blob_of(data: str) -> bytes | None:
    """The bytes of base64 that comes out the same again; None for anything else, such as a URL."""
    try:
        body = base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        return None
    return body if body and base64.b64encode(body).decode() == data else None


def digest_of(body: bytes) -> str:
    return f"sha256:{hashlib.sha256(body).hexdigest()}"


def read_line(body: bytes) -> tuple[str, Json]:
    """Returns the kind of record, and its fields."""
    count_values(body)
    try:
        raw = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Unfit(f"it is not valid JSON: {shorten(str(error))}") from None
    if not isinstance(raw, dict) or len(raw) != 2 or not isinstance(kind := raw.get("type"), str):
        raise Unfit("it must be an object with `type` and the object that it names")
    if not isinstance(fields := raw.get(kind), dict):
        raise Unfit(f"the object `{shorten(kind)}` is missing", shorten(kind))
    return kind, fields


def to_image(data: Json) -> Image:
    return check_image(exactly(data, Image))


def to_session(data: Json, container_id: str) -> Session:
    for member in _OF_SESSION:
        refuse(data, member)
    return check_session(exactly({**data, "containerId": container_id}, Session))


def to_turn(data: Json, session: Session) -> Turn:
    for member in _OF_TURN:
        refuse(data, member)
    about = {"containerId": session.container_id, "imageId": session.image_id, "sessionId": session.session_id}
    return check_turn(exactly({**data, **about}, Turn))


def to_message(body: Json, blob: Callable[[str], bytes], attach: "Attach | None" = None) -> Message:
    """`attach` sees to it that an attachment comes along; without it a line has none."""
    match body:
        case {"subtype": "user", "content": [*parts]}:
            body = {**body, "content": [_with_data(part, blob, attach) for part in parts]}
        case {"subtype": "tool-result", "toolResult": {"output": {"type": "content", "value": [*parts]} as output} as result}:
            filled = {**output, "value": [_with_data(part, blob, attach) for part in parts]}
            body = {**body, "toolResult": {**result, "output": filled}}
        case _:
            pass
    return check_message(exactly(body, Message))


Attach = Callable[[str, object, object], None]
"""Called with the digest, and the media type and the name in its part."""


def _with_data(part: object, blob: Callable[[str], bytes], attach: Attach | None) -> object:
    if not isinstance(part, dict) or not part.keys() & {"blob", "attachment"}:
        return part
    member = "attachment" if "attachment" in part else "blob"
    digest = part[member]
    if "data" in part or not isinstance(digest, str) or part.get("type") not in ("image", "file"):
        raise Unfit(f"{member} stands for the data of an image or a file", "message.content")
    if member == "blob":
        data = base64.b64encode(blob(digest)).decode()
    elif attach is None:
        raise Unfit("attachments need format 2", "message.content")
    else:
        attach(digest, part.get("mediaType"), part.get("name" if part["type"] == "image" else "filename"))
        data = reference_to(digest)
    # In the place where data stands, so that it is the same record.
    return {"type": part["type"], "data": data, **{name: value for name, value in part.items() if name not in ("type", member)}}


def refuse(data: Json, member: str) -> None:
    """`Unfit` for a member that an archive never has."""
    if member in data:
        raise Unfit(f"`{member}` does not belong in an archive", member)


def exactly(first: Json, kind: Any) -> Any:
    """Returns the record of a line; unknown members are refused, because they would be lost."""
    try:
        record = msgspec.convert(first, type=kind)
        # What cannot be written again cannot be stored either: half of a surrogate pair.
        again = msgspec.json.decode(_encode(record))
    except msgspec.ValidationError as error:
        raise Unfit(explain(error, kind)) from None
    except (RecursionError, UnicodeError, ValueError, OverflowError) as error:
        raise Unfit(f"it cannot be stored: {shorten(str(error))}") from None
    if again != first:
        # A text that is the default is left out or not, depending on where it comes from.
        usual = {field.encode_name: field.default for field in msgspec.structs.fields(record) if isinstance(field.default, str)}
        first, again = {**usual, **first}, {**usual, **again}
    if again != first:
        odd = sorted(str(name) for name in first.keys() | again.keys() if first.get(name, ...) != again.get(name, ...))
        raise Unfit(f"{shorten(', '.join(odd))}: a field is unknown, or not in canonical form", odd[0])
    return record


def check_image(image: Image) -> Image:
    check_values(image.image_id, image.session_id, image.created_at, image.updated_at)
    return image


def check_session(session: Session) -> Session:
    check_values(session.session_id, session.image_id, session.created_at, session.updated_at)
    check_values(session.pinned_at or 0, session.archived_at or 0)
    if session.forked_from is not None:
        check_values(session.forked_from.session_id, session.forked_from.message_id)
    if (parent := session.parent) is not None:
        check_values(parent.session_id, parent.turn_id, parent.root_session, parent.root_turn)
    return session


def check_turn(turn: Turn) -> Turn:
    check_values(turn.turn_id, turn.message_id, turn.accepted_at, turn.ended_at or 0)
    if turn.outcome is None or turn.ended_at is None:
        raise Unfit("a turn must have ended", "turn.outcome")
    if not 0 <= turn.attempts < 1_000:
        raise Unfit("attempts must be 0 to 999", "turn.attempts")
    return turn


def check_message(message: Message) -> Message:
    check_values(message.id, message.timestamp, *(() if message.turn_id is None else (message.turn_id,)))
    return message


def check_values(*values: str | int) -> None:
    """Ids that can be named in URLs and logs; times that are times."""
    for value in values:
        if isinstance(value, str):
            if not _ID.fullmatch(value):
                raise Unfit(f"{shorten(value)!r} is not a valid id: up to 200 letters, digits and _.:@+-")
        elif not 0 <= value <= TIME_MAX:
            raise Unfit(f"{value} is not a valid time in milliseconds")
