"""Session commands — the histories of an image."""

from functools import partial

from agentvm.commands.call import Call
from agentvm.errors import ImageNotFound
from agentvm.model.session import Draft
from agentvm.protocol import commands as ask
from agentvm.protocol.records import FoundRecord, SessionRecord, TitleRecord
from agentvm.sessions.drafts import DraftLibrary
from agentvm.sessions.library import check_search, check_title
from agentvm.sessions.message_pages import read_page, read_recent
from agentvm.storage.sessions import Found, FoundTitle, Listed, MessageQuery, MessageSearch, SessionQuery

PREVIEW_MAX = 140
"""Characters of a draft that a list shows."""


async def create(call: Call, command: ask.SessionCreate) -> ask.SessionReply:
    _, image = await call.workspace.image(command.image_id)
    # Joined first, so that the peer hears of its own session.
    call.peer.join(image.container_id)
    session = await call.sessions.create(command.image_id, command.title)
    return ask.SessionReply(session=session, subscriptions=call.peer.subscribe(session))


async def get(call: Call, command: ask.SessionGet) -> ask.SessionReply:
    found = await call.workspace.find_session(command.session_id)
    if found is None:
        return ask.SessionReply(session=None)
    session = found[1]
    return ask.SessionReply(session=session, subscriptions=call.peer.subscribe(session))


async def list_of_image(call: Call, command: ask.SessionList) -> ask.SessionListReply:
    store, image = await call.workspace.image(command.image_id)
    listed = await store.list_sessions(image.image_id)
    # The default one leads whatever its time says: the clock may have been set back since.
    sessions = tuple(sorted(listed, key=lambda session: session.session_id != image.session_id))
    heard = tuple(session_id for session in sessions for session_id in call.peer.subscribe(session))
    return ask.SessionListReply(sessions=sessions, subscriptions=heard)


async def set_title(call: Call, command: ask.SessionSetTitle) -> ask.SessionReply:
    check_title(command.title)
    _, session = await call.workspace.session(command.session_id)
    call.peer.subscribe(session)
    return ask.SessionReply(session=await call.sessions.rename(command.session_id, command.title))


async def release(call: Call, command: ask.SessionRelease) -> ask.SessionReply:
    heard = call.peer.subscribe(await call.sessions.session(command.session_id))
    return ask.SessionReply(session=await call.sessions.release(command.session_id), subscriptions=heard)


async def resume(call: Call, command: ask.SessionResume) -> ask.ImageRunReply:
    store, session = await call.workspace.session(command.session_id)
    image = await store.get_image(session.image_id)
    if image is None:
        raise ImageNotFound(session.image_id)
    call.peer.subscribe(session)
    agent, reused = call.peer.vm.runtime.start_agent(call.peer.tenant_id, image, session.session_id)
    return ask.ImageRunReply(image_id=image.image_id, agent_id=agent.agent_id, reused=reused, session_id=session.session_id)


async def messages(call: Call, command: ask.SessionMessages) -> ask.SessionMessagesReply:
    store, session = await call.workspace.session(command.session_id)
    call.peer.subscribe(session)
    said, truncated = await read_recent(call.room, store, session.session_id)
    return ask.SessionMessagesReply(session_id=session.session_id, messages=said, truncated=truncated)


async def browse(call: Call, command: ask.SessionBrowse) -> ask.SessionBrowseReply:
    library = call.sessions
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
    found = await (await library.within(command.container_id)).list(wanted, library.reader(command.device))
    sessions = tuple(session_record(item) for item in found.items)
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
    return ask.SessionReply(session=call.sessions.redacted(session), subscriptions=call.peer.subscribe(session))


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
    return ask.SessionMarkReadReply(session_id=marked.session.session_id, unread=marked.unread)


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
        now=call.peer.vm.clock(),
    )
    page = await (await call.sessions.within(command.container_id)).search(wanted)
    found = tuple(match_record(item) for item in page.items)
    titles = tuple(title_record(item) for item in page.titles) or None
    return ask.SessionSearchReply(found=found, total=page.total, capped=page.capped, next_cursor=page.next, titles=titles)


async def compact(call: Call, command: ask.SessionCompact) -> ask.SessionCompactReply:
    return ask.SessionCompactReply(session_id=command.session_id, summary=await call.sessions.compact(command.session_id))


async def summaries(call: Call, command: ask.SessionSummaries) -> ask.SessionSummariesReply:
    summaries = await call.sessions.summaries(command.session_id)
    return ask.SessionSummariesReply(session_id=command.session_id, summaries=summaries)


async def save_draft(call: Call, command: ask.SessionDraft) -> ask.SessionDraftReply:
    drafted = await DraftLibrary(call.workspace).save(
        command.session_id, command.text, device=command.device, if_updated_at=command.if_updated_at
    )
    return ask.SessionDraftReply(session_id=command.session_id, saved=drafted.saved, draft=drafted.draft)


async def list_drafts(call: Call, command: ask.SessionDrafts) -> ask.SessionDraftsReply:
    drafts = await DraftLibrary(call.workspace).list_session(command.session_id)
    return ask.SessionDraftsReply(session_id=command.session_id, drafts=drafts)


async def list_all_drafts(call: Call, command: ask.SessionDraftList) -> ask.SessionDraftListReply:
    drafts = await DraftLibrary(call.workspace).list_all(command.container_id, command.limit)
    return ask.SessionDraftListReply(drafts=tuple(map(draft_record, drafts)))


def session_record(listed: Listed) -> SessionRecord:
    session = listed.session
    return SessionRecord(
        session_id=session.session_id,
        image_id=session.image_id,
        container_id=session.container_id,
        title=session.title,
        created_at=session.created_at,
        updated_at=session.updated_at,
        quarantine=session.quarantine,
        pinned_at=session.pinned_at,
        archived_at=session.archived_at,
        forked_from=session.forked_from,
        last_message_at=session.last_message_at,
        preview=session.preview,
        unread=listed.unread,
        cursor=listed.cursor,
    )


def match_record(match: Found) -> FoundRecord:
    session = match.session
    return FoundRecord(
        session_id=session.session_id,
        image_id=session.image_id,
        container_id=session.container_id,
        title=session.title,
        message_id=match.message_id,
        role=match.role,
        tool=match.tool,
        at=match.at,
        position=match.position,
        cursor=match.cursor,
        snippet=match.snippet,
        before=match.before,
        after=match.after,
    )


def title_record(match: FoundTitle) -> TitleRecord:
    session = match.session
    return TitleRecord(
        session_id=session.session_id,
        image_id=session.image_id,
        container_id=session.container_id,
        title=session.title or "",
        at=session.created_at if session.last_message_at is None else session.last_message_at,
        snippet=match.snippet,
    )


def draft_record(draft: Draft) -> ask.DraftListed:
    return ask.DraftListed(
        session_id=draft.session_id,
        container_id=draft.container_id,
        image_id=draft.image_id,
        preview=" ".join(draft.text[: 4 * PREVIEW_MAX].split())[:PREVIEW_MAX],
        updated_at=draft.updated_at,
        device=draft.device,
    )
