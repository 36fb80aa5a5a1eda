"""HTTP errors — every failure of a route in one shape: `{"error": {code, message, details, requestId}}`."""

import secrets
from collections.abc import Callable
from http import HTTPStatus

import msgspec

from agentvm.errors import AgentVMError, InvalidInput, StoreFailed, Unauthenticated, shorten
from agentvm.gateways.routes import GatewayProblem, ShapedProblem
from agentvm.log import get_logger
from agentvm.model.base import Record
from agentvm.operations.http_status import STATUS as STATUS
from agentvm.operations.http_status import status_of as status_of
from agentvm.server import paths
from agentvm.server.exchange import HttpError, HttpResponse, Scope
from agentvm.vm import system_clock

logger = get_logger(__name__)


class FailureAbout(Record):
    code: str
    """Stable; see docs/errors.md."""
    message: str
    """For people."""
    details: dict[str, object]
    request_id: str


class Failure(Record):
    """The response of every failure. `code` is stable, `message` is for people, `details` are for programs."""

    error: FailureAbout


def request_id_of(scope: Scope) -> str:
    """Returns the id of a request in its response, the log and the audit log. Made here, never the client's."""
    request_id: str = scope.setdefault("state", {}).setdefault("request_id", f"req_{secrets.token_hex(8)}")
    return request_id


Shape = Callable[[GatewayProblem], ShapedProblem]
"""The shape of failures in the dialect of a gateway."""


def explain(scope: Scope, error: Exception, shape: Shape | None = None) -> HttpResponse:
    """Returns the response for an exception, and is the only place that does. It reveals nothing internal."""
    request_id = request_id_of(scope)
    path = shorten(paths.shown(str(scope["path"])))
    details: dict[str, object] = {}
    if isinstance(error, AgentVMError):
        status, code, message, details = status_of(error), error.code, str(error), error.details
        if status == HTTPStatus.INTERNAL_SERVER_ERROR or isinstance(error, StoreFailed):
            # The client can do nothing about it, so the operator must learn of it.
            logger.error("request_failed", path=path, request_id=request_id, code=code, error=message)
    elif isinstance(error, HttpError):
        status = error.status
        code = HTTPStatus(status).phrase.lower().replace(" ", "_")
        message = f"{HTTPStatus(status).phrase}: {scope['method']} {path}{_hint(error, path)}"
    else:
        logger.error("request_crashed", path=path, request_id=request_id, exc_info=error)
        status, code, message = 500, AgentVMError.code, "The request failed because of an internal error"
    if shape is not None:
        is_unread = isinstance(error, InvalidInput) and error.is_unread
        shaped = shape(GatewayProblem(status=status, code=code, message=message, request_id=request_id, is_unread=is_unread))
        headers = {**_headers(scope, error, details), **shaped.headers}
        return HttpResponse(content=shaped.content, status=shaped.status, headers=headers)
    body = Failure(error=FailureAbout(code=code, message=message, details=details, request_id=request_id))
    return HttpResponse(content=msgspec.json.encode(body), status=status, headers=_headers(scope, error, details))


def _hint(error: HttpError, path: str) -> str:
    """Returns the hint of the error, or one for a URI whose slashes were taken as separators of the path."""
    if error.hint:
        return f"; {error.hint}"
    if error.status != HTTPStatus.NOT_FOUND or not path.startswith("/v1/resources/resource:/"):
        return ""
    return "; percent-encode a URI in a path, as in /v1/resources/resource%3A%2F%2Fprompts%2Fname"


def _headers(scope: Scope, error: Exception, details: dict[str, object]) -> dict[str, str]:
    if isinstance(error, HttpError):
        return error.headers
    if isinstance(error, Unauthenticated):
        return {"WWW-Authenticate": "Bearer"}
    if isinstance(reset_at := details.get("resetAt"), int):
        now = scope["state"].get("clock", system_clock)()
        return {"Retry-After": str(max(1, -((now - reset_at) // 1000)))}
    return {}
