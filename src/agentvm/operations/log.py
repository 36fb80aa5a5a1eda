"""Logs — the entries of the server's log: a list, newest first, or a stream of new ones."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Literal

import msgspec
from msgspec import Meta

from agentvm.errors import InvalidInput
from agentvm.model.base import record_from
from agentvm.observability.log_entry import LogEntry
from agentvm.observability.log_filter import LogFilter, LogScope, log_scope
from agentvm.operations.accept import preferred
from agentvm.operations.http_reply import HttpReply, Streamed, StreamSource
from agentvm.operations.numbers import Amount
from agentvm.operations.operation import Context, Http, OperationGroup
from agentvm.operations.pages import Page, PageRequest, number_of
from agentvm.operations.times import span_of

if TYPE_CHECKING:
    from agentvm.observability.log_book import LogFollower

operation = OperationGroup("logs")

LINES = "application/x-ndjson"
EVENTS = "text/event-stream"

PIECE_MAX_BYTES = 256 * 1024
"""A piece of a stream ends with the entry that reaches this size."""

Word = Annotated[str, Meta(min_length=1, max_length=200)]


class LogList(PageRequest):
    """Every field narrows the list; `level` is the minimum level. `after` is the number of the last entry that was seen.

    `cursor` is for pages, `after` for a stream.
    """

    level: Literal["debug", "info", "warning", "error", "critical"] | None = None
    since: str | None = None
    until: str | None = None
    request_id: Word | None = None
    turn_id: Word | None = None
    session_id: Word | None = None
    container_id: Word | None = None
    event: Word | None = None
    text: Word | None = None
    follow: bool = False
    after: Amount | None = None


@operation(
    "log.list",
    needs="logs:read",
    http=Http("GET", "/v1/logs", rename={"request_id": "request", "turn_id": "turn"}, media_type=LINES),
)
async def list_all(context: Context, request: LogList) -> Page[LogEntry] | HttpReply[Streamed]:
    """List log entries, or follow the log.

    Newest first; a page may hold fewer than `limit` entries and still have a `nextCursor`. With `follow=true` the response does
    not end: new entries are sent as they come, each once, oldest first, as lines of JSON, or as server-sent events if
    `text/event-stream` is accepted. A stream begins with the newest `limit` entries, or with those after `after`. Only the
    operator sees entries of no tenant.
    """
    criteria = record_from(LogFilter, request, **span_of(request))
    scope = log_scope(context.principal, context.tenant_id if context.http.names_tenant else None)
    if request.follow:
        return await _follow(context, request, criteria, scope)
    if request.after is not None:
        raise InvalidInput("`after` needs follow=true; for the next page, use `cursor`")
    page = await context.vm.logs.find(criteria, scope, before=number_of(request.cursor), limit=request.limit)
    return Page(items=page.entries, next_cursor=None if page.next is None else str(page.next))


async def _follow(context: Context, request: LogList, criteria: LogFilter, scope: LogScope) -> HttpReply[Streamed]:
    book, after = context.vm.logs, request.after
    if request.cursor is not None:
        raise InvalidInput("`cursor` is for pages; with follow=true, use `after`")
    newest: Sequence[LogEntry] = ()
    if after is None:
        after = book.last
        page = await book.find(criteria, scope, before=after + 1, limit=request.limit)
        newest = page.entries[::-1]
    as_events = preferred(context.http.accept, (LINES, EVENTS)) == EVENTS

    @contextmanager
    def opened() -> Iterator[StreamSource]:
        with book.follow(criteria, scope, after=after) as follower:
            yield _EntryStream(follower, newest, as_events=as_events)

    heartbeat = b": still here\n\n" if as_events else b"\n"
    return HttpReply(content=Streamed(opened, heartbeat), media_type=EVENTS if as_events else LINES)


class _EntryStream:
    """Encodes the entries of a follower, a few at a time."""

    def __init__(self, follower: "LogFollower", newest: Sequence[LogEntry], *, as_events: bool) -> None:
        self._follower, self._as_events = follower, as_events
        self._waiting = list(newest[::-1])

    async def take(self) -> bytes:
        if not self._waiting:
            self._waiting = (await self._follower.take())[::-1]
        piece = b""
        while self._waiting and len(piece) < PIECE_MAX_BYTES:
            piece += self._encode(self._waiting.pop())
        return piece

    def _encode(self, entry: LogEntry) -> bytes:
        line = msgspec.json.encode(entry)
        return b"id: %d\ndata: %b\n\n" % (entry.number, line) if self._as_events else line + b"\n"
