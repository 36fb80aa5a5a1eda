"""Sessions — create, show, rename, pin, archive, delete, restore, mark as read, resume."""

from typing import Annotated

import msgspec
from msgspec import UNSET, UnsetType

from agentvm.errors import ImageNotFound, SessionNotFound
from agentvm.model.ids import ImageId, MessageId, SessionId
from agentvm.model.session import Session, check_title
from agentvm.operations.image import ImageRunReply
from agentvm.operations.operation import Context, Http, OperationGroup
from agentvm.operations.session_lists import session_record
from agentvm.protocol.records import SessionRecord
from agentvm.protocol.requests import Reply, Request, SubscribingReply

operation = OperationGroup("sessions")

READ, USE = "sessions:read", "agent:use"

_ONE = "/v1/sessions/{session_id}"
Limit = Annotated[int, msgspec.Meta(ge=1, le=200)]


class SessionReply(SubscribingReply):
    session: Session | None


class SessionRecordReply(SubscribingReply):
    session: SessionRecord | None


class SessionCreate(Request[SessionReply]):
    image_id: ImageId
    title: str | None = None


@operation("session.create", needs=USE, command=True)
async def create(context: Context, request: SessionCreate) -> SessionReply:
    """Create a session of an image."""
    _, image = await context.workspace.image(request.image_id)
    # Joined first, so that the peer hears of its own session.
    context.join(image.container_id)
    session = await context.sessions.create(request.image_id, request.title)
    return SessionReply(session=session, subscriptions=context.subscribe(session))


class SessionGet(Request[SessionRecordReply]):
    """`device` counts unread answers for that device."""

    session_id: SessionId
    device: str | None = None


@operation("session.get", needs=READ, command=True, http=Http("GET", _ONE, result="session"), raises=(SessionNotFound,))
async def get(context: Context, request: SessionGet) -> SessionRecordReply:
    """Show a session."""
    try:
        listed = await context.sessions.get(request.session_id, request.device)
    except SessionNotFound:
        return SessionRecordReply(session=None)
    return SessionRecordReply(session=session_record(listed), subscriptions=context.subscribe(listed.session))


class SessionUpdate(Request[SessionRecord]):
    """Absent fields stay as they are; `title: null` removes the title."""

    session_id: SessionId
    title: str | UnsetType | None = UNSET
    pinned: bool | None = None
    archived: bool | None = None


@operation(
    "session.update",
    needs=USE,
    http=Http("PUT", _ONE, id="sessions_change", names=("ChangeRequest", None)),
    audit="session.change",
    raises=(SessionNotFound,),
)
async def update(context: Context, request: SessionUpdate) -> SessionRecord:
    """Rename, pin or archive a session."""
    library, session_id = context.sessions, request.session_id
    if request.title is not UNSET:
        check_title(request.title)
        await library.rename(session_id, request.title)
    if request.pinned is not None or request.archived is not None:
        await library.keep(session_id, pinned=request.pinned, archived=request.archived)
    return session_record(await library.get(session_id))


class SessionSetTitle(Request[SessionReply]):
    session_id: SessionId
    title: str | None


@operation("session.set_title", needs=USE, command=True, audit="session.change")
async def set_title(context: Context, request: SessionSetTitle) -> SessionReply:
    """Rename a session. `null` removes the title."""
    check_title(request.title)
    _, session = await context.workspace.session(request.session_id)
    context.subscribe(session)
    return SessionReply(session=await context.sessions.rename(request.session_id, request.title))


class SessionPin(Request[SessionReply]):
    session_id: SessionId
    pinned: bool = True


@operation("session.pin", needs=USE, command=True, audit="session.change")
async def pin(context: Context, request: SessionPin) -> SessionReply:
    """Pin a session to the top of lists, or unpin it."""
    return SessionReply(session=await context.sessions.keep(request.session_id, pinned=request.pinned))


class SessionArchive(Request[SessionReply]):
    session_id: SessionId
    archived: bool = True


@operation("session.archive", needs=USE, command=True, audit="session.change")
async def archive(context: Context, request: SessionArchive) -> SessionReply:
    """Archive a session, which hides it from lists, or unarchive it."""
    return SessionReply(session=await context.sessions.keep(request.session_id, archived=request.archived))


class SessionDeleteReply(Reply):
    session_id: SessionId
    restorable_until: int


class SessionDelete(Request[SessionDeleteReply]):
    session_id: SessionId


@operation(
    "session.delete",
    needs=USE,
    command=True,
    http=Http("DELETE", _ONE, names=(None, "Deleted")),
    audit="session.delete",
    raises=(SessionNotFound,),
)
async def delete(context: Context, request: SessionDelete) -> SessionDeleteReply:
    """Delete a session.

    It can be restored for a while. An image is deleted with its last session, and restored with it.
    """
    deleted, until = await context.sessions.delete(request.session_id)
    return SessionDeleteReply(session_id=deleted.session_id, restorable_until=until)


class SessionRestore(Request[SessionRecordReply]):
    session_id: SessionId


@operation(
    "session.restore",
    needs=USE,
    command=True,
    http=Http("POST", f"{_ONE}/restore", result="session"),
    audit="session.restore",
    raises=(SessionNotFound,),
)
async def restore(context: Context, request: SessionRestore) -> SessionRecordReply:
    """Restore a deleted session."""
    await context.sessions.restore(request.session_id)
    return SessionRecordReply(session=session_record(await context.sessions.get(request.session_id)))


class SessionMarkReadReply(Reply):
    session_id: SessionId
    unread: int
    session: SessionRecord


class SessionMarkRead(Request[SessionMarkReadReply]):
    """Up to the place that a `cursor` names, or that message; to the end if neither is given."""

    session_id: SessionId
    cursor: str | None = None
    message_id: MessageId | None = None
    device: str | None = None


@operation(
    "session.mark_read",
    needs=READ,
    command=True,
    http=Http("POST", f"{_ONE}/read", id="sessions_read", result="session", names=("ReadRequest", None)),
    raises=(SessionNotFound,),
)
async def mark_read(context: Context, request: SessionMarkRead) -> SessionMarkReadReply:
    """Mark a session as read."""
    marked = await context.sessions.mark_read(
        request.session_id, cursor=request.cursor, message_id=request.message_id, device=request.device
    )
    record = session_record(marked)
    return SessionMarkReadReply(session_id=record.session_id, unread=marked.unread, session=record)


class SessionRelease(Request[SessionReply]):
    session_id: SessionId


@operation("session.release", needs=USE, command=True)
async def release(context: Context, request: SessionRelease) -> SessionReply:
    """Release a quarantined session, so that it accepts messages again."""
    subscriptions = context.subscribe(await context.sessions.session(request.session_id))
    return SessionReply(session=await context.sessions.release(request.session_id), subscriptions=subscriptions)


class SessionResume(Request[ImageRunReply]):
    """Starts (or finds) the session's agent, from the image as it was built."""

    session_id: SessionId


@operation("session.resume", needs=USE, command=True)
async def resume(context: Context, request: SessionResume) -> ImageRunReply:
    """Start the agent of a session."""
    store, session = await context.workspace.session(request.session_id)
    image = await store.get_image(session.image_id)
    if image is None:
        raise ImageNotFound(session.image_id)
    context.subscribe(session)
    agent, reused = context.vm.runtime.start_agent(context.tenant_id, image, session.session_id)
    return ImageRunReply(image_id=image.image_id, agent_id=agent.agent_id, reused=reused, session_id=session.session_id)
