"""Bus — hurries what nodes say to each other. PostgreSQL decides; whatever is lost on a bus is found there.

Rules:
- `publish` never waits. What does not fit is dropped, and counted in `disturbed`, which goes with the beats of the node: on a
  change of the sum each node compares what it follows with the database, once.
- Every message carries a code of the server key over its topic and its body; others are dropped. So whoever reaches the bus
  without the key can delay, and read, but neither say something nor ask for something.
- A node counts as heard while its beats come over the bus. Whoever is not heard is read from the database, four times a second.
"""

import hashlib
import hmac
from collections.abc import Callable
from typing import Literal, Protocol

import anyio
import msgspec

from agentvm.cluster.membership import Membership
from agentvm.log import get_logger

logger = get_logger(__name__)

CODE_BYTES = 16

ALL = "all"
"""The topic that every node hears."""

Hear = Callable[[bytes], None]
"""Takes a message. It must not wait."""


class Bus(Protocol):
    """A way between nodes that may lose anything."""

    disturbed: int
    """How often something may have been lost on the way from or to this node."""
    connected: Callable[[], None]
    """Called when the bus was reached, also again."""

    @property
    def is_up(self) -> bool: ...

    def publish(self, topic: str, body: bytes) -> bool:
        """Returns whether the message was accepted for sending. An accepted message may still be lost."""

    def listen(self, topic: str, hear: Hear) -> None: ...

    def unlisten(self, topic: str) -> None: ...

    async def settle(self) -> bool:
        """Returns when everything that this node listens to is known to the bus; False if that cannot be had soon."""


class Seal:
    """Codes of messages by the server key."""

    def __init__(self, key: bytes) -> None:
        self._key = key

    def close(self, topic: str, body: bytes) -> bytes:
        return self._code(topic, body) + body

    def open(self, topic: str, sealed: bytes) -> bytes | None:
        """The body; None if the code is another."""
        body = sealed[CODE_BYTES:]
        return body if hmac.compare_digest(sealed[:CODE_BYTES], self._code(topic, body)) else None

    def _code(self, topic: str, body: bytes) -> bytes:
        code = hashlib.blake2b(topic.encode() + b"\0", key=self._key, digest_size=CODE_BYTES)
        code.update(body)
        return code.digest()


class Here(msgspec.Struct, frozen=True, tag=True):
    """A node says that it is on the bus; with `asks` the others say so as well."""

    node_id: int
    asks: bool = False


class Noticed(msgspec.Struct, frozen=True, tag=True):
    """A node has stored notices."""

    node_id: int


Shout = Here | Noticed
_shouts = msgspec.msgpack.Decoder(Here | Noticed)
_encoder = msgspec.msgpack.Encoder()


class Hearing:
    """The nodes that are heard on the bus, and the shouts of all to all."""

    def __init__(self, bus: Bus, membership: Membership) -> None:
        self.bus = bus
        self._membership = membership
        self._heard: dict[int, float] = {}
        self._on: dict[type[Shout], Callable[[], None]] = {}
        bus.listen(ALL, self._hear)
        bus.connected = self._greet
        if bus.is_up:
            self._greet()

    def on(self, kind: Literal["noticed"], react: Callable[[], None]) -> None:
        """Calls `react` when another node shouts that."""
        self._on[Noticed] = react

    def is_heard(self, node_id: int) -> bool:
        """Returns whether messages that the node publishes arrive here, as far as can be known."""
        if not self.bus.is_up:
            return False
        return anyio.current_time() - self._heard.get(node_id, float("-inf")) < self._membership.lease_seconds

    def shout(self, message: Shout) -> None:
        self.bus.publish(ALL, _encoder.encode(message))

    async def run(self) -> None:
        """Says after each beat that this node is there, until cancelled."""
        while True:
            await self._membership.wait_beat()
            self.shout(Here(self._membership.node_id))
            for node_id in self._heard.keys() - self._membership.up:
                del self._heard[node_id]

    def _greet(self) -> None:
        self.shout(Here(self._membership.node_id, asks=True))

    def _hear(self, body: bytes) -> None:
        try:
            message = _shouts.decode(body)
        except msgspec.DecodeError:
            # Of a newer version, which also stores what must be known.
            return
        self._heard[message.node_id] = anyio.current_time()
        if isinstance(message, Here) and message.asks:
            self.shout(Here(self._membership.node_id))
        react = self._on.get(type(message))
        if react is not None:
            react()
