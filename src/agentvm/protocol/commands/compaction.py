"""Compaction commands — what a session came to."""

from agentvm.model.ids import SessionId
from agentvm.model.session import Summary
from agentvm.protocol.commands.base import Command, Reply


class SessionCompactReply(Reply):
    session_id: SessionId
    summary: Summary


class SessionCompact(Command[SessionCompactReply]):
    """Sums up what was said so far, but for the newest exchanges. The messages stay as they are."""

    name = "session_compact"
    reply_type = SessionCompactReply
    session_id: SessionId


class SessionSummariesReply(Reply):
    """The newest first; that one goes into prompts, with what was said since."""

    session_id: SessionId
    summaries: tuple[Summary, ...]


class SessionSummaries(Command[SessionSummariesReply]):
    name = "session_summaries"
    reply_type = SessionSummariesReply
    session_id: SessionId
