"""Shares — links by which the people of a tenant read a conversation as it was when the link was made."""

import secrets
from collections.abc import Sequence
from functools import partial
from typing import Annotated, Literal

from msgspec import Meta, structs

from agentvm.errors import Conflict, NotFound, SessionNotFound, shorten
from agentvm.model.base import Record
from agentvm.model.ids import SessionId, ShareId
from agentvm.model.message import AssistantMessage, Message, TextPart, UserMessage
from agentvm.model.principal import Principal
from agentvm.model.share import DAYS_MAX, Share
from agentvm.operations.calendar import DAY_MS
from agentvm.operations.operation import Context, Http, OperationGroup
from agentvm.protocol.requests import Request
from agentvm.sessions.message_pages import read_page
from agentvm.storage.sessions import MessageQuery

operation = OperationGroup("shares")

READ, USE = "sessions:read", "agent:use"

_OF_SESSION = "/v1/sessions/{session_id}/shares"


class ShareList(Record):
    items: Sequence[Share]


class ShareCreate(Request[Share]):
    """`days` until the link expires; without it the link lasts until it is ended."""

    session_id: SessionId
    days: Annotated[int, Meta(ge=1, le=DAYS_MAX)] | None = None


@operation(
    "share.create",
    needs=USE,
    across=False,
    http=Http("POST", _OF_SESSION, names=("ShareRequest", None)),
    audit="session.share",
    raises=(SessionNotFound, Conflict),
)
async def create(context: Context, request: ShareCreate) -> Share:
    """Create a read-only link to a session as it is now, for all users of your tenant who may read sessions."""
    session = await context.sessions.session(request.session_id)
    now = context.vm.clock()
    share = Share(
        share_id=ShareId(f"share_{secrets.token_urlsafe(24)}"),
        session_id=session.session_id,
        container_id=session.container_id,
        created_by=context.principal.actor,
        created_at=now,
        expires_at=None if request.days is None else now + request.days * DAY_MS,
    )
    if not await context.accounts.shares.add(share):
        raise Conflict("This session has the maximum number of links; revoke one of them")
    return share


class ShareOfSession(Request[ShareList]):
    session_id: SessionId


@operation("share.list", needs=USE, across=False, http=Http("GET", _OF_SESSION), raises=(SessionNotFound,))
async def list_all(context: Context, request: ShareOfSession) -> ShareList:
    """List the links to a session, the newest first."""
    session = await context.sessions.session(request.session_id)
    now = context.vm.clock()
    shares = await context.accounts.shares.list(session.session_id)
    return ShareList(items=[share for share in shares if not _has_expired(share, now)])


class ShareEnd(Request[None]):
    share_id: ShareId


@operation(
    "share.end",
    needs=USE,
    across=False,
    http=Http("DELETE", "/v1/shares/{share_id}"),
    audit="session.unshare",
    raises=(NotFound,),
)
async def end(context: Context, request: ShareEnd) -> None:
    """Revoke a link to a session."""
    share = await context.accounts.shares.find(request.share_id)
    if share is None or not context.principal.reaches(share.container_id):
        raise _gone(request.share_id)
    await context.accounts.shares.drop(share.share_id)


def _gone(share_id: ShareId) -> NotFound:
    return NotFound(f"Link not found: {shorten(share_id)}. It was revoked, has expired, or its session was deleted")


class SharedMessage(Record):
    """A question or an answer. Thinking, calls of tools and files are not shown."""

    message_id: str
    role: Literal["user", "assistant"]
    text: str
    at: int


class SharedPage(Record):
    """A part of a conversation, the oldest message first."""

    title: str | None = None
    created_at: int
    expires_at: int | None = None
    items: Sequence[SharedMessage]
    next_cursor: str | None = None


class ShareRead(Request[SharedPage]):
    share_id: ShareId
    cursor: str | None = None
    limit: Annotated[int, Meta(ge=1, le=200)] = 100


@operation("share.read", needs=READ, across=False, http=Http("GET", "/v1/shares/{share_id}"), raises=(NotFound,))
async def read(context: Context, request: ShareRead) -> SharedPage:
    """Read a shared session: its questions and answers when the link was created."""
    share = await context.accounts.shares.find(request.share_id)
    if share is None or _has_expired(share, context.vm.clock()):
        raise _gone(request.share_id)
    # The link opens this one conversation, whatever containers its reader may use.
    library = context.sessions_of(_narrowed(context, share))
    session = await library.session(share.session_id)
    query = MessageQuery(cursor=request.cursor, limit=request.limit)
    page = await read_page(context.room, partial(library.messages, share.session_id), query)
    shown = [message for message in page.messages if message.timestamp <= share.created_at]
    items = [item for message in shown if (item := _shared_message(message)) is not None]
    return SharedPage(
        title=session.title,
        created_at=share.created_at,
        expires_at=share.expires_at,
        items=items,
        next_cursor=page.next if len(shown) == len(page.messages) else None,
    )


def _has_expired(share: Share, now: int) -> bool:
    return share.expires_at is not None and share.expires_at <= now


def _narrowed(context: Context, share: Share) -> Principal:
    return structs.replace(context.principal, containers=(share.container_id,))


def _shared_message(message: Message) -> SharedMessage | None:
    match message:
        case UserMessage(content=str(text)):
            return SharedMessage(message_id=message.id, role="user", text=text, at=message.timestamp)
        case UserMessage(content=parts):
            text = "\n".join(part.text for part in parts if isinstance(part, TextPart))
            return SharedMessage(message_id=message.id, role="user", text=text, at=message.timestamp)
        case AssistantMessage(text=text) if text.strip():
            return SharedMessage(message_id=message.id, role="assistant", text=text, at=message.timestamp)
    return None
