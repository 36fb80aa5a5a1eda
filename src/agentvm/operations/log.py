"""Logs — the entries of the server's log: a list, newest first, or a stream of new ones."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec
from msgspec import Meta
from msgspec.structs import replace

from agentvm.errors import InvalidInput
from agentvm.model.base import record_from
from agentvm.observability.log_entry import LogEntry
from agentvm.observability.log_filter import LogFilter, LogScope, log_scope
from agentvm.operations.accept import preferred
from agentvm.operations.across_nodes import NodeChoice, SilentNode, ask_nodes, silent_nodes
from agentvm.operations.http_reply import HttpReply, Streamed, StreamSource
from agentvm.operations.numbers import Amount
from agentvm.operations.operation import Context, Http, OperationGroup
from agentvm.operations.pages import INVALID_CURSOR, Page, PageRequest, is_number, number_of
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

    `cursor` is for pages, `after` for a stream. In a cluster `nodes` is `all`, or the number of a node; without it the log is
    that of the node which is asked.
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
    nodes: NodeChoice | None = None


class LogEntries(Page[LogEntry]):
    """A page of the log, with the nodes that were asked and have not answered."""

    silent_nodes: Sequence[SilentNode] | None = None


@operation(
    "log.list",
    needs="logs:read",
    http=Http("GET", "/v1/logs", rename={"request_id": "request", "turn_id": "turn"}, media_type=LINES),
)
async def list_all(context: Context, request: LogList) -> LogEntries | HttpReply[Streamed]:
    """List log entries, or follow the log.

    Newest first; a page may hold fewer than `limit` entries and still have a `nextCursor`. With `follow=true` the response does
    not end: new entries are sent as they come, each once, oldest first, as lines of JSON, or as server-sent events if
    `text/event-stream` is accepted. A stream begins with the newest `limit` entries, or with those after `after`. Only the
    operator sees entries of no tenant. In a cluster `nodes=all` lists the entries of all nodes, each with its `nodeId`; a
    stream is that of the node which is asked.
    """
    if request.follow:
        if request.nodes is not None:
            raise InvalidInput("A stream has only the entries of the requested node: leave out `nodes`, or follow=true")
        criteria = record_from(LogFilter, request, **span_of(request))
        return await _follow(context, request, criteria, _scope(context))
    if request.after is not None:
        raise InvalidInput("`after` needs follow=true; for the next page, use `cursor`")
    if request.nodes is None:
        return await _find(context, request)
    return await _find_on_nodes(context, request, request.nodes)


def _scope(context: Context) -> LogScope:
    return log_scope(context.principal, context.tenant_id if context.http.names_tenant else None)


async def _find(context: Context, request: LogList) -> LogEntries:
    criteria = record_from(LogFilter, request, **span_of(request))
    page = await context.vm.logs.find(criteria, _scope(context), before=number_of(request.cursor), limit=request.limit)
    return LogEntries(items=page.entries, next_cursor=None if page.next is None else str(page.next))


async def _find_on_nodes(context: Context, request: LogList, nodes: str) -> LogEntries:
    """The newest entries of all nodes. The cursor says for each node where its next page begins."""
    places = _read_places(request.cursor)

    def ask(node_id: int) -> LogList | None:
        place = None if places is None else places.get(node_id, 0)
        return None if place == 0 else replace(request, nodes=None, cursor=None if place is None else str(place))

    async def here(node_request: Any) -> LogEntries:
        return await _find(context, node_request)

    replies = await ask_nodes(context, nodes, "log.list", ask, here, LogEntries)
    pages = {reply.node_id: reply.result for reply in replies if reply.result is not None}
    entries = [replace(entry, node_id=node or None) for node, page in pages.items() for entry in page.items]
    shown = sorted(entries, key=lambda entry: (-entry.at, -entry.number))[: request.limit]
    # One that is silent now is asked from the same place for the next page.
    next_places = {reply.node_id: (places or {}).get(reply.node_id) for reply in replies if reply.error and places is not None}
    for node, page in pages.items():
        numbers = [entry.number for entry in shown if (entry.node_id or 0) == node]
        if len(numbers) == len(page.items):
            next_places[node] = None if page.next_cursor is None else int(page.next_cursor)
        else:
            next_places[node] = numbers[-1] if numbers else (places or {}).get(node, page.items[0].number + 1)
    left = {node: place for node, place in next_places.items() if place}
    return LogEntries(items=shown, next_cursor=_write_places(left), silent_nodes=silent_nodes(replies) or None)


def _read_places(cursor: str | None) -> dict[int, int] | None:
    if cursor is None:
        return None
    pairs = [part.partition(":") for part in cursor.split(",")]
    if not all(is_number(node) and is_number(place) for node, _, place in pairs):
        raise InvalidInput(INVALID_CURSOR)
    return {int(node): int(place) for node, _, place in pairs}


def _write_places(places: Mapping[int, int]) -> str | None:
    return ",".join(f"{node}:{place}" for node, place in sorted(places.items())) or None


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
