"""Address — properties of a host that its name alone tells."""

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

IpAddress = IPv4Address | IPv6Address
IpNetwork = IPv4Network | IPv6Network

_IPV6_PREFIX_BITS = 64
"""Length of the network part of an IPv6 address; the owner of the network chooses the rest, address by address."""


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches it."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def parse_address(text: str) -> IpAddress | None:
    """Parses an address; an IPv4 address written as IPv6 becomes the IPv4 address. None for any other text."""
    try:
        address = ip_address(text)
    except ValueError:
        return None
    return address.ipv4_mapped or address if isinstance(address, IPv6Address) else address


def parse_network(text: str) -> IpNetwork | None:
    """Parses an address, or a network as in `10.0.0.0/8`; None for any other text."""
    try:
        return ip_network(text.strip(), strict=False)
    except ValueError:
        return None


def origin_of(host: str) -> str:
    """The name under which limits count an address: itself, and of IPv6 its network of 64 bits."""
    address = parse_address(host)
    if isinstance(address, IPv6Address):
        return str(IPv6Network((int(address) >> _IPV6_PREFIX_BITS << _IPV6_PREFIX_BITS, _IPV6_PREFIX_BITS)))
    return host if address is None else str(address)
