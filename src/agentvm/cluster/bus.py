"""Bus — fast messages between nodes. The database is authoritative: a lost message is found there.

Rules:
- `publish` never waits. A message that does not fit is dropped, and counted in `disturbed`, which goes with the beats of the
  node: on a change of the sum each node compares the sessions that it follows with the database, once.
- Every message carries a code of the server key over its topic and its body; others are dropped. An attacker on the bus without
  the key can therefore delay and read messages, but not send any.
- A node counts as connected while its heartbeats arrive over the bus. Events of nodes that are not connected are polled from
  the database, four times a second.
- Beats have numbers. A missing or late one shows that the servers of the bus had lost each other for a moment, of which neither
  node is told: this is counted in `disturbed` too.
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
BEAT_INTERVAL_SECONDS = 0.5
"""Time between two beats on the bus, at most. Servers that lose each other need a second to connect again: a beat is lost."""
BEAT_TIMEOUT_SECONDS = 1.0
"""Time after a beat of a node without another, when other messages may have been lost as well."""

ALL = "all"
"""The topic that every node subscribes to."""

OnPayload = Callable[[bytes], None]
"""Takes a message. It must not wait."""


class Bus(Protocol):
    """A way between nodes that may lose anything."""

    disturbed: int
    """How often messages from or to this node may have been lost; also incremented when a lost bus is reconnected, since
    events in the meantime were not published."""
    connected: Callable[[], None]
    """Called when the bus was reached, also again."""

    @property
    def is_up(self) -> bool: ...

    def publish(self, topic: str, body: bytes) -> bool:
        """Returns whether the message was accepted for sending. An accepted message may still be lost."""

    def listen(self, topic: str, hear: OnPayload) -> None: ...

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
    number: int = 0
    """Consecutive; 0 in messages of older versions."""


class Noticed(msgspec.Struct, frozen=True, tag=True):
    """A node has stored notices."""

    node_id: int


Shout = Here | Noticed
_shouts = msgspec.msgpack.Decoder(Here | Noticed)
_encoder = msgspec.msgpack.Encoder()


class Hearing:
    """The nodes that are connected to the bus, and broadcasts to all of them."""

    def __init__(self, bus: Bus, membership: Membership) -> None:
        self.bus = bus
        self._membership = membership
        self._beats: dict[int, float] = {}
        self._number = 0
        self._numbers: dict[int, int] = {}
        """The last heartbeat received from each node."""
        self._on: dict[type[Shout], Callable[[], None]] = {}
        bus.listen(ALL, self._receive)
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
        return anyio.current_time() - self._beats.get(node_id, float("-inf")) < self._membership.lease_seconds

    def shout(self, message: Shout) -> None:
        self.bus.publish(ALL, _encoder.encode(message))

    async def run(self) -> None:
        """Publishes heartbeats of this node until cancelled."""
        while True:
            with anyio.move_on_after(BEAT_INTERVAL_SECONDS):
                await self._membership.wait_beat()
            self._say_here()
            for node_id in self._beats.keys() - self._membership.up:
                del self._beats[node_id]
                self._numbers.pop(node_id, None)

    def _greet(self) -> None:
        self._say_here(asks=True)

    def _say_here(self, *, asks: bool = False) -> None:
        self._number += 1
        self.shout(Here(self._membership.node_id, asks, self._number))

    def _receive(self, body: bytes) -> None:
        try:
            message = _shouts.decode(body)
        except msgspec.DecodeError:
            # Of a newer version, which also stores what must be known.
            return
        if isinstance(message, Here) and message.number:
            self._look_for_loss(message)
        self._beats[message.node_id] = anyio.current_time()
        if isinstance(message, Here) and message.asks:
            self._say_here()
        react = self._on.get(type(message))
        if react is not None:
            react()

    def _look_for_loss(self, beat: Here) -> None:
        before, self._numbers[beat.node_id] = self._numbers.get(beat.node_id), beat.number
        is_late = anyio.current_time() - self._beats.get(beat.node_id, float("-inf")) >= BEAT_TIMEOUT_SECONDS
        if before is not None and (is_late or beat.number != before + 1):
            self.bus.disturbed += 1
