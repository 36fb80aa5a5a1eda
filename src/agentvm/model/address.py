"""Address — what can be told from the name of a host alone."""

from ipaddress import ip_address


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches it."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
