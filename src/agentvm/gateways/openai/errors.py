"""OpenAI errors — `{"error": {message, type, param, code}}`, before the first byte as a status and after it in the stream."""

from typing import Final

import msgspec

from agentvm.gateways.routes import GatewayProblem, ShapedProblem

NO_SUCH_MODEL: Final = frozenset({"definition_not_found", "driver_not_found", "image_not_found", "resource_not_found"})
BUSY: Final = frozenset({"agent_busy", "inbox_full"})
_TYPES: Final = {
    401: ("authentication_error", "invalid_api_key"),
    402: ("insufficient_quota", "insufficient_quota"),
    403: ("permission_error", None),
    429: ("rate_limit_error", None),
}
SERVER_ERROR_MIN: Final = 500


class ErrorAbout(msgspec.Struct, frozen=True):
    message: str
    type: str
    param: str | None
    code: str


class ErrorBody(msgspec.Struct, frozen=True):
    error: ErrorAbout


def about(status: int, code: str, message: str, param: str | None = None) -> ErrorBody:
    """Returns the body of an error."""
    kind, known_code = _TYPES.get(status, ("server_error" if status >= SERVER_ERROR_MIN else "invalid_request_error", None))
    if code in NO_SUCH_MODEL:
        code, param, message = "model_not_found", "model", f"{message}; GET /v1/models lists the models"
    return ErrorBody(ErrorAbout(message, kind, param, known_code or code))


def shape(problem: GatewayProblem) -> ShapedProblem:
    """Returns the response of a failure. Its clients repeat a request on 409, so that is never sent."""
    status = 429 if problem.code in BUSY else 400 if problem.status == 409 else problem.status
    return ShapedProblem(status=status, content=msgspec.json.encode(about(status, problem.code, problem.message)))
