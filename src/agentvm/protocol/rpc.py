"""RPC — the frames of JSON-RPC 2.0, in which AgentX 2.x clients speak: read strictly, written as their parser reads them.

Their parser takes a response only if it has the id of the request and, for an error, an integer code and a text.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from agentvm.errors import InvalidInput
from agentvm.protocol.codec import ID_MAX, Frame, Inbound, decode_id, decode_inbound, encode, is_present

PARSE_ERROR_CODE: Final = -32700
INVALID_REQUEST_CODE: Final = -32600
METHOD_NOT_FOUND_CODE: Final = -32601
INVALID_PARAMS_CODE: Final = -32602
SERVER_ERROR_CODE: Final = -32000

BATCH_MAX: Final = 64
"""Requests of one batch."""

RpcId = str | int
_INTEGER_MAX: Final = 2**53
_id: Final[msgspec.json.Decoder[str | int]] = msgspec.json.Decoder(str | int)
_list: Final = msgspec.json.Decoder(list[msgspec.Raw])


class RpcProblem(msgspec.Struct, frozen=True, omit_defaults=True):
    """The error of a response. `data` holds the stable code of the error tree."""

    code: int
    message: str
    data: dict[str, object] | None = None


class _Result(msgspec.Struct, frozen=True):
    id: RpcId
    result: object
    jsonrpc: str = "2.0"


class _Refusal(msgspec.Struct, frozen=True, omit_defaults=True):
    id: RpcId | None
    error: RpcProblem
    jsonrpc: str = msgspec.field(default_factory=lambda: "2.0")


@dataclass(frozen=True, slots=True)
class RpcCall:
    """A request, or, without an id, a notification. `params` is its object; empty if there is none."""

    method: str
    params: msgspec.Raw
    id: RpcId | None = None


@dataclass(frozen=True, slots=True)
class RpcInvalid:
    """A frame of JSON-RPC that is no request. It is answered with the id that it has, if that can be read."""

    problem: RpcProblem
    id: RpcId | None = None


@dataclass(frozen=True, slots=True)
class RpcIgnored:
    """A response to a request that the server has not made. Not answered: two servers could answer each other for ever."""


Rpc = RpcCall | RpcInvalid | RpcIgnored


def encode_result(request_id: RpcId, result: object) -> Frame:
    return Frame(encode(_Result(request_id, result)))


def encode_problem(request_id: RpcId | None, problem: RpcProblem) -> Frame:
    return Frame(encode(_Refusal(request_id, problem)))


def is_batch(text: str | bytes) -> bool:
    head = text[:64].lstrip()
    return head[:1] in ("[", b"[")


def decode_batch(text: str | bytes) -> Sequence[Rpc]:
    """Returns the requests of a batch, each to be answered in its own frame; nothing for an empty batch or invalid JSON."""
    try:
        frames = _list.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return []
    if len(frames) > BATCH_MAX:
        return [RpcInvalid(RpcProblem(INVALID_REQUEST_CODE, f"A batch has at most {BATCH_MAX} requests"))]
    return [_decode_element(bytes(frame)) for frame in frames]


def _decode_element(text: bytes) -> Rpc:
    try:
        return decode_rpc(decode_inbound(text))
    except InvalidInput as error:
        return RpcInvalid(RpcProblem(INVALID_REQUEST_CODE, str(error)))


def decode_rpc(frame: Inbound) -> Rpc:
    """Reads a frame that has a member `jsonrpc`."""
    has_id = len(frame.id) > 0
    request_id = _read_id(frame.id) if has_id else None
    if not is_present(frame.method):
        return RpcIgnored() if has_id else RpcInvalid(RpcProblem(INVALID_REQUEST_CODE, "A request has a method"))
    method = decode_id(frame.method)
    if not method:
        return RpcInvalid(RpcProblem(INVALID_REQUEST_CODE, "method is a text that is not empty"), request_id)
    if has_id and request_id is None:
        return RpcInvalid(RpcProblem(INVALID_REQUEST_CODE, "id is a text that is not empty, or an integer below 2^53"))
    params = frame.params if is_present(frame.params) else msgspec.Raw(b"{}")
    if bytes(memoryview(params)[:1]) != b"{":
        return RpcInvalid(RpcProblem(INVALID_PARAMS_CODE, "params is an object"), request_id)
    return RpcCall(method, params, request_id)


def _read_id(raw: msgspec.Raw) -> RpcId | None:
    if len(raw) > ID_MAX:
        return None
    try:
        request_id = _id.decode(raw)
    except (msgspec.DecodeError, UnicodeError):
        return None
    if request_id == "" or (isinstance(request_id, int) and abs(request_id) > _INTEGER_MAX):
        return None
    return request_id
