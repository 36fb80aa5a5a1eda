"""Credentials — finds them in a request; `agentvm.tenants` finds their owner.

A socket may send them in the `Authorization` header, as `?token=`, or as the subprotocol `avm.bearer.<token>`, because a
browser can set no header. More than one is refused: requests are smuggled where two parts of a system pick different ones.
`x-api-key` and the like are not read.
"""

from collections.abc import Iterable
from urllib.parse import parse_qsl, unquote_plus

from agentvm.errors import InvalidInput

SUBPROTOCOL = "avm.bearer."


def of_headers(headers: Iterable[tuple[bytes, bytes]]) -> str | None:
    """Returns the bearer token of a request; None without one."""
    values = [value.decode("latin-1") for name, value in headers if name.lower() == b"authorization"]
    return _only([bearer(value) for value in values])


def of_socket(headers: Iterable[tuple[bytes, bytes]], query: bytes, subprotocols: Iterable[str]) -> str | None:
    headers = tuple(headers)
    by_header = [bearer(value.decode("latin-1")) for name, value in headers if name.lower() == b"authorization"]
    by_query = [value for name, value in parse_qsl(query.decode("latin-1")) if name == "token"]
    by_protocol = [name.removeprefix(SUBPROTOCOL) for name in subprotocols if name.startswith(SUBPROTOCOL)]
    return _only([*by_header, *by_query, *by_protocol])


def without_token(query: bytes) -> bytes:
    """Returns the query string without the token, for logs; names are decoded as in `of_socket`."""
    return b"&".join(b"token=***" if _names_token(part) else part for part in query.split(b"&"))


def _names_token(part: bytes) -> bool:
    return unquote_plus(part.decode("latin-1").partition("=")[0]) == "token"


def bearer(value: str) -> str:
    """Returns the token of an `Authorization` header; empty for other schemes."""
    scheme, _, token = value.strip().partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


def _only(tokens: list[str]) -> str | None:
    if len(tokens) > 1:
        raise InvalidInput("Send credentials once: in one Authorization header, as ?token=, or as a subprotocol")
    return tokens[0] if tokens else None
