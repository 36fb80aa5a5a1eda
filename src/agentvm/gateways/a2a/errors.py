"""A2A errors — JSON-RPC errors with the codes of A2A: of one call with its id, of the whole request as a status."""

from enum import IntEnum
from typing import Any, Final

import msgspec

from agentvm.gateways.routes import GatewayProblem, ShapedProblem


class A2aCode(IntEnum):
    """Codes of JSON-RPC and of A2A. The names are the reasons that clients are told."""

    PARSE_ERROR = -32700
    INVALID_REQUEST = -32600
    METHOD_NOT_FOUND = -32601
    INVALID_PARAMS = -32602
    INTERNAL_ERROR = -32603
    TASK_NOT_FOUND = -32001
    TASK_NOT_CANCELABLE = -32002
    PUSH_NOTIFICATION_NOT_SUPPORTED = -32003
    UNSUPPORTED_OPERATION = -32004
    CONTENT_TYPE_NOT_SUPPORTED = -32005
    EXTENDED_AGENT_CARD_NOT_CONFIGURED = -32007
    VERSION_NOT_SUPPORTED = -32009


_INFO: Final = "type.googleapis.com/google.rpc.ErrorInfo"
_FAULTS_OF_CALLER: Final = frozenset({400, 404, 405, 413, 422})


class CallRefused(Exception):
    """A call that is answered with an error of A2A."""

    def __init__(self, code: A2aCode, message: str) -> None:
        super().__init__(message)
        self.code = code


def error_of(call_id: str | int | None, code: int, message: str, reason: str) -> dict[str, Any]:
    """Returns the answer to a call that failed."""
    about = {"@type": _INFO, "reason": reason.upper(), "domain": "a2a-protocol.org"}
    return {"jsonrpc": "2.0", "id": call_id, "error": {"code": code, "message": message, "data": [about]}}


def shape(problem: GatewayProblem) -> ShapedProblem:
    """Returns the response of a request that failed as a whole."""
    is_of_caller = problem.status in _FAULTS_OF_CALLER
    code = A2aCode.INVALID_REQUEST if is_of_caller else A2aCode.INTERNAL_ERROR
    if problem.is_unread:
        code = A2aCode.PARSE_ERROR
    content = error_of(None, code, problem.message, problem.code)
    return ShapedProblem(status=problem.status, content=msgspec.json.encode(content))
