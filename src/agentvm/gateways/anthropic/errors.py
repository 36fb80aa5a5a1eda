"""Anthropic errors — `{"type": "error", "error": {type, message}, "request_id"}`."""

from typing import Final

import msgspec

from agentvm.gateways.routes import GatewayProblem, ShapedProblem

_TYPES: Final = {
    400: "invalid_request_error",
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    409: "invalid_request_error",
    413: "request_too_large",
    422: "invalid_request_error",
    429: "rate_limit_error",
    503: "overloaded_error",
    504: "timeout_error",
}
OVERLOADED_STATUS: Final = 529


class AnthropicErrorAbout(msgspec.Struct, frozen=True):
    type: str
    message: str
    code: str
    """Code of this server; see docs/errors.md."""


class AnthropicError(msgspec.Struct, frozen=True):
    error: AnthropicErrorAbout
    request_id: str
    type: str = "error"


def shape(problem: GatewayProblem) -> ShapedProblem:
    """Returns the response of a failure."""
    kind = _TYPES.get(problem.status, "api_error" if problem.status >= 500 else "invalid_request_error")
    status = OVERLOADED_STATUS if problem.status == 503 else problem.status
    body = AnthropicError(AnthropicErrorAbout(kind, problem.message, problem.code), problem.request_id)
    return ShapedProblem(status=status, content=msgspec.json.encode(body))
