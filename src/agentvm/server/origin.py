"""Origin — which web pages may open a socket.

A browser lets any page connect to any server and only says where the page came from. Without this check a page of a stranger
could use a server on the reader's own machine: directly, or by a name of its own that it lets point to that machine
(DNS rebinding). Programs that are no browsers send no Origin and are not concerned.
"""

from collections.abc import Iterable, Sequence
from urllib.parse import urlsplit

from agentvm.model.address import is_loopback


def refusal(headers: Iterable[tuple[bytes, bytes]], *, bound_to: str, allowed: Sequence[str]) -> str | None:
    """Why the socket must not be opened; None when it may."""
    if "*" in allowed:
        return None
    named = {name.lower(): value.decode("latin-1") for name, value in headers}
    host = _hostname(f"//{named.get(b'host', '')}")
    known = {_hostname(origin) for origin in allowed}
    if is_loopback(bound_to) and not is_loopback(host) and host not in known:
        return "this server listens on loopback only and is not known by the name in the Host header"
    origin = named.get(b"origin")
    if origin is None or origin in [one.rstrip("/") for one in allowed]:
        return None
    page = _hostname(origin)
    if page and (is_loopback(page) or page == host):
        return None
    return "pages of this Origin may not use this server"


def _hostname(url: str) -> str:
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""
