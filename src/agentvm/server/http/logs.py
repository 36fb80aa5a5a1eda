"""Logs — `/v1/logs`: what the server has logged, newest first, or as it comes."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from agentvm.errors import InvalidInput
from agentvm.observability.log_book import LogFollower
from agentvm.observability.log_entry import LogEntry
from agentvm.observability.log_filter import LogFilter, LogScope, log_scope
from agentvm.operations.accept import preferred
from agentvm.operations.http_reply import Streamed, StreamSource
from agentvm.server.http.route import BIG, Answer, Ask, Given, Limit, Page, Routes, moment

routes = Routes()

LINES = "application/x-ndjson"
EVENTS = "text/event-stream"

MOST_BYTES = 256 * 1024
"""Of one piece of a stream."""

Number = Annotated[int, Meta(ge=0, le=BIG)]
Word = Annotated[str, Meta(min_length=1, max_length=200)]


class LogsGiven(Given):
    """`before` is the `next` of the page before; `after` is the number that a stream goes on behind."""

    level: Literal["debug", "info", "warning", "error", "critical"] | None = None
    since: str | None = None
    until: str | None = None
    request: Word | None = None
    turn: Word | None = None
    session: Word | None = None
    container: Word | None = None
    event: Word | None = None
    text: Word | None = None
    before: Number | None = None
    limit: Limit = 100
    follow: bool = False
    after: Number | None = None


@routes.add("GET", "/v1/logs", needs=("logs:read",), takes=LogsGiven, media_type=LINES)
async def list_all(ask: Ask[LogsGiven]) -> Page[LogEntry] | Answer[Streamed]:
    """List what was logged.

    Newest first; a page may hold fewer than `limit` and still have a `next`. With `follow=true` the answer goes on: entries
    as they come, each once, the oldest first, as lines of JSON, or as server-sent events to who accepts `text/event-stream`;
    it begins with the newest `limit`, or behind `after`. Entries of no tenant are seen by the operator only.
    """
    given, wanted = ask.given, filter_of(ask.given)
    scope = log_scope(ask.principal, ask.tenant_id if ask.named else None)
    if given.follow:
        return await _follow(ask, wanted, scope)
    if given.after is not None:
        raise InvalidInput("`after` goes together with follow=true; pages go on with `before`")
    found = await ask.vm.logs.find(wanted, scope, before=given.before, limit=given.limit)
    return Page(items=found.entries, next=None if found.next is None else str(found.next))


def filter_of(given: LogsGiven) -> LogFilter:
    return LogFilter(
        level=given.level,
        since=moment(given.since, "since"),
        until=moment(given.until, "until"),
        request_id=given.request,
        turn_id=given.turn,
        session_id=given.session,
        container_id=given.container,
        event=given.event,
        text=given.text,
    )


async def _follow(ask: Ask[LogsGiven], wanted: LogFilter, scope: LogScope) -> Answer[Streamed]:
    given, book = ask.given, ask.vm.logs
    if given.before is not None:
        raise InvalidInput("`before` is for pages; with follow=true say `after`, or neither")
    first: Sequence[LogEntry] = ()
    after = given.after
    if after is None:
        after = book.last
        found = await book.find(wanted, scope, before=after + 1, limit=given.limit)
        first = found.entries[::-1]
    as_events = preferred(ask.accept, (LINES, EVENTS)) == EVENTS

    @contextmanager
    def opened() -> Iterator[StreamSource]:
        with book.follow(wanted, scope, after=after) as follower:
            yield _Lines(follower, first, as_events=as_events)

    heartbeat = b": still here\n\n" if as_events else b"\n"
    return Answer(content=Streamed(opened, heartbeat), media_type=EVENTS if as_events else LINES)


class _Lines:
    """A follower's entries as bytes, a few at a time."""

    def __init__(self, follower: LogFollower, first: Sequence[LogEntry], *, as_events: bool) -> None:
        self._follower, self._as_events = follower, as_events
        self._waiting = list(first[::-1])

    async def take(self) -> bytes:
        if not self._waiting:
            self._waiting = (await self._follower.take())[::-1]
        piece = b""
        while self._waiting and len(piece) < MOST_BYTES:
            piece += self._written(self._waiting.pop())
        return piece

    def _written(self, entry: LogEntry) -> bytes:
        line = msgspec.json.encode(entry)
        return b"id: %d\ndata: %b\n\n" % (entry.number, line) if self._as_events else line + b"\n"
