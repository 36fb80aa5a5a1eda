"""Proxies — from where a request really comes, when a proxy that the operator has named stands in between.

Whoever connects can write anything into `X-Forwarded-For`. So these headers are read only when the peer itself is a trusted
proxy, and from the right: each proxy appends whom it has heard, and the first that is not one of ours is the client. What
stands further left is what that client claims. Without a trusted proxy nothing of it is read.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Any, Literal

from agentvm.model.address import IpAddress, IpNetwork, parse_address, parse_network

Headers = Iterable[tuple[bytes, bytes]]

MAX_HOPS = 50
"""Addresses of one request that are looked at."""

_SIGNS = frozenset({b"forwarded", b"via", b"x-real-ip"})
_PAIR = re.compile(r'\s*(?P<name>[A-Za-z]+)=(?:"(?P<quoted>[^"\\]*)"|(?P<plain>[^;,"\s]*))\s*')

Scheme = Literal["http", "https"]


class TrustedProxies:
    """Those whose word is taken, by address or network."""

    __slots__ = ("_networks",)

    def __init__(self, named: Iterable[str] = ()) -> None:
        self._networks: tuple[IpNetwork, ...] = tuple(found for one in named if (found := parse_network(one)) is not None)

    def has(self, host: str) -> bool:
        address = parse_address(host)
        return address is not None and self._trusts(address)

    def client_of(self, peer: str, headers: Sequence[tuple[bytes, bytes]]) -> str:
        """The address of who asks: the peer's own, unless it is a trusted proxy that says otherwise."""
        if not self.has(peer):
            return peer
        by_list = [one.strip() for one in _joined(headers, b"x-forwarded-for").split(",") if one.strip()]
        by_standard = [pairs.get("for", "") for pairs in _forwarded(headers)]
        found = {self._outermost(peer, hops) for hops in (by_list, by_standard) if hops}
        # A proxy sets one of the two and may pass the other on as the client wrote it: two stories are none.
        return found.pop() if len(found) == 1 else peer

    def scheme_of(self, peer: str, headers: Sequence[tuple[bytes, bytes]]) -> Scheme | None:
        """How the client spoke to the proxy next to us, if it says so."""
        if not self.has(peer):
            return None
        said = _joined(headers, b"x-forwarded-proto").rpartition(",")[2].strip().lower()
        if not said and (hops := _forwarded(headers)):
            said = hops[-1].get("proto", "").lower()
        return {"http": "http", "https": "https", "ws": "http", "wss": "https"}.get(said)  # type: ignore[return-value]

    def _outermost(self, peer: str, hops: Sequence[str]) -> str:
        heard = peer
        for hop in reversed(hops[-MAX_HOPS:]):
            address = _address(hop)
            if address is None:
                # Hidden, or nonsense: whoever wrote it is the last that is known.
                return heard
            heard = str(address)
            if not self._trusts(address):
                return heard
        return heard

    def _trusts(self, address: IpAddress) -> bool:
        return any(_holds(network, address) for network in self._networks)


def forwarded_sign(headers: Headers) -> str | None:
    """The name of a header by which a request shows that it came through a proxy; None when nothing shows it."""
    for name, _ in headers:
        lower = name.lower()
        if lower.startswith(b"x-forwarded-") or lower in _SIGNS:
            return lower.decode("latin-1")
    return None


def behind_proxy(sign: str) -> str:
    """What a request that shows this header is told by a server that asks nobody for credentials."""
    return (
        f"This server has authentication off and serves this machine only, and the request came through a proxy (it has the "
        f"header {sign}): start the server with --auth on, and name the proxy with --trusted-proxy"
    )


def real(scope: dict[str, Any], proxies: TrustedProxies) -> dict[str, Any]:
    """The scope of a request with the address and the scheme of who really asks."""
    client = scope.get("client")
    if client is None:
        return scope
    address = proxies.client_of(client[0], scope["headers"])
    if address != client[0]:
        scope["client"] = (address, 0)
    if (scheme := proxies.scheme_of(client[0], scope["headers"])) is not None:
        secure = scheme == "https"
        scope["scheme"] = ("wss" if secure else "ws") if scope["type"] == "websocket" else scheme
    return scope


def _holds(network: IpNetwork, address: IpAddress) -> bool:
    return network.version == address.version and address in network


def _joined(headers: Headers, wanted: bytes) -> str:
    """A header that comes several times is one list, in the order in which it came."""
    return ",".join(value.decode("latin-1") for name, value in headers if name.lower() == wanted)


def _forwarded(headers: Headers) -> list[dict[str, str]]:
    """The hops of RFC 7239; a part that cannot be read makes the whole unreadable."""
    text = _joined(headers, b"forwarded")
    hops: list[dict[str, str]] = []
    for element in filter(str.strip, text.split(",")):
        pairs: dict[str, str] = {}
        for part in filter(str.strip, element.split(";")):
            pair = _PAIR.fullmatch(part)
            if pair is None:
                return [{}]
            pairs[pair["name"].lower()] = pair["plain"] if pair["quoted"] is None else pair["quoted"]
        hops.append(pairs)
    return hops


def _address(hop: str) -> IpAddress | None:
    """An address, perhaps in brackets, quotes, or with a port."""
    text = hop.strip().strip('"')
    if text.startswith("["):
        text = text[1:].partition("]")[0]
    elif text.count(":") == 1:
        text = text.partition(":")[0]
    return parse_address(text)
