"""Credentials — where a request carries them. Who they belong to is the business of `agentvm.tenants`.

A socket may bring them in the `Authorization` header, as `?token=`, or as the subprotocol `avm.bearer.<token>`, since a
browser can set no header. More than one is refused: two parts of a system that pick different ones are how requests are
smuggled. `x-api-key` and the like are not read.
"""

from collections.abc import Iterable
from urllib.parse import parse_qsl, unquote_plus

from agentvm.errors import InvalidInput

SUBPROTOCOL = "avm.bearer."


def of_headers(headers: Iterable[tuple[bytes, bytes]]) -> str | None:
    """The bearer token of a request; None when there is none."""
    found = [value.decode("latin-1") for name, value in headers if name.lower() == b"authorization"]
    return _only([bearer(value) for value in found])


def of_socket(headers: Iterable[tuple[bytes, bytes]], query: bytes, subprotocols: Iterable[str]) -> str | None:
    headers = tuple(headers)
    by_header = [bearer(value.decode("latin-1")) for name, value in headers if name.lower() == b"authorization"]
    by_query = [value for name, value in parse_qsl(query.decode("latin-1")) if name == "token"]
    by_protocol = [name.removeprefix(SUBPROTOCOL) for name in subprotocols if name.startswith(SUBPROTOCOL)]
    return _only([*by_header, *by_query, *by_protocol])


def without_token(query: bytes) -> bytes:
    """The query string, fit for a log: read as `of_socket` reads it, however the name is written."""
    return b"&".join(b"token=***" if _names_token(part) else part for part in query.split(b"&"))


def _names_token(part: bytes) -> bool:
    return unquote_plus(part.decode("latin-1").partition("=")[0]) == "token"


def bearer(value: str) -> str:
    """The token in an `Authorization` header; other schemes are as good as a wrong token."""
    scheme, _, token = value.strip().partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


def _only(found: list[str]) -> str | None:
    if len(found) > 1:
        raise InvalidInput("Credentials must be given once: one Authorization header, or ?token=, or a subprotocol")
    return found[0] if found else None
