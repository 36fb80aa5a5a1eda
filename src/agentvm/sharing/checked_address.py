"""Checked address — the addresses of a host, every one of them allowed, for the one who connects to exactly these.

A second answer of the name server is never used, so it cannot differ.
"""

from collections.abc import Awaitable, Callable

import anyio

from agentvm.errors import shorten
from agentvm.errors.tool import EgressRefused
from agentvm.model.address import IpAddress
from agentvm.model.public_address import AddressRules, parse_host

RESOLVE_SECONDS = 5.0
ADDRESSES_MAX = 4
"""Addresses of one host that are tried."""

Resolve = Callable[[str, int], Awaitable[tuple[IpAddress, ...]]]
"""Returns the addresses of a name, in the order of preference; raises `OSError`."""


async def checked_addresses(name: str, port: int, rules: AddressRules, resolve: Resolve) -> tuple[IpAddress, ...]:
    """Returns addresses of the host. A single one that is not allowed refuses the host: `EgressRefused`.

    Raises `OSError` for a name without an address.
    """
    host = parse_host(name)
    if host is None:
        raise EgressRefused(f"{shorten(name)!r} is not a host that tools may reach")
    addresses: tuple[IpAddress, ...] = ()
    if host.address is not None:
        addresses = (host.address,)
    else:
        try:
            with anyio.fail_after(RESOLVE_SECONDS):
                addresses = await resolve(host.name, port)
        except (OSError, UnicodeError, ValueError) as error:
            # TimeoutError is an OSError. The text of the resolver would tell about the inner network.
            raise OSError(f"{host.name} has no address") from error
    if not addresses or not all(rules.allows(host, address, port) for address in addresses):
        raise EgressRefused(f"{host.name} is not on the public Internet; an operator can allow it in tools.network.allow")
    return addresses[:ADDRESSES_MAX]
