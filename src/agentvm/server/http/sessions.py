"""Sessions — `/v1/sessions`: list, find, read, keep and delete what was said."""

from functools import partial
from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, UnsetType

from agentvm.commands.session import match_record, session_record, title_record
from agentvm.errors import ContainerForbidden, SessionNotFound
from agentvm.model.base import Record
from agentvm.model.ids import ImageId, MessageId, RewindId, SessionId
from agentvm.model.message import Message
from agentvm.protocol.records import FoundRecord, SessionRecord, TitleRecord
from agentvm.server.http.route import Ask, Given, Nothing, Routes, moment
from agentvm.sessions.library import SessionLibrary, check_search, check_title
from agentvm.sessions.message_pages import read_page
from agentvm.sharing.request_reservation import RequestReservation
from agentvm.storage.sessions import MessageQuery, MessageSearch, SessionQuery

routes = Routes()

READ, WRITE = ("sessions:read",), ("agent:use",)
_ALL, _ONE = "/v1/sessions", "/v1/sessions/{session_id:str}"
Limit = Annotated[int, Meta(ge=1, le=200)]


class ListGiven(Given):
    """Every member narrows the list. `cursor` is the `nextCursor` of the page before.

    `since` and `until` are about when something was last said. `device` counts what is unread for that device.
    """

    container: str | None = None
    image: str | None = None
    archived: Literal["true", "false", "all"] = "false"
    pinned: bool | None = None
    since: str | None = None
    until: str | None = None
    title: str | None = None
    device: str | None = None
    cursor: str | None = None
    limit: Limit = 50


class SearchGiven(Given):
    """`q` are the words; every other member narrows the search. `cursor` is the `nextCursor` of the page before."""

    q: str
    container: str | None = None
    image: str | None = None
    session: str | None = None
    role: Literal["user", "assistant", "tool"] | None = None
    tool: str | None = None
    since: str | None = None
    until: str | None = None
    cursor: str | None = None
    limit: Annotated[int, Meta(ge=1, le=100)] = 20


class MessagesGiven(Given):
    """`cursor` is the `nextCursor` of the page before. `around` is a message: those around it, oldest first.

    With `rewind` what it took back, in place of what stands.
    """

    order: Literal["oldest", "newest"] = "oldest"
    cursor: str | None = None
    around: str | None = None
    rewind: str | None = None
    limit: Limit = 50


class DeviceGiven(Given):
    device: str | None = None


class ChangeGiven(Given):
    """What is not given stays; `title: null` removes the title."""

    title: str | UnsetType | None = UNSET
    pinned: bool | None = None
    archived: bool | None = None


class ReadGiven(Given):
    """Up to the place that a `cursor` names, or that message; to the end if neither is given."""

    cursor: str | None = None
    message_id: str | None = None
    device: str | None = None


class SessionsPage(Record):
    items: tuple[SessionRecord, ...]
    total: int
    next_cursor: str | None = None


class FoundPage(Record):
    """`capped` when there are more than are ranked; then the newest 10,000 were.

    `titles` are sessions with the words in their title; on the first page, and not in `total`.
    """

    items: tuple[FoundRecord, ...]
    total: int
    capped: bool = False
    next_cursor: str | None = None
    titles: tuple[TitleRecord, ...] = ()


class MessagesPage(Record):
    """`nextCursor` goes on in the same order, `previousCursor` the other way."""

    items: tuple[Message, ...]
    total: int
    next_cursor: str | None = None
    previous_cursor: str | None = None


class DeletedView(Record):
    session_id: SessionId
    restorable_until: int


@routes.add("GET", _ALL, needs=READ, takes=ListGiven, raises=(ContainerForbidden,))
async def list_all(ask: Ask[ListGiven]) -> SessionsPage:
    """List sessions.

    Of a container, or of all that you may reach: pinned ones first, then by when something was last said.
    """
    given, library = ask.given, library_of(ask)
    wanted = SessionQuery(
        image_id=None if given.image is None else ImageId(given.image),
        archived={"true": True, "false": False, "all": None}[given.archived],
        pinned=given.pinned,
        since=moment(given.since, "since"),
        until=moment(given.until, "until"),
        title=given.title,
        after=given.cursor,
        limit=given.limit,
    )
    found = await (await library.within(given.container)).list(wanted, library.reader(given.device))
    return SessionsPage(items=tuple(session_record(item) for item in found.items), total=found.total, next_cursor=found.next)


@routes.add("GET", "/v1/sessions/search", needs=READ, takes=SearchGiven, raises=(ContainerForbidden,))
async def search(ask: Ask[SearchGiven]) -> FoundPage:
    """Search what was said, and titles.

    The best first. Every word must be in a message, or in a title; one of three letters or more may be the beginning of a
    longer one.
    """
    given = ask.given
    wanted = MessageSearch(
        text=check_search(given.q),
        image_id=None if given.image is None else ImageId(given.image),
        session_id=None if given.session is None else SessionId(given.session),
        role=given.role,
        tool=given.tool,
        since=moment(given.since, "since"),
        until=moment(given.until, "until"),
        after=given.cursor,
        limit=given.limit,
        now=ask.vm.clock(),
    )
    page = await (await library_of(ask).within(given.container)).search(wanted)
    items = tuple(match_record(item) for item in page.items)
    titles = tuple(title_record(item) for item in page.titles)
    return FoundPage(items=items, total=page.total, capped=page.capped, next_cursor=page.next, titles=titles)


@routes.add("GET", _ONE, needs=READ, takes=DeviceGiven, raises=(SessionNotFound,))
async def get(ask: Ask[DeviceGiven]) -> SessionRecord:
    """Show a session."""
    return session_record(await library_of(ask).get(_named(ask), ask.given.device))


@routes.add("GET", f"{_ONE}/messages", needs=READ, takes=MessagesGiven, raises=(SessionNotFound,))
async def messages(ask: Ask[MessagesGiven]) -> MessagesPage:
    """Read the messages of a session, from either end, or around one of them."""
    given = ask.given
    around = None if given.around is None else MessageId(given.around)
    rewind = None if given.rewind is None else RewindId(given.rewind)
    wanted = MessageQuery(order=given.order, cursor=given.cursor, around=around, rewind=rewind, limit=given.limit)
    with RequestReservation(ask.vm.budget, ask.tenant_id) as room:
        page = await read_page(room, partial(library_of(ask).messages, _named(ask)), wanted)
    return MessagesPage(items=page.messages, total=page.total, next_cursor=page.next, previous_cursor=page.previous)


@routes.add("PUT", _ONE, needs=WRITE, takes=ChangeGiven, action="session.change", raises=(SessionNotFound,))
async def change(ask: Ask[ChangeGiven]) -> SessionRecord:
    """Rename, pin or archive a session."""
    given, library, session_id = ask.given, library_of(ask), _named(ask)
    if given.title is not UNSET:
        check_title(given.title)
        await library.rename(session_id, given.title)
    if given.pinned is not None or given.archived is not None:
        await library.keep(session_id, pinned=given.pinned, archived=given.archived)
    return session_record(await library.get(session_id))


@routes.add("DELETE", _ONE, needs=WRITE, takes=Nothing, action="session.delete", raises=(SessionNotFound,))
async def delete(ask: Ask[Nothing]) -> DeletedView:
    """Delete a session.

    It can be restored for a while. An image goes with its last session, and comes back with it.
    """
    deleted, until = await library_of(ask).delete(_named(ask))
    return DeletedView(session_id=deleted.session_id, restorable_until=until)


@routes.add("POST", f"{_ONE}/restore", needs=WRITE, takes=Nothing, action="session.restore", raises=(SessionNotFound,))
async def restore(ask: Ask[Nothing]) -> SessionRecord:
    """Bring a deleted session back."""
    library, session_id = library_of(ask), _named(ask)
    await library.restore(session_id)
    return session_record(await library.get(session_id))


@routes.add("POST", f"{_ONE}/read", needs=READ, takes=ReadGiven, action="session.read", raises=(SessionNotFound,))
async def read(ask: Ask[ReadGiven]) -> SessionRecord:
    """Say how far you have read a session."""
    given = ask.given
    message_id = None if given.message_id is None else MessageId(given.message_id)
    listed = await library_of(ask).mark_read(_named(ask), cursor=given.cursor, message_id=message_id, device=given.device)
    return session_record(listed)


def library_of(ask: Ask[Any]) -> SessionLibrary:
    return SessionLibrary(ask.workspace)


def _named(ask: Ask[Any]) -> SessionId:
    return SessionId(ask.path["session_id"])
