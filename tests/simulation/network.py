"""Network — sockets with latency and a window, that can stall, break, or fall silent without anybody noticing.

The server's end speaks ASGI. Within one connection nothing is lost or reordered, as TCP has it; between two, anything.
"""

import asyncio
from collections import deque
from typing import Any, Protocol

import msgspec

from tests.simulation.loop import Dice

Message = dict[str, Any]

HEARTBEAT = 30.0
"""After one to two of these the server learns that a silent peer is gone."""

_encode = msgspec.json.Encoder().encode


class PeerEnd(Protocol):
    """Who is at the other end."""

    def hear(self, socket: "Socket", text: str) -> None: ...

    def lost(self, socket: "Socket", code: int) -> None:
        """The connection has ended, as the peer sees it; 1006 when nobody said why."""


class Socket:
    """One connection. What is said comes through after a while, all that was said until then at once."""

    def __init__(self, dice: Dice, peer: PeerEnd) -> None:
        self._dice = dice
        self._peer = peer
        self._loop = asyncio.get_running_loop()
        self._latency = dice.choice((0.0005, 0.005, 0.08))
        self._window = dice.choice((4, 32, 256))
        self._inbox: deque[Message] = deque([{"type": "websocket.connect"}])
        self._arrived: asyncio.Future[None] | None = None
        self._upstream: deque[Message] = deque()
        self._downstream: deque[Message] = deque()
        self._room: asyncio.Future[None] | None = None
        self._gone = False
        """The server's end is dead: whatever it sends fails."""
        self.open = True
        """Whether the peer believes that it is connected."""
        self._reading = True
        self._delivering = False

    # The peer's end.

    def say(self, frame: object) -> None:
        if self.open:
            text = frame if isinstance(frame, str) else _encode(frame).decode()
            self._send_up({"type": "websocket.receive", "text": text})

    def close(self) -> None:
        if self.open:
            self._send_up({"type": "websocket.disconnect", "code": 1000})
            self._forget()

    def vanish(self) -> None:
        """The peer is gone, and the server does not hear of it before its heartbeat fails."""
        if self.open:
            self._upstream.clear()
            self._forget()
            self._loop.call_later(self._dice.uniform(HEARTBEAT, 2 * HEARTBEAT), self._break)

    def stop_reading(self) -> None:
        self._reading = False

    def read_on(self) -> None:
        self._reading = True
        self._schedule()

    # The server's end.

    async def receive(self) -> Message:
        while not self._inbox:
            self._arrived = self._loop.create_future()
            await self._arrived
        return self._inbox.popleft()

    async def send(self, message: Message) -> None:
        while len(self._downstream) >= self._window and not self._gone:
            self._room = self._loop.create_future()
            await self._room
        if self._gone:
            raise OSError("the peer is gone")
        self._downstream.append(message)
        self._schedule()

    def abort(self) -> None:
        self._break()

    def end(self) -> None:
        """The server's handler has returned, or its process has died: the connection is closed."""
        self._gone = True
        self._reading = True
        self._downstream.append({"type": "websocket.close", "code": 1006})
        self._schedule()

    def _send_up(self, message: Message) -> None:
        self._upstream.append(message)
        if len(self._upstream) == 1:
            self._loop.call_later(self._dice.uniform(0.0, 2 * self._latency), self._arrive)

    def _arrive(self) -> None:
        while self._upstream:
            self._put(self._upstream.popleft())

    def _put(self, message: Message) -> None:
        if message["type"] == "websocket.disconnect":
            self._gone = True
            _wake(self._room)
        self._inbox.append(message)
        _wake(self._arrived)

    def _break(self) -> None:
        if not self._gone:
            self._put({"type": "websocket.disconnect", "code": 1006})
        if self.open:
            self._loop.call_later(self._latency, self._lose, 1006)

    def _schedule(self) -> None:
        if not self._delivering and self._reading and self.open:
            self._delivering = True
            self._loop.call_later(self._dice.uniform(0.0, 2 * self._latency), self._deliver)

    def _deliver(self) -> None:
        self._delivering = False
        while self._downstream and self._reading and self.open:
            message = self._downstream.popleft()
            if message["type"] == "websocket.send":
                self._peer.hear(self, message["text"])
            elif message["type"] == "websocket.close":
                self._put({"type": "websocket.disconnect", "code": message["code"]})
                self._lose(message["code"])
        _wake(self._room)

    def _lose(self, code: int) -> None:
        if self.open:
            self._forget()
            self._peer.lost(self, code)

    def _forget(self) -> None:
        """From here on nothing reaches the peer. What it does not take fills the window, as in a half-open connection."""
        self.open = False


def _wake(waiting: "asyncio.Future[None] | None") -> None:
    if waiting is not None and not waiting.done():
        waiting.set_result(None)
