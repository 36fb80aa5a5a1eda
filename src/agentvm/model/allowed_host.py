"""Allowed hosts — whether a list such as `network.allow` of a sandbox has a host and a port."""

from collections.abc import Iterable

from agentvm.model.public_address import parse_host

WEB_PORTS = (80, 443)
"""Ports of a host that is allowed without one."""


def is_allowed(host: str, port: int, allowed: Iterable[str]) -> bool:
    """Whether a list has the host: by its name, by a star for the names below it, with its port or a port of the web."""
    parsed = parse_host(host)
    if parsed is None:
        return False
    for entry in allowed:
        name, colon, digits = entry.rpartition(":")
        ports: tuple[int, ...] = WEB_PORTS
        if not colon or entry.endswith("]"):
            name = entry
        else:
            ports = (int(digits),) if digits.isdecimal() else ()
        name = name.lower()
        if port not in ports:
            continue
        if name.startswith("*."):
            if parsed.address is None and parsed.name.endswith(name[1:]):
                return True
        else:
            target = parse_host(name.removeprefix("[").removesuffix("]"))
            if target is not None and target.name == parsed.name:
                return True
    return False
