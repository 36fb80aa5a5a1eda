"""Session commands — the histories of an image."""

from functools import partial

from agentvm.blueprint.image import new_session
from agentvm.commands.call import Call
from agentvm.commands.histories import read_page, read_recent
from agentvm.commands.session_centre import check_search, check_title, found_shown, shown, title_shown
from agentvm.errors import ImageNotFound, SessionNotFound
from agentvm.events.base import Scope
from agentvm.events.lifecycle import SessionCreated
from agentvm.model.ids import SessionId
from agentvm.protocol import commands as ask
from agentvm.storage.sessions import MessageQuery, MessageSearch, SessionQuery

ROW_BYTES = 100
"""What a session without anything in it takes."""


async def create(call: Call, command: ask.SessionCreate) -> ask.SessionReply:
    peer = call.peer
    check_title(command.title)
    store, image = await call.image(command.image_id)
    size = ROW_BYTES + len((command.title or "").encode())
    await peer.check_quota("storage_bytes", peer.accounts.quotas.storage_bytes, size)
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
    check_title(command.title)
    _, session = await call.session(command.session_id)
    call.peer.subscribe(session)
    return ask.SessionReply(session=await call.sessions.rename(command.session_id, command.title))


async def release(call: Call, command: ask.SessionRelease) -> ask.SessionReply:
    peer = call.peer
    _, session = await call.session(command.session_id)
    heard = peer.subscribe(session)
    released = await peer.runtime.quarantine.release(peer.tenant_id, session.container_id, session.session_id)
    if released is None:
        raise SessionNotFound(command.session_id)
    return ask.SessionReply(session=call.sessions.seen(released), subscriptions=heard)


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
    said, truncated = await read_recent(call.room, store, session.session_id)
    return ask.SessionMessagesReply(session_id=session.session_id, messages=said, truncated=truncated)


async def browse(call: Call, command: ask.SessionBrowse) -> ask.SessionBrowseReply:
    centre = call.sessions
    wanted = SessionQuery(
        image_id=command.image_id,
        archived=None if command.archived == "all" else command.archived,
        pinned=command.pinned,
        since=command.since,
        until=command.until,
        title=command.title,
        after=command.cursor,
        limit=command.limit,
    )
    found = await (await centre.within(command.container_id)).list(wanted, centre.reader(command.device))
    sessions = tuple(shown(item) for item in found.items)
    return ask.SessionBrowseReply(sessions=sessions, total=found.total, next_cursor=found.next)


async def pin(call: Call, command: ask.SessionPin) -> ask.SessionReply:
    return ask.SessionReply(session=await call.sessions.keep(command.session_id, pinned=command.pinned))


async def archive(call: Call, command: ask.SessionArchive) -> ask.SessionReply:
    return ask.SessionReply(session=await call.sessions.keep(command.session_id, archived=command.archived))


async def delete(call: Call, command: ask.SessionDelete) -> ask.SessionDeleteReply:
    deleted, until = await call.sessions.delete(command.session_id)
    return ask.SessionDeleteReply(session_id=deleted.session_id, restorable_until=until)


async def restore(call: Call, command: ask.SessionRestore) -> ask.SessionReply:
    return ask.SessionReply(session=await call.sessions.restore(command.session_id))


async def fork(call: Call, command: ask.SessionFork) -> ask.SessionReply:
    session = await call.branches.fork(
        command.session_id, message_id=command.message_id, image_id=command.image_id, title=command.title
    )
    return ask.SessionReply(session=call.sessions.seen(session), subscriptions=call.peer.subscribe(session))


async def rewind(call: Call, command: ask.SessionRewind) -> ask.SessionRewindReply:
    rewound = await call.branches.rewind(
        command.session_id, message_id=command.message_id, before=command.before, on_busy=command.on_busy
    )
    if rewound is None:
        return ask.SessionRewindReply(session_id=command.session_id, message_ids=())
    return ask.SessionRewindReply(session_id=command.session_id, message_ids=rewound.message_ids, rewind_id=rewound.rewind_id)


async def rewinds(call: Call, command: ask.SessionRewinds) -> ask.SessionRewindsReply:
    return ask.SessionRewindsReply(session_id=command.session_id, rewinds=await call.branches.rewinds(command.session_id))


async def mark_read(call: Call, command: ask.SessionMarkRead) -> ask.SessionMarkReadReply:
    marked = await call.sessions.mark_read(
        command.session_id, cursor=command.cursor, message_id=command.message_id, device=command.device
    )
    return ask.SessionMarkReadReply(session_id=marked.session_id, unread=marked.unread)


async def history(call: Call, command: ask.SessionHistory) -> ask.SessionHistoryReply:
    wanted = MessageQuery(
        order=command.order, cursor=command.cursor, around=command.around, rewind=command.rewind, limit=command.limit
    )
    page = await read_page(call.room, partial(call.sessions.messages, command.session_id), wanted)
    return ask.SessionHistoryReply(
        session_id=command.session_id,
        messages=page.messages,
        total=page.total,
        next_cursor=page.next,
        previous_cursor=page.previous,
    )


async def search(call: Call, command: ask.SessionSearch) -> ask.SessionSearchReply:
    wanted = MessageSearch(
        text=check_search(command.q),
        image_id=command.image_id,
        session_id=command.session_id,
        role=command.role,
        tool=command.tool,
        since=command.since,
        until=command.until,
        after=command.cursor,
        limit=command.limit,
        now=call.peer.clock(),
    )
    page = await (await call.sessions.within(command.container_id)).search(wanted)
    found = tuple(found_shown(item) for item in page.items)
    titles = tuple(title_shown(item) for item in page.titles) or None
    return ask.SessionSearchReply(found=found, total=page.total, capped=page.capped, next_cursor=page.next, titles=titles)
