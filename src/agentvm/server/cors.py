"""CORS — lets pages of other origins that the operator allows use the gateways."""

from collections.abc import Iterable, Sequence
from typing import Final

_COMMON: Final = {"Vary": "Origin"}
_ALLOWED_HEADERS: Final = (
    "authorization, content-type, x-api-key, last-event-id, idempotency-key, if-none-match, cache-control, user-agent, "
    "x-avm-session, x-avm-container, x-avm-tools, x-avm-agent, x-requested-with, openai-organization, openai-project, "
    "openai-beta, anthropic-version, anthropic-beta, anthropic-dangerous-direct-browser-access, mcp-protocol-version, "
    "mcp-session-id, mcp-method, mcp-name, a2a-version, a2a-extensions"
)
_EXPOSED: Final = (
    "Content-Location, Location, X-Pagination-Total, X-Pagination-Next, X-Request-Id, Request-Id, X-AVM-Session, X-AVM-Turn, "
    "Mcp-Session-Id, WWW-Authenticate, Retry-After, X-Should-Retry"
)
_STAINLESS: Final = "x-stainless-"
"""The official clients of several providers send headers that begin so."""
PREFLIGHT_SECONDS: Final = 600


def cors_headers(headers: Iterable[tuple[bytes, bytes]], allowed: Sequence[str]) -> dict[str, str]:
    """Returns the headers that a response to a page of an allowed origin has; none for any other request."""
    named = {name.lower(): value.decode("latin-1") for name, value in headers}
    origin = named.get(b"origin")
    if origin is None or ("*" not in allowed and origin not in [entry.rstrip("/") for entry in allowed]):
        return {}
    return {**_COMMON, "Access-Control-Allow-Origin": origin, "Access-Control-Expose-Headers": _EXPOSED}


def preflight_headers(headers: Iterable[tuple[bytes, bytes]], methods: str) -> dict[str, str]:
    """Returns the rest of the headers of the answer to a preflight request."""
    named = {name.lower(): value.decode("latin-1") for name, value in headers}
    header_names = named.get(b"access-control-request-headers", "").lower().split(",")
    more = [name.strip() for name in header_names if name.strip().startswith(_STAINLESS) and name.strip().isascii()]
    return {
        "Access-Control-Allow-Methods": methods,
        "Access-Control-Allow-Headers": ", ".join((_ALLOWED_HEADERS, *more)),
        "Access-Control-Max-Age": str(PREFLIGHT_SECONDS),
    }
