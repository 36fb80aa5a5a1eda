"""Origin — decides which web pages may use the server.

A browser lets any page connect to any server and only sends the origin of the page. Without this check a foreign page could use
a server on the reader's own machine: directly, or by a host name of its own that resolves to that machine (DNS rebinding).
Programs other than browsers send no Origin and are not affected.
"""

from collections.abc import Iterable, Sequence
from urllib.parse import urlsplit

from agentvm.model.address import is_loopback


def refusal(headers: Iterable[tuple[bytes, bytes]], *, bound_to: str, allowed: Sequence[str]) -> str | None:
    """Returns the reason to refuse a request; None when it is allowed."""
    if "*" in allowed:
        return None
    named = {name.lower(): value.decode("latin-1") for name, value in headers}
    host = _hostname(f"//{named.get(b'host', '')}")
    hosts = {_hostname(origin) for origin in allowed}
    if is_loopback(bound_to) and not is_loopback(host) and host not in hosts:
        return "this server listens on loopback only, and the Host header names another host"
    origin = named.get(b"origin")
    if origin is None or origin in [known_origin.rstrip("/") for known_origin in allowed]:
        return None
    page = _hostname(origin)
    if page and (is_loopback(page) or page == host):
        return None
    return "the Origin of this page is not allowed"


def foreign_page(headers: Iterable[tuple[bytes, bytes]], *, scheme: str, is_required: bool = True) -> str | None:
    """Returns the reason why a request with a cookie is not from a page of this server; None when it is.

    A browser adds its cookies whichever page asks. It also adds the page's origin, which a page cannot change. Unless
    `is_required`, a request without an origin passes: no browser has sent it.
    """
    named = {name.lower(): value.decode("latin-1") for name, value in headers}
    origin, site = named.get(b"origin"), named.get(b"sec-fetch-site")
    if origin is None:
        return None if not is_required and site is None else "a request with a cookie needs the Origin of a page of this server"
    own = ("https://",) if scheme in ("https", "wss") else ("https://", "http://")
    if origin.lower() not in [f"{prefix}{named.get(b'host', '')}".lower() for prefix in own]:
        return "the page that asks is not of this server"
    return None if site in (None, "same-origin") else "the request comes from another site"


def _hostname(url: str) -> str:
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""
