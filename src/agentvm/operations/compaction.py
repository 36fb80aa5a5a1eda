"""Compaction — summarize the older messages of a session, and read its summaries."""

from agentvm.errors import Conflict, ProviderError, QuotaExceeded, SessionNotFound, WalletEmpty
from agentvm.model.ids import SessionId
from agentvm.model.session import Summary
from agentvm.operations.operation import Context, Http, OperationGroup
from agentvm.protocol.requests import Reply, Request

operation = OperationGroup("compaction")

_ONE = "/v1/sessions/{session_id}"


class SessionCompactReply(Reply):
    session_id: SessionId
    summary: Summary


class SessionCompact(Request[SessionCompactReply]):
    session_id: SessionId


@operation(
    "session.compact",
    needs="agent:use",
    command=True,
    http=Http("POST", f"{_ONE}/compact", result="summary"),
    audit="session.compact",
    raises=(SessionNotFound, Conflict, QuotaExceeded, WalletEmpty, ProviderError),
)
async def compact(context: Context, request: SessionCompact) -> SessionCompactReply:
    """Summarize older messages to free context.

    The newest exchanges are left out. This is a billed model call; the messages are not changed.
    """
    return SessionCompactReply(session_id=request.session_id, summary=await context.sessions.compact(request.session_id))


class SessionSummariesReply(Reply):
    """The newest first; that one goes into prompts, with the messages since."""

    session_id: SessionId
    summaries: tuple[Summary, ...]


class SessionSummaries(Request[SessionSummariesReply]):
    session_id: SessionId


@operation(
    "session.summaries",
    needs="sessions:read",
    command=True,
    http=Http("GET", f"{_ONE}/summaries", items="summaries", names=(None, "SummaryPage")),
    discloses=True,
    raises=(SessionNotFound,),
)
async def summaries(context: Context, request: SessionSummaries) -> SessionSummariesReply:
    """List the summaries of a session, the newest first."""
    return SessionSummariesReply(session_id=request.session_id, summaries=await context.sessions.summaries(request.session_id))
