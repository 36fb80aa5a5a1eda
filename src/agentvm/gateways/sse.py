"""Server-sent events — the one writer of all gateways: pieces of a turn as they arrive, with a heartbeat in between."""

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

from agentvm.errors import NotFound
from agentvm.gateways.talk import SentTurn, Talk
from agentvm.gateways.turn_parts import PartReader, TurnPart
from agentvm.operations.http_reply import Streamed, StreamSource
from agentvm.runtime.follow import TurnFollower

MEDIA_TYPE = "text/event-stream"
HEARTBEAT = b": \n\n"


def event(data: bytes, name: str | None = None, number: int | None = None) -> bytes:
    """Returns one event; a client sends `number` back as `Last-Event-ID`."""
    head = b"" if number is None else b"id: %d\n" % number
    return b"%b%bdata: %b\n\n" % (head, b"" if name is None else b"event: %b\n" % name.encode(), data)


class Encoder(Protocol):
    """Writes the parts of one turn in a dialect."""

    def begin(self) -> bytes:
        """Returns the events before the first part."""

    def write(self, part: TurnPart, cursor: int) -> bytes:
        """Returns a part, often nothing; `cursor` is that of its event."""

    @property
    def is_done(self) -> bool:
        """Whether nothing more is to be written, before the turn's end as well."""


OnEnd = Callable[[], Awaitable[None]]


def stream_parts(talk: Talk, sent: SentTurn, encoder: Encoder, *, on_end: OnEnd | None = None, interrupts: bool) -> Streamed:
    """Returns the turn as a stream. `on_end` is awaited before the last piece is sent.

    With `interrupts`, a client that leaves before the end stops the turn; else the turn continues.
    """
    follower = talk.follow(sent)
    source = _PartStream(follower, encoder, on_end)

    @contextmanager
    def opened() -> Iterator[StreamSource]:
        with follower:
            yield source

    async def closed() -> None:
        if interrupts and not source.is_done:
            await talk.stop(sent)

    return Streamed(opened, HEARTBEAT, follows=True, closed=closed)


async def write_parts(talk: Talk, sent: SentTurn, encoder: Encoder, *, interrupts: bool = False) -> None:
    """Writes the turn up to where its encoder is done, for an answer in one piece. `interrupts` as for a stream."""
    try:
        async for part in talk.parts(sent):
            encoder.write(part, 0)
            if encoder.is_done:
                break
    finally:
        if interrupts and not encoder.is_done:
            # The client has left.
            await talk.stop(sent)


class _PartStream:
    """The source of a stream of parts. `take` may be cancelled: parts that were read and not returned are kept."""

    def __init__(self, follower: TurnFollower, encoder: Encoder, on_end: OnEnd | None) -> None:
        self._follower, self._encoder, self._on_end = follower, encoder, on_end
        self._reader = PartReader()
        self._pieces = [encoder.begin()]
        self.is_done = False

    async def take(self) -> bytes:
        while not self.is_done and not any(self._pieces):
            await self._read()
        if self.is_done and self._on_end is not None:
            await self._on_end()
            self._on_end = None
        pieces, self._pieces = self._pieces, []
        return b"".join(pieces)

    async def _read(self) -> None:
        try:
            events = await self._follower.take()
        except NotFound:
            # The session was deleted: there is nothing more to tell.
            events = []
        for event in events:
            self._pieces += [self._encoder.write(part, event.seq) for part in self._reader.read(event)]
        self.is_done = not events or self._encoder.is_done
