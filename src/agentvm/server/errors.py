"""HTTP errors — every failure of a route in one shape: `{"error": {code, message, details, requestId}}`."""

import secrets
from http import HTTPStatus
from typing import Any

from litestar import Request, Response
from litestar.exceptions import HTTPException

from agentvm.errors import AgentVMError, Conflict, InvalidInput, NotFound, Refused, shorten
from agentvm.log import get_logger

logger = get_logger(__name__)

STATUS: tuple[tuple[type[AgentVMError], int], ...] = ((InvalidInput, 400), (NotFound, 404), (Conflict, 409), (Refused, 503))


def explain(request: Request[Any, Any, Any], error: Exception) -> Response[dict[str, object]]:
    """The one place where an exception becomes an HTTP answer. Says nothing of the server's insides."""
    request_id = f"req_{secrets.token_hex(8)}"
    # From the scope: `request.url` is made of the Host header, which may be anything.
    path = shorten(request.scope["path"])
    if isinstance(error, AgentVMError):
        status = next((status for kind, status in STATUS if isinstance(error, kind)), 500)
        code, message = error.code, str(error)
    elif isinstance(error, HTTPException):
        status = error.status_code
        code = HTTPStatus(status).phrase.lower().replace(" ", "_")
        message = f"{HTTPStatus(status).phrase}: {request.method} {path}"
    else:
        logger.error("request_crashed", path=path, request_id=request_id, exc_info=error)
        status, code, message = 500, AgentVMError.code, "The request failed because of an internal error"
    body: dict[str, object] = {"code": code, "message": message, "details": {}, "requestId": request_id}
    headers = dict(error.headers or {}) if isinstance(error, HTTPException) else {}
    return Response({"error": body}, status_code=status, media_type="application/json", headers=headers)
