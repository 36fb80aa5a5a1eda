"""Run stream — a turn as the events of a run, or as one JSON document at its end, with a heartbeat in between."""

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import msgspec

from agentvm.errors import NotFound
from agentvm.gateways.langgraph.history import read_after, read_before
from agentvm.gateways.langgraph.interrupts import interrupt_of
from agentvm.gateways.langgraph.run_events import RunEvents
from agentvm.gateways.sse import HEARTBEAT
from agentvm.gateways.talk import SentTurn, Talk
from agentvm.gateways.turn_parts import PartReader, TurnEnded, TurnPart, TurnWaits
from agentvm.operations.http_reply import Streamed, StreamSource
from agentvm.operations.tool import ToolWaits

JSON_HEARTBEAT = b"\n"
"""Space before a document is part of JSON."""


@dataclass(frozen=True, slots=True)
class Settled:
    """The past of a run when its stream begins: a turn that has waited continues since, unless one of `open_waits` is open.

    `answered` are the waits that the request answers. They are stored one after the other, and the turn may wait in between.
    """

    cursor: int = 0
    open_waits: frozenset[str] = frozenset()
    answered: frozenset[str] = frozenset()

    def is_waiting(self, part: TurnWaits, cursor: int) -> bool:
        """Returns whether the turn waits since then."""
        if part.waits and self.answered.issuperset(part.waits):
            return False
        return cursor > self.cursor or not self.open_waits.isdisjoint(part.waits)


NOTHING_SETTLED = Settled()

OnClosed = Callable[[bool], Awaitable[None]]
"""Is told whether the turn has ended."""


@dataclass(frozen=True, slots=True)
class FollowedRun:
    """A run that a stream follows. One that is queued does not know the answer of the run before it yet."""

    talk: Talk
    sent: SentTurn
    settled: Settled
    is_queued: bool = False


def stream_run(run: FollowedRun, events: RunEvents, on_closed: OnClosed) -> Streamed:
    """Returns the run as events."""
    return _streamed(_EventStream(run, events), HEARTBEAT, on_closed)


def await_run(run: FollowedRun, on_closed: OnClosed) -> Streamed:
    """Returns the values at the end of the run, as JSON."""
    return _streamed(_ResultStream(run), JSON_HEARTBEAT, on_closed)


class _RunSource:
    """Reads the parts of a turn. `take` may be cancelled: parts that were read and not returned are kept."""

    def __init__(self, run: FollowedRun) -> None:
        self._run = run
        self.follower = run.talk.follow(run.sent)
        self._reader = PartReader()
        self._parts: list[tuple[TurnPart, int]] = []
        self.is_done = False

    async def take(self) -> bytes:
        raise NotImplementedError

    async def _read(self) -> bool:
        """Waits for parts of the turn; returns whether there are any."""
        while not self._parts:
            try:
                events = await self.follower.take()
            except NotFound:
                # The session was deleted, or its events are: there is nothing more to tell.
                events = []
            if not events:
                return False
            self._parts += [(part, event.seq) for event in events for part in self._reader.read(event)]
            self._parts = [counted for counted in self._parts if self._counts(*counted)]
        return True

    def _counts(self, part: TurnPart, cursor: int) -> bool:
        return not isinstance(part, TurnWaits) or self._run.settled.is_waiting(part, cursor)


class _EventStream(_RunSource):
    def __init__(self, run: FollowedRun, events: RunEvents) -> None:
        super().__init__(run)
        self._events = events
        self._knows_history = False
        self._pieces = [events.begin(run.sent.cursor)]

    async def take(self) -> bytes:
        while not self.is_done and not any(self._pieces):
            await self._write()
        pieces, self._pieces = self._pieces, []
        return b"".join(pieces)

    async def _write(self) -> None:
        run = self._run
        if not self._knows_history and (not run.is_queued or await self._read()):
            try:
                history = await read_before(run.talk, run.sent.turn)
            except NotFound:
                self.is_done = True
                return
            self._knows_history = True
            cursor = self._parts[0][1] if self._parts else run.sent.cursor + 1
            self._pieces.append(self._events.remember(history, cursor))
            return
        if not await self._read():
            self.is_done = True
        parts, self._parts = self._parts, []
        for part, seq in parts:
            if not self._events.is_done:
                self._pieces.append(self._events.write(part, seq))
        self.is_done = self.is_done or self._events.is_done


class _ResultStream(_RunSource):
    async def take(self) -> bytes:
        if self.is_done:
            return b""
        last: TurnPart | None = None
        while await self._read():
            last = next((part for part, _ in self._parts if isinstance(part, TurnEnded | TurnWaits)), None)
            if last is not None:
                # Its part is kept: it may be cancelled and taken again.
                break
            self._parts = []
        try:
            values = await self._values(last if isinstance(last, TurnEnded) else None)
        except NotFound as error:
            # The thread was deleted while its run was awaited.
            values = {"__error__": {"error": error.code, "message": str(error)}}
        self.is_done = True
        return msgspec.json.encode(values)

    async def _values(self, ended: TurnEnded | None) -> dict[str, Any]:
        if ended is not None and ended.outcome == "failed":
            code, message = ended.error or ("internal", "The turn failed")
            return {"__error__": {"error": code, "message": message}}
        talk, sent = self._run.talk, self._run.sent
        values: dict[str, Any] = {"messages": await read_after(talk, sent.turn)}
        if ended is None:
            waits = (await talk.ask(ToolWaits(session_id=sent.session_id, state="open"))).waits
            interrupts = [interrupt_of(wait) for wait in waits]
            values |= {"__interrupt__": interrupts} if interrupts else {}
        return values


def _streamed(source: _RunSource, heartbeat: bytes, on_closed: OnClosed) -> Streamed:
    @contextmanager
    def opened() -> Iterator[StreamSource]:
        with source.follower:
            yield source

    async def closed() -> None:
        await on_closed(source.is_done)

    return Streamed(opened, heartbeat, follows=True, closed=closed)
