"""CORS — lets pages of other origins use the gateways: those that the operator allows, and no others."""

from collections.abc import Iterable, Sequence
from typing import Final

_COMMON: Final = {"Vary": "Origin"}
_ALLOWED_HEADERS: Final = (
    "authorization, content-type, x-api-key, last-event-id, idempotency-key, x-avm-session, x-avm-container, x-avm-tools, "
    "x-requested-with, openai-organization, openai-project, openai-beta, "
    "anthropic-version, anthropic-beta, mcp-protocol-version, mcp-session-id, mcp-method, "
    "mcp-name, a2a-version, a2a-extensions"
)
_EXPOSED: Final = (
    "Content-Location, Location, X-Pagination-Total, X-Request-Id, X-AVM-Session, X-AVM-Turn, Mcp-Session-Id, Retry-After"
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
