"""Codec — frames: JSON text to typed values and back, strictly. The data of requests is decoded by `command_codec`."""

import re
from typing import TypeVar

import msgspec

from agentvm.errors import InvalidInput
from agentvm.errors.bounds import InputTooLarge
from agentvm.errors.validation import explain
from agentvm.model.base import Record
from agentvm.model.ids import SessionId
from agentvm.protocol.bounds import Bound
from agentvm.protocol.link import WireEvent
from agentvm.protocol.requests import Reply

R = TypeVar("R", bound=Reply)

_encoder = msgspec.json.Encoder()

FRAME_MAX_BYTES = 48 * 1024 * 1024
"""The largest frame that a server takes: the largest command, with its envelope."""

FRAME_VALUES_MAX = 201_000
FRAME_DEPTH_MAX = 513
FRAME_BOUND = Bound(max_bytes=FRAME_MAX_BYTES, max_values=FRAME_VALUES_MAX, max_depth=FRAME_DEPTH_MAX)
"""Larger than the bound of every command, so that no command is refused for it."""

CLIENT_FRAME_MAX_BYTES = 128 * 1024 * 1024
"""The largest frame that a client takes: a server's frame may be escaped twice."""

ID_MAX = 200
"""Characters of an id that a frame names."""

REQUEST_ID_MAX = 50_000
"""Characters of a request's id, which is sent back twice; a longer one is none."""

HEADERS_MAX_BYTES = 16_384
"""Bytes of the headers in an `auth` frame; it has one that matters."""

QUOTE_PIECE_MAX = 256 * 1024
"""Characters."""

_ESCAPE_MAX_BYTES = 6
_TYPE_END_BYTES = len("_response")
_NOTHING = msgspec.Raw(b"null")
_ABSENT = msgspec.Raw(b"")

MENDED_MAX = 32 * 1024
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")

# One escape sequence at a time, so that an escaped backslash before a `u` is not mistaken for one.
_ESCAPE = re.compile(
    r"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(?P<lone>u[dD][89a-fA-F][0-9a-fA-F]{2})|.)", re.DOTALL
)


class Inbound(Record):
    """The fields of a client's frame that have a meaning; all others are ignored.

    The type decides which of them are used, so the others may hold any value; and no object is built before its text is known
    to be small: a list of empty lists takes thirty times the memory of its text.
    """

    type: msgspec.Raw = _NOTHING
    data: msgspec.Raw = _NOTHING
    session_id: msgspec.Raw = _NOTHING
    container_id: msgspec.Raw = _NOTHING
    after_cursor: msgspec.Raw = _NOTHING
    deltas: msgspec.Raw = _NOTHING
    headers: msgspec.Raw = _NOTHING
    ack: msgspec.Raw = msgspec.field(default=_NOTHING, name="__ack")
    payload: msgspec.Raw = msgspec.field(default=_NOTHING, name="__payload")
    category: msgspec.Raw = _NOTHING
    jsonrpc: msgspec.Raw = _NOTHING
    method: msgspec.Raw = _NOTHING
    params: msgspec.Raw = _NOTHING
    id: msgspec.Raw = _ABSENT
    """The id of a request of JSON-RPC, where null differs from a missing id."""


class _WithRequestId(Record):
    request_id: str | None = None


_inbound = msgspec.json.Decoder(Inbound)
_event = msgspec.json.Decoder(WireEvent)
_request_id = msgspec.json.Decoder(_WithRequestId)
_text = msgspec.json.Decoder(str)
_type: msgspec.json.Decoder[str | None] = msgspec.json.Decoder(str | None)
_members = msgspec.json.Decoder(dict[str, msgspec.Raw])


def decode_inbound(text: str | bytes) -> Inbound:
    """Splits a frame into raw fields; the caller decodes each, after bounding it."""
    try:
        return _inbound.decode(text)
    except msgspec.ValidationError as error:
        raise InvalidInput(f"Invalid frame: {explain(error, Inbound)}") from None
    except msgspec.DecodeError as error:
        # JavaScript sends half of a surrogate pair when a text was cut within an emoji; no text of ours may hold one. Only for
        # frames a person may have typed: the search holds up the loop.
        if len(text) <= MENDED_MAX:
            frame = text if isinstance(text, str) else text.decode(errors="replace")
            mended = _ESCAPE.sub(_mend, frame) if _SURROGATE.search(frame) else frame
            if mended != frame:
                return decode_inbound(mended)
        raise InvalidInput(f"Frame is not valid JSON: {error}") from None
    except UnicodeError as error:
        raise InvalidInput(f"Frame is not valid Unicode: {error.reason}") from None  # type: ignore[attr-defined]  # of both
    except RecursionError:
        raise InvalidInput("Frame is nested too deeply") from None


def _mend(escape: re.Match[str]) -> str:
    return r"\ufffd" if escape["lone"] else escape[0]


def is_present(member: msgspec.Raw) -> bool:
    return len(member) != len(_NOTHING) or bytes(member) != bytes(_NOTHING)


def decode_id(member: msgspec.Raw) -> str | None:
    """Returns the text of a field; None when it is not a string, or too long for an id."""
    if len(member) > ID_MAX * _ESCAPE_MAX_BYTES + len('""'):
        return None
    try:
        text = _text.decode(member)
    except (msgspec.DecodeError, UnicodeError):
        return None
    return text if len(text) <= ID_MAX else None


def decode_type(member: msgspec.Raw) -> str | None:
    """Returns the type of a frame; of one that is too long, the beginning and the end. `InvalidInput` when it is not a
    string."""
    try:
        if len(member) <= ID_MAX * _ESCAPE_MAX_BYTES + len('""') or bytes(memoryview(member)[:1]) != b'"':
            return _type.decode(member)
        # No object is built of the rest: it may have as many bytes as a frame.
        head, tail = bytes(memoryview(member)[1 : 1 + ID_MAX]), bytes(memoryview(member)[-1 - _TYPE_END_BYTES : -1])
        return f"{head.decode(errors='ignore')}…{tail.decode(errors='ignore')}"
    except msgspec.ValidationError:
        raise InvalidInput("Invalid frame: type must be a string or null") from None
    except msgspec.DecodeError as error:
        raise InvalidInput(f"Frame is not valid JSON: {error}") from None
    except UnicodeError as error:
        raise InvalidInput(f"Frame is not valid Unicode: {error.reason}") from None  # type: ignore[attr-defined]  # of decoding


def decode_headers(member: msgspec.Raw) -> dict[str, str]:
    """Returns the headers with string values; none when there are too many."""
    if len(member) > HEADERS_MAX_BYTES:
        return {}
    headers: dict[str, str] = {}
    try:
        for name, value in _members.decode(member).items():
            if bytes(value).startswith(b'"'):
                headers[name] = _text.decode(value)
    except (msgspec.DecodeError, UnicodeError):
        return {}
    return headers


def decode_request_id(data: msgspec.Raw) -> str | None:
    """Returns the request id even when the rest of the data is invalid, so that the refusal reaches the sender."""
    try:
        request_id = _request_id.decode(data).request_id
    except (msgspec.DecodeError, UnicodeError):
        return None
    return request_id if request_id is None or len(request_id) <= REQUEST_ID_MAX else None


def decode_event(text: str) -> WireEvent:
    """Decodes a frame of the server."""
    try:
        return _event.decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError) as error:
        raise InvalidInput(f"The server sent a frame that is not an event: {error}") from None


def decode_reply(kind: type[R], data: dict[str, object]) -> R:
    try:
        return msgspec.convert(data, kind)
    except msgspec.ValidationError as error:
        raise InvalidInput(f"The server sent a reply that is not a {kind.__name__}: {explain(error, kind)}") from None


def encode_request(kind: str, frame: object) -> str:
    """Raises `InvalidInput` for values that are not JSON, and `InputTooLarge` for a frame that no server takes."""
    try:
        text = encode(frame)
    except (TypeError, UnicodeEncodeError) as error:
        raise InvalidInput(f"Invalid {kind}: {error}") from None
    # Checked here: a server closes the connection on such a frame.
    if len(text) > FRAME_MAX_BYTES:
        raise InputTooLarge(f"{kind} is too large: a frame has at most {FRAME_MAX_BYTES:,} bytes; upload files as attachments")
    return text


def encode(value: object) -> str:
    """Strict JSON: no NaN, no lone surrogates."""
    return _encoder.encode(value).decode()


class Frame:
    """One outgoing event or reply: encoded once for all peers of a dialect; in AgentX 1.x it has two forms.

    An event of a session also carries its session and number, for the account of acknowledgements.
    """

    __slots__ = ("_quoted", "bare", "seq", "session_id")

    def __init__(self, bare: str, session_id: SessionId | None = None, seq: int = 0) -> None:
        self.bare = bare
        self.session_id = session_id
        self.seq = seq
        self._quoted: str | None = None

    @property
    def quoted(self) -> str:
        """The frame as a JSON string literal, for the reliable wrapper."""
        if self._quoted is None:
            self._quoted = encode(self.bare)
        return self._quoted

    def quote(self) -> None:
        """Makes `quoted` in pieces: in a thread, others can run in between."""
        if self._quoted is None:
            pieces = (self.bare[begin : begin + QUOTE_PIECE_MAX] for begin in range(0, len(self.bare), QUOTE_PIECE_MAX))
            self._quoted = f'"{"".join(encode(piece)[1:-1] for piece in pieces)}"'
