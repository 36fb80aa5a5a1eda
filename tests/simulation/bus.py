"""Bus — the simulated way between nodes: it delays, drops, splits, and loses connections, as a cluster of NATS servers does.

What one node publishes reaches another in the order it was published, or not at all. A node learns late, or never, that
something was lost: see `agentvm.cluster.bus` for what it must count.
"""

import asyncio
from collections.abc import Callable
from contextvars import Context

import anyio

from agentvm.cluster.bus import OnPayload
from tests.simulation.loop import Dice

UNNOTICED_SECONDS = 3.0
"""A connection that is lost without a word is noticed after so long, at most."""
SETTLE_SECONDS = 2.0
SPLIT_SECONDS = 1.0
"""Servers that have lost each other stay apart for so long, at least."""


class Wire:
    """The servers between the nodes."""

    def __init__(self, dice: Dice) -> None:
        self.dice = dice
        self.latency = dice.choice((0.0005, 0.005, 0.05))
        self.slow = False
        """Whether messages take seconds."""
        self.dropping = 0.0
        """The part of messages for which a node has no room."""
        self.sides: dict[int, bool] = {}
        """On which side of a split each node is."""
        self.buses: list[SimulatedBus] = []
        self.carried = self.lost = 0

    def heal(self) -> None:
        self.slow, self.dropping = False, 0.0
        self.sides.clear()

    def delay(self) -> float:
        return self.dice.pause(1.0) if self.slow and self.dice.happens(0.3) else self.dice.uniform(0.0, 2 * self.latency)

    def carry(self, sender: "SimulatedBus", topic: str, body: bytes) -> None:
        for bus in self.buses:
            if bus is not sender and topic in bus.known:
                if sender.reaches and bus.reaches and self.sides.get(sender.number) == self.sides.get(bus.number):
                    self.carried += 1
                    bus.take(sender, topic, body)
                else:
                    self.lost += 1


class SimulatedBus:
    """What one node has of the wire."""

    def __init__(self, wire: Wire, number: int, context: Context) -> None:
        self._wire = wire
        self.number = number
        self._context = context
        self._loop = asyncio.get_running_loop()
        self._topics: dict[str, OnPayload] = {}
        self.known: set[str] = set()
        """The topics of which the servers know."""
        self.reaches = True
        """Whether anything gets through to the servers and back."""
        self.is_up = True
        self._connection = 0
        self._due: dict[SimulatedBus, float] = {}
        self.disturbed = 0
        self.connected: Callable[[], None] = lambda: None
        wire.buses.append(self)

    def publish(self, topic: str, body: bytes) -> bool:
        if not self.is_up:
            return False
        if self._wire.dice.happens(self._wire.dropping):
            self.disturbed += 1
            return False
        self._wire.carry(self, topic, body)
        return True

    def listen(self, topic: str, hear: OnPayload) -> None:
        self._topics[topic] = hear
        if self.is_up:
            self._after(self._wire.latency, self._subscribe, topic, self._connection)

    def unlisten(self, topic: str) -> None:
        self._topics.pop(topic, None)
        self.known.discard(topic)

    async def settle(self) -> bool:
        connection = self._connection
        await anyio.sleep(2 * self._wire.latency if self.reaches else SETTLE_SECONDS)
        return self.is_up and self.reaches and connection == self._connection

    def take(self, sender: "SimulatedBus", topic: str, body: bytes) -> None:
        """Brings a message to the node, after those that the sender has published before."""
        self._due[sender] = due = max(self._due.get(sender, 0.0), self._loop.time() + self._wire.delay())
        self._loop.call_at(due, self._arrive, self._connection, topic, body, context=self._context)

    def cut(self) -> None:
        """Loses the connection; the node notices, and opens another one."""
        if self.reaches:
            self.reaches = False
            noticed = self._wire.dice.choice((0.0, self._wire.dice.uniform(0.0, UNNOTICED_SECONDS)))
            self._after(noticed, self._lose)

    def end(self) -> None:
        """The node is gone."""
        self.is_up = self.reaches = False
        self._connection += 1
        self.known.clear()
        if self in self._wire.buses:
            self._wire.buses.remove(self)

    def _after(self, seconds: float, do: Callable[..., None], *args: object) -> None:
        self._loop.call_later(seconds, do, *args, context=self._context)

    def _subscribe(self, topic: str, connection: int) -> None:
        if topic in self._topics and connection == self._connection:
            self.known.add(topic)

    def _arrive(self, connection: int, topic: str, body: bytes) -> None:
        if connection == self._connection and self.is_up and topic in self._topics:
            self._topics[topic](body)

    def _lose(self) -> None:
        if self in self._wire.buses:
            self.is_up = False
            self._connection += 1
            self.known.clear()
            self.disturbed += 1
            self._after(0.5 + self._wire.dice.pause(0.5), self._connect)

    def _connect(self) -> None:
        if self in self._wire.buses:
            self.is_up = self.reaches = True
            self.known = set(self._topics)
            self.disturbed += 1
            self.connected()
