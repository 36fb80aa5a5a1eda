"""Session commands — the histories of an image."""

from agentvm.blueprint.image import new_session
from agentvm.commands.call import Call
from agentvm.errors import ImageNotFound, InvalidInput, SessionNotFound
from agentvm.events.base import Scope
from agentvm.events.lifecycle import SessionCreated, SessionTitleUpdated
from agentvm.model.ids import SessionId
from agentvm.protocol import commands as ask

MAX_TITLE = 300


async def create(call: Call, command: ask.SessionCreate) -> ask.SessionReply:
    peer = call.peer
    _check_title(command.title)
    store, image = await call.image(command.image_id)
    session = new_session(image, SessionId(peer.new_id("sess")), command.title, peer.clock())
    await store.add_session(session)
    heard = peer.subscribe(session)
    scope = Scope(container_id=image.container_id, image_id=image.image_id)
    told = SessionCreated(
        session_id=session.session_id,
        image_id=image.image_id,
        container_id=image.container_id,
        title=session.title,
        created_at=session.created_at,
    )
    peer.runtime.tell(peer.tenant_id, scope, told)
    return ask.SessionReply(session=session, subscriptions=heard)


async def get(call: Call, command: ask.SessionGet) -> ask.SessionReply:
    found = await call.find_session(command.session_id)
    if found is None:
        return ask.SessionReply(session=None)
    session = found[1]
    return ask.SessionReply(session=session, subscriptions=call.peer.subscribe(session))


async def list_of_image(call: Call, command: ask.SessionList) -> ask.SessionListReply:
    store, image = await call.image(command.image_id)
    listed = await store.list_sessions(image.image_id)
    # The default one leads whatever its time says: the clock may have been set back since.
    sessions = tuple(sorted(listed, key=lambda session: session.session_id != image.session_id))
    heard = tuple(session_id for session in sessions for session_id in call.peer.subscribe(session))
    return ask.SessionListReply(sessions=sessions, subscriptions=heard)


async def set_title(call: Call, command: ask.SessionSetTitle) -> ask.SessionReply:
    peer = call.peer
    _check_title(command.title)
    store, session = await call.session(command.session_id)
    changed = await store.set_title(session.session_id, command.title, peer.clock())
    if changed is None:
        raise SessionNotFound(command.session_id)
    peer.subscribe(changed)
    scope = Scope(container_id=changed.container_id, image_id=changed.image_id)
    told = SessionTitleUpdated(session_id=changed.session_id, title=changed.title, updated_at=changed.updated_at)
    peer.runtime.tell(peer.tenant_id, scope, told)
    return ask.SessionReply(session=changed)


async def release(call: Call, command: ask.SessionRelease) -> ask.SessionReply:
    peer = call.peer
    _, session = await call.session(command.session_id)
    heard = peer.subscribe(session)
    released = await peer.runtime.quarantine.release(peer.tenant_id, session.container_id, session.session_id)
    if released is None:
        raise SessionNotFound(command.session_id)
    return ask.SessionReply(session=released, subscriptions=heard)


async def resume(call: Call, command: ask.SessionResume) -> ask.ImageRunReply:
    store, session = await call.session(command.session_id)
    image = await store.get_image(session.image_id)
    if image is None:
        raise ImageNotFound(session.image_id)
    call.peer.subscribe(session)
    agent, reused = call.peer.runtime.start_agent(call.peer.tenant_id, image, session.session_id)
    return ask.ImageRunReply(image_id=image.image_id, agent_id=agent.agent_id, reused=reused, session_id=session.session_id)


async def messages(call: Call, command: ask.SessionMessages) -> ask.SessionMessagesReply:
    store, session = await call.session(command.session_id)
    call.peer.subscribe(session)
    return ask.SessionMessagesReply(session_id=session.session_id, messages=await store.list_messages(session.session_id))


def _check_title(title: str | None) -> None:
    """Titles are told to all who work with the container, and shown in every list."""
    if title is not None and len(title) > MAX_TITLE:
        raise InvalidInput(f"A title has at most {MAX_TITLE} characters, not {len(title)}")
