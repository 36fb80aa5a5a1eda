"""Credentials — reads credentials from a request; `agentvm.tenants` finds their owner.

A socket may send them in the `Authorization` header, as `?token=`, or as the subprotocol `avm.bearer.<token>`, because a
browser can set no header. A browser that was signed in sends a cookie, over HTTP and when it opens a socket. More than one is
refused: requests are smuggled where two parts of a system pick different ones. `x-api-key` and the like are read on the paths
of gateways alone whose clients send nothing else.
"""

from collections.abc import Iterable, Sequence
from urllib.parse import parse_qsl, unquote_plus

from agentvm.errors import InvalidInput
from agentvm.operations.browser_session import COOKIE
from agentvm.tenants import browser_sessions

SUBPROTOCOL = "avm.bearer."
SEND_ONCE = "Send credentials once: in one Authorization header, as a cookie, as ?token=, or as a subprotocol"


def of_headers(headers: Iterable[tuple[bytes, bytes]], *, reads_cookie: bool = True, also: Sequence[str] = ()) -> str | None:
    """Returns the bearer token or the cookie of a request, or the value of one of the headers in `also`; None without any."""
    headers = tuple(headers)
    keys = _keys(headers, also)
    return _only([*_bearers(headers), *keys, *(_cookies(headers) if reads_cookie else ())])


def of_socket(
    headers: Iterable[tuple[bytes, bytes]], query: bytes, subprotocols: Iterable[str], *, also: Sequence[str] = ()
) -> str | None:
    """Returns the credential of a request for a socket, also the value of one of the headers in `also`; None without any."""
    headers = tuple(headers)
    keys = _keys(headers, also)
    by_query = [value for name, value in parse_qsl(query.decode("latin-1")) if name == "token"]
    by_protocol = [name.removeprefix(SUBPROTOCOL) for name in subprotocols if name.startswith(SUBPROTOCOL)]
    return _only([*_bearers(headers), *keys, *_cookies(headers), *map(_no_cookie, (*by_query, *by_protocol))])


def _keys(headers: tuple[tuple[bytes, bytes], ...], names: Sequence[str]) -> list[str]:
    named = (value for name, value in headers if name.lower().decode("latin-1") in names)
    return [_no_cookie(value.decode("latin-1").strip()) for value in named]


def without_token(query: bytes) -> bytes:
    """Returns the query string without the token, for logs; names are decoded as in `of_socket`."""
    return b"&".join(b"token=***" if _names_token(part) else part for part in query.split(b"&"))


def _names_token(part: bytes) -> bool:
    return unquote_plus(part.decode("latin-1").partition("=")[0]) == "token"


def bearer(value: str) -> str:
    """Returns the token of an `Authorization` header; empty for other schemes."""
    scheme, _, token = value.strip().partition(" ")
    return _no_cookie(token.strip()) if scheme.lower() == "bearer" else ""


def is_cookie(credential: str | None) -> bool:
    """Whether a credential that was found here is a cookie, which a browser sends whichever page asks it to."""
    return credential is not None and credential.startswith(browser_sessions.PREFIX)


def _bearers(headers: tuple[tuple[bytes, bytes], ...]) -> list[str]:
    return [bearer(value.decode("latin-1")) for name, value in headers if name.lower() == b"authorization"]


def _cookies(headers: tuple[tuple[bytes, bytes], ...]) -> list[str]:
    """Cookies of sessions. A key in the place of one gets the prefix, too, so that it is refused and held for a cookie."""
    return [value if is_cookie(value) else browser_sessions.PREFIX for value in cookies(headers, COOKIE)]


def cookies(headers: Iterable[tuple[bytes, bytes]], name: str) -> list[str]:
    """Returns the values of the cookies of a name."""
    pairs = [pair for key, value in headers if key.lower() == b"cookie" for pair in value.decode("latin-1").split(";")]
    return [value.strip() for key, _, value in (pair.partition("=") for pair in pairs) if key.strip() == name]


def _no_cookie(token: str) -> str:
    """Returns the token; empty for the content of a cookie, which is accepted as a cookie only."""
    return "" if is_cookie(token) else token


def _only(tokens: list[str]) -> str | None:
    if len(tokens) > 1:
        raise InvalidInput(SEND_ONCE)
    return tokens[0] if tokens else None
