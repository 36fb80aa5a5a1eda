"""NATS wire — the protocol of NATS core without I/O: addresses, commands, and the reading of a stream.

Small enough to be written here: seven commands. The client library of NATS waits in `publish` when its buffer is full, with a
task and a queue for each subscription; here nothing waits, and one reader serves all.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from urllib.parse import unquote, urlsplit

import msgspec

from agentvm.version import VERSION

PORT = 4222
LINE_MAX_BYTES = 64 * 1024
"""A line of the server, without the message that may follow it; INFO is the longest."""

PING, PONG = b"PING\r\n", b"PONG\r\n"


class NatsServerInfo(msgspec.Struct):
    """The greeting of a server."""

    host: str = ""
    version: str = ""
    auth_required: bool = False
    tls_required: bool = False
    tls_verify: bool = False
    max_payload: int = 1024 * 1024


@dataclass(frozen=True, slots=True)
class NatsAddress:
    """A server, and how this client shows who it is."""

    host: str
    port: int
    tls: bool = False
    user: str | None = field(default=None, repr=False)
    password: str | None = field(default=None, repr=False)

    @property
    def shown(self) -> str:
        """The address without its password."""
        return f"{'tls' if self.tls else 'nats'}://{self.host}:{self.port}"


def parse_addresses(text: str) -> tuple[NatsAddress, ...]:
    """Servers of one cluster of NATS, separated by commas. `ValueError` names the fault, without the password."""
    return tuple(_parse_address(address.strip()) for address in text.split(","))


def _parse_address(text: str) -> NatsAddress:
    try:
        parts = urlsplit(text)
        port = parts.port or PORT
    except ValueError:
        raise ValueError("its port is not a number; write nats://user:password@host:4222") from None
    if parts.scheme not in ("nats", "tls") or not parts.hostname:
        raise ValueError("it is not a NATS URL; write nats://user:password@host:4222, or tls:// for TLS")
    if parts.path.strip("/") or parts.query or parts.fragment:
        raise ValueError("a NATS URL has no path; in a password write / as %2F, ? as %3F, # as %23, @ as %40")
    user = None if parts.username is None else unquote(parts.username)
    password = None if parts.password is None else unquote(parts.password)
    return NatsAddress(parts.hostname, port, parts.scheme == "tls", user, password)


def connect_line(address: NatsAddress, name: str) -> bytes:
    options: dict[str, object] = {
        "verbose": False,
        "pedantic": False,
        "echo": False,
        "lang": "agentvm",
        "version": VERSION,
        "protocol": 1,
        "name": name,
        "tls_required": address.tls,
    }
    if address.password is not None:
        options |= {"user": address.user, "pass": address.password}
    elif address.user is not None:
        options["auth_token"] = address.user
    return b"CONNECT " + msgspec.json.encode(options) + b"\r\n" + PING


def publish_command(subject: str, body: bytes) -> bytes:
    return b"PUB %b %d\r\n%b\r\n" % (subject.encode(), len(body), body)


def subscribe_command(subject: str, number: int) -> bytes:
    return b"SUB %b %d\r\n" % (subject.encode(), number)


def unsubscribe_command(number: int) -> bytes:
    return b"UNSUB %d\r\n" % number


@dataclass(frozen=True, slots=True)
class NatsMessage:
    """A message for a subscription."""

    number: int
    body: bytes


NatsLine = NatsMessage | bytes
"""A message, or another line of the server without its end."""


class NatsReader:
    """Splits the bytes of a server into messages and lines. `ValueError` for bytes that are not NATS."""

    def __init__(self, payload_max_bytes: int = 64 * 1024 * 1024) -> None:
        self._buffer = bytearray()
        self._payload_max_bytes = payload_max_bytes

    def feed(self, data: bytes) -> Iterator[NatsLine]:
        """Yields the complete messages."""
        self._buffer += data
        buffer, start = bytes(self._buffer), 0
        try:
            while (end := buffer.find(b"\r\n", start)) >= 0:
                line, after = buffer[start:end], end + 2
                if not line.startswith(b"MSG "):
                    start = after
                    yield line
                    continue
                number, size = self._head(line)
                if len(buffer) < after + size + 2:
                    break
                start = after + size + 2
                yield NatsMessage(number, buffer[after : after + size])
            if len(buffer) - start > LINE_MAX_BYTES and buffer.find(b"\r\n", start) < 0:
                raise ValueError("no end of line")
        finally:
            del self._buffer[:start]

    def _head(self, line: bytes) -> tuple[int, int]:
        parts = line.split()
        if len(parts) not in (4, 5):
            raise ValueError("a message without a size")
        number, size = int(parts[2]), int(parts[-1])
        if not 0 <= size <= self._payload_max_bytes:
            raise ValueError(f"a message of {size} bytes")
        return number, size
