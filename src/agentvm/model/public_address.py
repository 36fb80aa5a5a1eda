"""Public addresses — which addresses a request on behalf of a tenant may reach. Nothing is resolved here.

An IPv4 address is public unless a table says otherwise, an IPv6 address only inside the one block that is assigned to the
public Internet. An IPv6 address that carries an IPv4 address (mapped, NAT64, 6to4, Teredo, ISATAP) is as public as the carried
one. The tables are our own: `is_global` of the standard library changed its answers between releases of Python.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import Self

from agentvm.model.address import IpAddress, IpNetwork, parse_network

HOST_MAX = 253

_IPV4_NOT_PUBLIC = tuple(
    IPv4Network(text)
    for text in (
        "0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.0.0.0/24",
        "192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24",
        "224.0.0.0/4", "240.0.0.0/4",
        # A public number, behind which Azure answers each of its machines with that machine's own credentials.
        "168.63.129.16/32",
    )
)  # fmt: skip
_IPV6_GLOBAL = IPv6Network("2000::/3")
_IPV6_NOT_PUBLIC = tuple(IPv6Network(text) for text in ("2001::/23", "2001:db8::/32", "3fff::/20"))
_NAT64 = IPv6Network("64:ff9b::/96")
_ISATAP_INTERFACES = (0x00005EFE, 0x02005EFE)

_NAME = re.compile(r"(?!-)[a-z0-9_-]{1,63}(?<!-)(\.(?!-)[a-z0-9_-]{1,63}(?<!-))*")
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")


def is_public(address: IpAddress) -> bool:
    """Whether the address belongs to the public Internet, wherever an IPv4 address is carried inside it."""
    if isinstance(address, IPv4Address):
        return not any(address in network for network in _IPV4_NOT_PUBLIC)
    if address.scope_id is not None:
        return False
    carried = carried_addresses(address)
    if carried:
        return all(map(is_public, carried))
    return address in _IPV6_GLOBAL and not any(address in network for network in _IPV6_NOT_PUBLIC)


def carried_addresses(address: IPv6Address) -> tuple[IPv4Address, ...]:
    """Returns the IPv4 addresses to which packets for this address may end up being sent; empty for a plain address."""
    number = int(address)
    if address.ipv4_mapped is not None:
        return (address.ipv4_mapped,)
    if address in _NAT64:
        return (IPv4Address(number & 0xFFFF_FFFF),)
    if address.sixtofour is not None:
        return (address.sixtofour,)
    if address.teredo is not None:
        return address.teredo
    if number >> 32 & 0xFFFF_FFFF in _ISATAP_INTERFACES and address in _IPV6_GLOBAL:
        return (IPv4Address(number & 0xFFFF_FFFF),)
    return ()


@dataclass(frozen=True, slots=True)
class Host:
    """The host of a request: a name in lower case without a final dot, or an address in its one standard form."""

    name: str
    address: IpAddress | None = None


@lru_cache(maxsize=1024)
def parse_host(text: str) -> Host | None:
    """Parses the host of a URL, without brackets; None for a text that two programs could read as two hosts.

    `2130706433`, `0x7f.1`, `127.1` and `0177.0.0.1` are such: a C library takes each for 127.0.0.1. Names are ASCII, those
    of other scripts in their `xn--` form.
    """
    name = text.lower().removesuffix(".")
    if not name.isascii() or len(name) > HOST_MAX:
        return None
    try:
        address = ip_address(name)
    except ValueError:
        last = name.rpartition(".")[2]
        return Host(name) if _NAME.fullmatch(name) and not _NUMBER.fullmatch(last) else None
    if text.endswith(".") or (isinstance(address, IPv6Address) and address.scope_id is not None):
        return None
    return Host(str(address), address)


@dataclass(frozen=True, slots=True)
class AddressRules:
    """The addresses that requests may reach: every public one, and those that the operator allows."""

    networks: tuple[tuple[IpNetwork, int | None], ...] = ()
    """Networks besides, each with the only port it is allowed for; None for every port."""
    endpoints: frozenset[tuple[str, int]] = frozenset()
    """Names of hosts, with the port, that may have any address: endpoints that the operator configured himself."""

    @classmethod
    def parse(cls, entries: Iterable[str]) -> Self:
        """Takes `10.0.0.0/8`, `10.1.2.3`, `10.1.2.3:8080`, `[::1]:8080`, `name.example:8080`; `ValueError` names any other."""
        networks: list[tuple[IpNetwork, int | None]] = []
        endpoints: set[tuple[str, int]] = set()
        for entry in entries:
            if network := parse_network(entry):
                networks.append((network, None))
                continue
            name, _, digits = entry.rpartition(":")
            host = parse_host(name.removeprefix("[").removesuffix("]"))
            if host is None or not digits.isdecimal() or not 0 < int(digits[:6]) < 65536:
                raise ValueError(
                    f"{entry!r} is neither a network, as 10.0.0.0/8 is, nor a host with its port, as 10.0.0.5:8080 is"
                )
            if host.address is None:
                endpoints.add((host.name, int(digits)))
            elif network := parse_network(host.name):
                networks.append((network, int(digits)))
        return cls(tuple(networks), frozenset(endpoints))

    def allows(self, host: Host, address: IpAddress, port: int) -> bool:
        """Whether a connection for this host may go to this address of it."""
        if is_public(address) or (host.name, port) in self.endpoints:
            return True
        # A mapped address reaches the IPv4 address; whoever allowed one form of it has allowed the other.
        forms = (address, address.ipv4_mapped) if isinstance(address, IPv6Address) else (address,)
        return any(
            form in network
            for network, only_port in self.networks
            for form in forms
            if form is not None and form.version == network.version and only_port in (None, port)
        )
