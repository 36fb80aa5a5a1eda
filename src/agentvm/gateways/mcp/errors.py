"""MCP errors — JSON-RPC errors: of the whole request as a status, of one message with its id."""

from enum import IntEnum
from typing import Any, Final

import msgspec

from agentvm.gateways.routes import GatewayProblem, ShapedProblem


class McpCode(IntEnum):
    """Codes of JSON-RPC and of MCP."""

    PARSE_ERROR = -32700
    INVALID_REQUEST = -32600
    METHOD_NOT_FOUND = -32601
    INVALID_PARAMS = -32602
    INTERNAL_ERROR = -32603
    NOT_NOW = -32000
    HEADER_MISMATCH = -32020
    UNSUPPORTED_VERSION = -32022


_STATUS: Final = {McpCode.METHOD_NOT_FOUND: 404, McpCode.INTERNAL_ERROR: 200, McpCode.NOT_NOW: 503}
_FAULTS_OF_CALLER: Final = frozenset({400, 404, 409, 412, 413, 422})
_REQUEST_CODES: Final = {
    400: McpCode.INVALID_REQUEST,
    404: McpCode.METHOD_NOT_FOUND,
    405: McpCode.METHOD_NOT_FOUND,
    413: McpCode.INVALID_REQUEST,
}


class MessageRefused(Exception):
    """A message that is refused for its form, before any operation is asked."""

    def __init__(self, code: McpCode, message: str, data: object = None) -> None:
        super().__init__(message)
        self.code, self.data = code, data

    @property
    def status(self) -> int:
        """The status of it in the stateless era; before, errors of messages are 200."""
        return _STATUS.get(self.code, 400)


def code_of(status: int) -> int:
    """Returns the code of a failure that has this status elsewhere."""
    if status in _FAULTS_OF_CALLER:
        return McpCode.INVALID_PARAMS
    return McpCode.NOT_NOW if status == 503 else McpCode.INTERNAL_ERROR


def error_of(message_id: str | int | None, code: int, message: str, data: object = None) -> dict[str, Any]:
    """Returns the answer to a message that failed."""
    about: dict[str, Any] = {"code": code, "message": message}
    if data is not None:
        about["data"] = data
    return {"jsonrpc": "2.0", "id": message_id, "error": about}


def shape(problem: GatewayProblem) -> ShapedProblem:
    """Returns the response of a request that failed as a whole."""
    code = McpCode.PARSE_ERROR if problem.is_unread else _REQUEST_CODES.get(problem.status) or code_of(problem.status)
    content = error_of(None, code, problem.message, {"code": problem.code})
    return ShapedProblem(status=problem.status, content=msgspec.json.encode(content))
