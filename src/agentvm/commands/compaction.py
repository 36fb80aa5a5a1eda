"""Compaction commands — what a session came to: summed up now, and read; for sockets and HTTP."""

from msgspec.structs import replace

from agentvm.commands.call import Call
from agentvm.commands.session_centre import READING, SessionCentre
from agentvm.errors import NotAvailable, SessionNotFound
from agentvm.model.ids import SessionId
from agentvm.model.session import Summary
from agentvm.protocol import commands as ask
from agentvm.sessions.compaction import Compactor, Work


async def compact(call: Call, command: ask.SessionCompact) -> ask.SessionCompactReply:
    made = await sum_up(call.sessions, call.peer.compactor, command.session_id)
    return ask.SessionCompactReply(session_id=command.session_id, summary=made)


async def summaries(call: Call, command: ask.SessionSummaries) -> ask.SessionSummariesReply:
    found = await list_summaries(call.sessions, command.session_id)
    return ask.SessionSummariesReply(session_id=command.session_id, summaries=found)


async def sum_up(centre: SessionCentre, compactor: Compactor | None, session_id: SessionId) -> Summary:
    """What came of it; its text only for who may read. `Conflict` when there is nothing to sum up, or somebody is at it."""
    session = await centre.get(session_id)
    if compactor is None:
        raise NotAvailable("Nothing is summed up on this server")
    work = Work(
        tenant_id=centre.tenant_id,
        container_id=session.container_id,
        image_id=session.image_id,
        session_id=session_id,
        user_id=centre.principal.user_id,
        asked_for=True,
    )
    made = await compactor.compact(work, centre.runtime.tell)
    return made if centre.principal.may(READING) else replace(made, text="")


async def list_summaries(centre: SessionCentre, session_id: SessionId) -> tuple[Summary, ...]:
    """The newest first."""
    session = await centre.get(session_id)
    found = await centre.store.sessions((session.container_id,)).summaries(session_id)
    if found is None:
        raise SessionNotFound(session_id)
    return found
