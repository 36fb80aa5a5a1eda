"""RPC — the answer of an AgentX 1.x server to a client that speaks JSON-RPC: an error it can read, not silence."""

import msgspec

from agentvm.protocol.codec import ID_MAX, Frame, encode

METHOD_NOT_FOUND_CODE = -32601
SPOKEN = (
    "This server speaks AgentX 1.x, whose requests look like "
    '{"type":"container_list_request","data":{"requestId":"1"}}; JSON-RPC (AgentX 2.x) is not supported yet'
)


class _Problem(msgspec.Struct, frozen=True):
    code: int
    message: str


class _RpcRefusal(msgspec.Struct, frozen=True):
    id: str | int | float | None
    error: _Problem
    jsonrpc: str = "2.0"


_id: msgspec.json.Decoder[str | int | float | None] = msgspec.json.Decoder(str | int | float | None)


def refuse_rpc(request_id: msgspec.Raw) -> Frame:
    """Returns the answer to a request; a notification, which has no id, is answered without one."""
    return Frame(encode(_RpcRefusal(id=_read_id(request_id), error=_Problem(METHOD_NOT_FOUND_CODE, SPOKEN))))


def _read_id(request_id: msgspec.Raw) -> str | int | float | None:
    if len(request_id) > ID_MAX:
        return None
    try:
        return _id.decode(request_id)
    except msgspec.DecodeError:
        return None
