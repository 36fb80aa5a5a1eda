"""Name lookup — asks the name server of this machine about names that strangers choose.

A name whose server does not answer keeps a thread for as long as the machine goes on asking, and nothing can end it. The event
loop has a few threads for all its lookups, so a handful of such names would keep the whole server from connecting to any
host, those of its providers included. These lookups have threads of their own: so many in all, and a few for the names of one
domain.
"""

import socket
from collections.abc import Callable
from functools import partial
from ipaddress import ip_address

from anyio.lowlevel import RunVar

from agentvm.model.address import IpAddress
from agentvm.sharing.fair_slots import FairSlots
from agentvm.sharing.own_thread import run_in_own_thread

LOOKUPS_MAX = 32
DOMAIN_LOOKUPS_MAX = 4
_COUNTRY_CHARACTERS = 2

Lookup = Callable[[str, int], tuple[IpAddress, ...]]
"""Returns the addresses of a name, in the order of preference; raises `OSError`. Blocks its thread."""


def look_up(name: str, port: int) -> tuple[IpAddress, ...]:
    answers = socket.getaddrinfo(name, port, type=socket.SOCK_STREAM)
    # An address with a zone is of this machine's own links; as text it keeps the zone, and is refused for it.
    return tuple(dict.fromkeys(ip_address(address[0]) for *_, address in answers))


class NameLookups:
    """The lookups of one event loop."""

    def __init__(self, lookup: Lookup = look_up) -> None:
        self._lookup = lookup
        self._slots = FairSlots(LOOKUPS_MAX, share=DOMAIN_LOOKUPS_MAX)

    @property
    def running(self) -> int:
        """Lookups that have a thread, also those whose callers have given up."""
        return LOOKUPS_MAX - self._slots.free

    async def find(self, name: str, port: int) -> tuple[IpAddress, ...]:
        """Returns the addresses of a name; raises `OSError`. A caller who gives up leaves the thread to its own end."""
        held = await self._slots.acquire(domain_of(name))
        return await run_in_own_thread("name lookup", partial(self._lookup, name, port), held.release)


def domain_of(name: str) -> str:
    """Returns the part of a name whose name server is probably one person's: `example.org`, `example.co.uk`."""
    labels = name.lower().rstrip(".").split(".")
    return ".".join(labels[-3 if len(labels[-1]) == _COUNTRY_CHARACTERS else -2 :])


_lookups: RunVar[NameLookups] = RunVar("name_lookups")


async def resolve_host(name: str, port: int) -> tuple[IpAddress, ...]:
    """Returns the addresses of a name as the name server of this machine gives them; raises `OSError`."""
    lookups = _lookups.get(None)
    if lookups is None:
        _lookups.set(lookups := NameLookups())
    return await lookups.find(name, port)
