"""Session lists — the sessions that a principal may use: list, search, and read their messages."""

from collections.abc import Sequence
from functools import partial
from typing import Annotated, Literal

import msgspec

from agentvm.errors import ContainerForbidden, SessionNotFound
from agentvm.model.base import record_from
from agentvm.model.ids import ImageId, MessageId, RewindId, SessionId
from agentvm.model.message import Message
from agentvm.model.session import Session, check_search
from agentvm.operations.operation import Context, Http, OperationGroup
from agentvm.operations.times import Moment, span_of
from agentvm.operations.turn import TurnRow, turn_rows
from agentvm.protocol.records import FoundRecord, SessionRecord, TitleRecord
from agentvm.protocol.requests import Reply, Request, SubscribingReply
from agentvm.sessions.message_pages import read_page, read_recent
from agentvm.storage.sessions import Found, FoundTitle, Listed, MessageQuery, MessageSearch, SessionQuery

operation = OperationGroup("sessions")

READ, USE = "sessions:read", "agent:use"

_ONE = "/v1/sessions/{session_id}"
Limit = Annotated[int, msgspec.Meta(ge=1, le=200)]


class SessionListReply(SubscribingReply):
    sessions: tuple[Session, ...]


class SessionList(Request[SessionListReply]):
    image_id: ImageId


@operation("session.list", needs=READ, command=True)
async def list_of_image(context: Context, request: SessionList) -> SessionListReply:
    """List the sessions of an image, its default session first."""
    store, image = await context.workspace.image(request.image_id)
    listed = await store.list_sessions(image.image_id)
    # The default one leads whatever its time says: the clock may have been set back since.
    sessions = tuple(sorted(listed, key=lambda session: session.session_id != image.session_id))
    subscriptions = tuple(session_id for session in sessions for session_id in context.subscribe(session))
    return SessionListReply(sessions=sessions, subscriptions=subscriptions)


class SessionBrowseReply(Reply):
    """`total` counts all pages, up to 10,000 sessions."""

    sessions: tuple[SessionRecord, ...]
    total: int
    next_cursor: str | None = None


class SessionBrowse(Request[SessionBrowseReply]):
    """Every field narrows the list. `archived` is false by default; `all` returns both.

    `since` and `until` bound the time of the last message. `forkedFrom` lists the forks of a session, each with the message it
    branches off at. `deleted` lists sessions that can be restored in place of the others, archived or not. `device` counts
    unread answers for that device. `cursor` is the `nextCursor` of the previous page.
    """

    container_id: str | None = None
    image_id: ImageId | None = None
    archived: bool | Literal["true", "false", "all"] = False
    pinned: bool | None = None
    since: Moment | None = None
    until: Moment | None = None
    title: str | None = None
    forked_from: SessionId | None = None
    deleted: bool = False
    device: str | None = None
    cursor: str | None = None
    limit: Limit = 50


@operation(
    "session.browse",
    needs=READ,
    command=True,
    http=Http("GET", "/v1/sessions", id="sessions_list_all", items="sessions", names=(None, "SessionsPage")),
    discloses=True,
    raises=(ContainerForbidden,),
)
async def browse(context: Context, request: SessionBrowse) -> SessionBrowseReply:
    """List sessions.

    Of one container, or of every container that you may use: pinned ones first, then by the time of the last message.
    """
    library = context.sessions
    query = record_from(
        SessionQuery,
        request,
        archived=None if request.deleted else _ARCHIVED[request.archived],
        deleted_after=context.vm.clock() - library.undo_ms if request.deleted else None,
        after=request.cursor,
        **span_of(request),
    )
    page = await (await library.within(request.container_id)).list(query, library.reader(request.device))
    sessions = tuple(session_record(item, undo_ms=library.undo_ms) for item in page.items)
    return SessionBrowseReply(sessions=sessions, total=page.total, next_cursor=page.next)


_ARCHIVED: dict[bool | str, bool | None] = {True: True, False: False, "true": True, "false": False, "all": None}


class SessionSearchReply(Reply):
    """`capped` when more messages match than are ranked; then the newest 10,000 were.

    `titles` are sessions whose title matches; on the first page, and not in `total`.
    """

    found: tuple[FoundRecord, ...]
    total: int
    capped: bool = False
    next_cursor: str | None = None
    titles: tuple[TitleRecord, ...] = ()


class SessionSearch(Request[SessionSearchReply]):
    """`q` holds the words; every other field narrows the search. `cursor` is the `nextCursor` of the previous page."""

    q: str
    container_id: str | None = None
    image_id: ImageId | None = None
    session_id: SessionId | None = None
    role: Literal["user", "assistant", "tool"] | None = None
    tool: str | None = None
    since: Moment | None = None
    until: Moment | None = None
    cursor: str | None = None
    limit: Annotated[int, msgspec.Meta(ge=1, le=100)] = 20


@operation(
    "session.search",
    needs=READ,
    command=True,
    http=Http("GET", "/v1/sessions/search", items="found", names=(None, "FoundPage")),
    discloses=True,
    raises=(ContainerForbidden,),
)
async def search(context: Context, request: SessionSearch) -> SessionSearchReply:
    """Search messages and titles.

    The best match first. Every word must be in a message, or in a title; a word of three letters or more also matches the
    beginning of a longer one.
    """
    text, now = check_search(request.q), context.vm.clock()
    query = record_from(MessageSearch, request, text=text, after=request.cursor, now=now, **span_of(request))
    page = await (await context.sessions.within(request.container_id)).search(query)
    matches = tuple(match_record(item) for item in page.items)
    titles = tuple(title_record(item) for item in page.titles)
    return SessionSearchReply(found=matches, total=page.total, capped=page.capped, next_cursor=page.next, titles=titles)


class SessionHistoryReply(Reply):
    """`nextCursor` continues in the same order, `previousCursor` in the other.

    A first page has `logCursor`: a subscription after it begins with the events that the messages do not show, those of a
    running turn included. `turns` are those of the messages, with their price, model and time, if they were asked for: a
    message names its own by `turnId`.
    """

    session_id: SessionId
    messages: tuple[Message, ...]
    total: int
    turns: tuple[TurnRow, ...] | None = None
    next_cursor: str | None = None
    previous_cursor: str | None = None
    log_cursor: str | None = None


class SessionHistory(Request[SessionHistoryReply]):
    """`cursor` is the `nextCursor` of the previous page. `around` names a message: those around it, oldest first.

    `rewind` reads the messages that a rewind removed, in place of the present ones. Over a WebSocket `follow` subscribes to the
    session, deltas included: the reply with the first page is followed by every event after its `logCursor`, in order. `turns`
    also reads the turns of the messages.
    """

    session_id: SessionId
    order: Literal["oldest", "newest"] = "oldest"
    cursor: str | None = None
    around: MessageId | None = None
    rewind: RewindId | None = None
    follow: bool = False
    turns: bool = False
    limit: Limit = 50


@operation(
    "session.history",
    needs=READ,
    command=True,
    http=Http("GET", f"{_ONE}/messages", id="sessions_messages", items="messages", names=(None, "MessagesPage")),
    discloses=True,
    raises=(SessionNotFound,),
)
async def history(context: Context, request: SessionHistory) -> SessionHistoryReply:
    """Read the messages of a session, from either end, or around one of them."""
    query = MessageQuery(
        order=request.order, cursor=request.cursor, around=request.around, rewind=request.rewind, limit=request.limit
    )
    is_first = request.cursor is None and request.around is None and request.rewind is None
    # Before the messages: what is stored in between is told twice, not never.
    log_cursor = str(await context.sessions.log_cursor(request.session_id)) if is_first else None
    if request.follow and log_cursor is not None:
        _, session = await context.workspace.session(request.session_id)
        # Behind the reply: what the peer hears after it is complete.
        context.after.append(partial(context.listen, session.container_id, request.session_id, int(log_cursor), True))
    page = await read_page(context.room, partial(context.sessions.messages, request.session_id), query)
    return SessionHistoryReply(
        session_id=request.session_id,
        messages=page.messages,
        total=page.total,
        turns=await _turns_of(context, request.session_id, page.messages) if request.turns else None,
        next_cursor=page.next,
        previous_cursor=page.previous,
        log_cursor=log_cursor,
    )


async def _turns_of(context: Context, session_id: SessionId, messages: Sequence[Message]) -> tuple[TurnRow, ...]:
    turn_ids = dict.fromkeys(message.turn_id for message in messages if message.turn_id is not None)
    turns = await context.store.find_turns(tuple(turn_ids))
    # What a fork began with was paid for in another session.
    return await turn_rows(context, [turn for turn in turns if turn.session_id == session_id])


class SessionMessagesReply(Reply):
    """`truncated` when older messages were left out because of their size: `session_history` reads all, page by page."""

    session_id: SessionId
    messages: tuple[Message, ...]
    truncated: bool = False


class SessionMessages(Request[SessionMessagesReply]):
    session_id: SessionId


@operation("session.messages", needs=READ, command=True)
async def messages(context: Context, request: SessionMessages) -> SessionMessagesReply:
    """Read the newest messages of a session at once."""
    store, session = await context.workspace.session(request.session_id)
    context.subscribe(session)
    newest, truncated = await read_recent(context.room, store, session.session_id)
    return SessionMessagesReply(session_id=session.session_id, messages=newest, truncated=truncated)


def session_record(listed: Listed, *, undo_ms: int = 0) -> SessionRecord:
    deleted_at = listed.session.deleted_at
    return record_from(
        SessionRecord, listed.session, listed, restorable_until=None if deleted_at is None else deleted_at + undo_ms
    )


def match_record(match: Found) -> FoundRecord:
    return record_from(FoundRecord, match.session, match)


def title_record(match: FoundTitle) -> TitleRecord:
    session = match.session
    at = session.created_at if session.last_message_at is None else session.last_message_at
    return record_from(TitleRecord, session, title=session.title or "", at=at, snippet=match.snippet)
