"""Connection — one peer's side of the conversation, without its socket.

Theory of operation. A 1.x client sends four shapes: `auth`, `subscribe` with its opposite, `__ack` and commands. `receive`
turns each text frame into one typed `Received`; everything else a client might send (forged events and replies, JSON-RPC,
noise) becomes `Dropped` or an answer to that client alone. `source`, `category`, `intent` and `context` of a client's frame
are not read.

Outgoing frames have two forms. Clients before 1.9 know only the bare form; later ones also take the reliable
wrapper and acknowledge it. The first frame is therefore a wrapped probe, and the state table is:

    state       input                 next
    PROBING     ack of the probe      RELIABLE
    *           anything else         (no change)

In PROBING frames go out bare, in RELIABLE wrapped. Nothing is ever sent twice on one socket: TCP already delivers. For a
client that can be recognised when it comes back, `Acks` keep account of its acknowledgements.

A 2.x client speaks JSON-RPC: its first frame is a list, or has a member `jsonrpc`. From then on `rpc` is the state of its
dialect, and frames go out as that says. It ignores the probe.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

from agentvm.errors import AgentVMError, InvalidInput, UnknownCommand, shorten
from agentvm.events import CATALOGUE
from agentvm.model.ids import SessionId
from agentvm.protocol.acks import Acks
from agentvm.protocol.bounds import Scan
from agentvm.protocol.codec import (
    Frame,
    Inbound,
    decode_headers,
    decode_id,
    decode_inbound,
    decode_request_id,
    decode_type,
    is_present,
)
from agentvm.protocol.command_codec import CommandCodec
from agentvm.protocol.dialect_v1 import encode_hello
from agentvm.protocol.requests import Request
from agentvm.protocol.rpc import Rpc, decode_batch, decode_rpc, is_batch
from agentvm.protocol.rpc_peer import RpcPeer

_SUFFIX = "_request"
_REPLY = "_response"
_DELTAS = {b"true": True, b"false": False}
_FRAMES = "a client sends auth, subscribe, unsubscribe, <command>_request, or an __ack"


class ConnectionState(Enum):
    """The form of outgoing frames."""

    PROBING = auto()
    RELIABLE = auto()


@dataclass(slots=True)
class CommandReceived:
    """A well-formed command."""

    request: Request[Any]
    name: str
    request_id: str | None


@dataclass(frozen=True, slots=True)
class CommandRefused:
    """A request that is not a command; `name` is its type."""

    name: str
    request_id: str | None
    error: AgentVMError


@dataclass(frozen=True, slots=True)
class SubscribeReceived:
    """A request for the events of a session, beginning after the cursor `after`. `deltas` is None if it does not say."""

    session_id: SessionId
    after: int | None
    deltas: bool | None = None


@dataclass(frozen=True, slots=True)
class FollowReceived:
    """A request for the events of all sessions of a container, with the deltas or without."""

    container_id: str
    deltas: bool = True


@dataclass(frozen=True, slots=True)
class UnsubscribeReceived:
    """The opposite of a subscription to a session, or to a container: one of them."""

    session_id: SessionId | None = None
    container_id: str | None = None


@dataclass(frozen=True, slots=True)
class AuthReceived:
    """The browser client's credentials, which it cannot put into the upgrade request."""

    headers: dict[str, str]


@dataclass(frozen=True, slots=True)
class Acked:
    """The peer has a wrapped frame."""

    message_id: str


@dataclass(frozen=True, slots=True)
class NoiseReceived:
    """Not a frame of the protocol at all; the sender is told why."""

    error: InvalidInput


@dataclass(frozen=True, slots=True)
class RpcReceived:
    """Requests and notifications of JSON-RPC, as 2.x clients speak it; a frame that is a batch holds several."""

    calls: Sequence[Rpc]


@dataclass(frozen=True, slots=True)
class Dropped:
    """A frame only a server may send, or one that asks for nothing."""


Received = (
    CommandReceived
    | CommandRefused
    | SubscribeReceived
    | FollowReceived
    | UnsubscribeReceived
    | AuthReceived
    | Acked
    | NoiseReceived
    | RpcReceived
    | Dropped
)


class PeerConnection:
    """The protocol state of one peer."""

    __slots__ = ("_acks", "_codec", "_wrapped", "connection_id", "has_spoken", "rpc", "state")

    def __init__(self, connection_id: str, codec: CommandCodec, acks: Acks | None = None) -> None:
        self.connection_id = connection_id
        self.state = ConnectionState.PROBING
        self.has_spoken = False
        """Whether the peer has sent a frame, be it an acknowledgement of the probe."""
        self.rpc: RpcPeer | None = None
        """The state of a peer that speaks JSON-RPC."""
        self._acks = acks
        self._codec = codec
        self._wrapped = 0

    def hello(self, timestamp: int) -> str:
        """Returns the probe, to be sent first."""
        return self._wrap(encode_hello(timestamp))

    def receive(self, text: str | bytes, *, scan: Scan | None = None, refusal: AgentVMError | None = None) -> Received:
        """`scan` is that of the frame, for a large one; with a `refusal` a command is not decoded but refused for it."""
        self.has_spoken = True
        if is_batch(text) and refusal is None and (calls := decode_batch(text)):
            return RpcReceived(calls)
        try:
            frame = decode_inbound(text)
            frame_type = decode_type(frame.type)
        except InvalidInput as error:
            return NoiseReceived(error)
        if (ack := decode_id(frame.ack)) is not None:
            if ack == f"{self.connection_id}_1":
                self.state = ConnectionState.RELIABLE
            if self._acks is not None:
                self._note(self._acks, ack)
            return Acked(ack)
        match frame_type:
            case None:
                return _receive_untyped(frame)
            case "auth":
                return AuthReceived(decode_headers(frame.headers))
            case "subscribe":
                return _receive_subscribe(frame)
            case "unsubscribe":
                return _receive_unsubscribe(frame)
            case kind if kind.endswith(_SUFFIX):
                return self._receive_command(kind.removesuffix(_SUFFIX), frame, scan, refusal)
            case kind if kind in CATALOGUE or kind.endswith(_REPLY) or is_present(frame.category):
                return Dropped()
            case kind:
                return NoiseReceived(InvalidInput(f"There is no frame of type {shorten(kind)!r}; {_FRAMES}"))

    def _receive_command(self, name: str, frame: Inbound, scan: Scan | None, refusal: AgentVMError | None) -> Received:
        request_id = decode_request_id(frame.data)
        if name not in self._codec.commands:
            name = shorten(name)
            return CommandRefused(name, request_id, UnknownCommand(f"Unknown command: {name}_request"))
        if refusal is not None:
            return CommandRefused(name, request_id, refusal)
        try:
            self._codec.check(name, frame.data, scan)
            return CommandReceived(self._codec.decode(name, frame.data), name, request_id)
        except InvalidInput as error:
            return CommandRefused(name, request_id, error)

    def prepare(self, frame: Frame) -> None:
        """Does the most of the work of `send`, for a large frame; may be called in a thread."""
        if self.state is ConnectionState.RELIABLE:
            frame.quote()

    def texts(self, frames: Iterable[Frame]) -> list[str]:
        """Returns the texts that leave for these frames, in order."""
        return list(map(self.send, frames)) if self.rpc is None else self.rpc.texts(frames)

    def send(self, frame: Frame) -> str:
        """Returns the text of a frame for a peer of 1.x."""
        return frame.bare if self.state is ConnectionState.PROBING else self._wrap(frame)

    def _note(self, acks: Acks, message_id: str) -> None:
        """An acknowledgement of a frame that was never sent is ignored."""
        number = message_id.removeprefix(f"{self.connection_id}_")
        if number != message_id and number.isascii() and number.isdigit() and len(number) < 19:
            if 0 < int(number) <= self._wrapped:
                acks.acknowledge(int(number))

    def _wrap(self, frame: Frame) -> str:
        self._wrapped += 1
        if self._acks is not None and frame.session_id is not None and frame.seq:
            self._acks.sent(self._wrapped, frame.session_id, frame.seq)
        return f'{{"__msgId":"{self.connection_id}_{self._wrapped}","__payload":{frame.quoted}}}'


def _receive_untyped(frame: Inbound) -> Received:
    if is_present(frame.ack) or is_present(frame.payload) or is_present(frame.category):
        # An acknowledgement without an id, or a frame that only a server sends.
        return Dropped()
    if not is_present(frame.jsonrpc):
        return NoiseReceived(InvalidInput(f"A frame must have a type; {_FRAMES}"))
    return RpcReceived([decode_rpc(frame)])


def _receive_subscribe(frame: Inbound) -> Received:
    session_id, container_id = decode_id(frame.session_id), decode_id(frame.container_id)
    deltas = _DELTAS.get(bytes(frame.deltas))
    if deltas is None and is_present(frame.deltas):
        return NoiseReceived(InvalidInput("deltas must be true or false"))
    if not session_id:
        return FollowReceived(container_id, deltas is not False) if container_id else Dropped()
    if not is_present(frame.after_cursor):
        return SubscribeReceived(SessionId(session_id), None, deltas)
    cursor = decode_id(frame.after_cursor)
    if cursor is None or not (cursor.isascii() and cursor.isdigit() and len(cursor) < 19):
        return NoiseReceived(InvalidInput("afterCursor must be the `cursor` of an event, a string of digits"))
    return SubscribeReceived(SessionId(session_id), int(cursor), deltas)


def _receive_unsubscribe(frame: Inbound) -> Received:
    session_id, container_id = decode_id(frame.session_id), decode_id(frame.container_id)
    if session_id:
        return UnsubscribeReceived(session_id=SessionId(session_id))
    return UnsubscribeReceived(container_id=container_id) if container_id else Dropped()
