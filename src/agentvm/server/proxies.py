"""Proxies — the real address of a client behind a proxy that the operator trusts.

Any client can write anything into `X-Forwarded-For`. So these headers are read only when the peer itself is a trusted proxy,
and from the right: each proxy appends the address of its peer, and the first one that is not trusted is the client. Addresses
further left are claims of that client. Without a trusted proxy the headers are ignored.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Any, Literal

from agentvm.model.address import IpAddress, IpNetwork, parse_address, parse_network

Headers = Iterable[tuple[bytes, bytes]]

HOPS_MAX = 50
"""Addresses of one request that are read."""

_SIGNS = frozenset({b"forwarded", b"via", b"x-real-ip"})
_PAIR = re.compile(r'\s*(?P<name>[A-Za-z]+)=(?:"(?P<quoted>[^"\\]*)"|(?P<plain>[^;,"\s]*))\s*')

Scheme = Literal["http", "https"]


class TrustedProxies:
    """The trusted proxies, by address or network."""

    __slots__ = ("_networks",)

    def __init__(self, named: Iterable[str] = ()) -> None:
        self._networks: tuple[IpNetwork, ...] = tuple(network for name in named if (network := parse_network(name)) is not None)

    def has(self, host: str) -> bool:
        address = parse_address(host)
        return address is not None and self._trusts(address)

    def client_of(self, peer: str, headers: Sequence[tuple[bytes, bytes]]) -> str:
        """Returns the client's address: the peer's own, unless it is a trusted proxy that names another."""
        if not self.has(peer):
            return peer
        by_list = [hop.strip() for hop in _joined(headers, b"x-forwarded-for").split(",") if hop.strip()]
        by_standard = [pairs.get("for", "") for pairs in _forwarded(headers)]
        clients = {self._outermost(peer, hops) for hops in (by_list, by_standard) if hops}
        # A proxy sets one of the two and may pass the other on as the client wrote it: if they differ, neither is used.
        return clients.pop() if len(clients) == 1 else peer

    def scheme_of(self, peer: str, headers: Sequence[tuple[bytes, bytes]]) -> Scheme | None:
        """Returns the scheme between the client and the nearest proxy, if that names it."""
        if not self.has(peer):
            return None
        scheme = _joined(headers, b"x-forwarded-proto").rpartition(",")[2].strip().lower()
        if not scheme and (hops := _forwarded(headers)):
            scheme = hops[-1].get("proto", "").lower()
        return {"http": "http", "https": "https", "ws": "http", "wss": "https"}.get(scheme)  # type: ignore[return-value]

    def _outermost(self, peer: str, hops: Sequence[str]) -> str:
        client = peer
        for hop in reversed(hops[-HOPS_MAX:]):
            address = _address(hop)
            if address is None:
                # Hidden or invalid: the hop before it is the last known one.
                return client
            client = str(address)
            if not self._trusts(address):
                return client
        return client

    def _trusts(self, address: IpAddress) -> bool:
        return any(_holds(network, address) for network in self._networks)


def forwarded_sign(headers: Headers) -> str | None:
    """Returns the name of a header that proves that a request came through a proxy; None without one."""
    for name, _ in headers:
        lower = name.lower()
        if lower.startswith(b"x-forwarded-") or lower in _SIGNS:
            return lower.decode("latin-1")
    return None


def behind_proxy(sign: str) -> str:
    """Returns the error for a request through a proxy while authentication is off."""
    return (
        f"This server has authentication off and serves this machine only, and the request came through a proxy (it has the "
        f"header {sign}): start the server with --auth on, and name the proxy with --trusted-proxy"
    )


def real(scope: dict[str, Any], proxies: TrustedProxies) -> dict[str, Any]:
    """Returns the scope of a request with the client's real address and scheme."""
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


def _joined(headers: Headers, header: bytes) -> str:
    """Returns a header as one list; one that is repeated is joined in order."""
    return ",".join(value.decode("latin-1") for name, value in headers if name.lower() == header)


def _forwarded(headers: Headers) -> list[dict[str, str]]:
    """Returns the hops of RFC 7239; one invalid part makes the whole header invalid."""
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
    """Parses an address, perhaps in brackets, quotes, or with a port."""
    text = hop.strip().strip('"')
    if text.startswith("["):
        text = text[1:].partition("]")[0]
    elif text.count(":") == 1:
        text = text.partition(":")[0]
    return parse_address(text)
