"""DraftStore — what somebody has begun to write and not sent: one text per session and device of theirs.

Obtained by `store.tenant(t).drafts(author, containers)`: what others write is not there, and neither are sessions of other
containers or deleted ones. Conformance: `agentvm.testing.conformance.drafts`.
"""

from typing import Protocol

from agentvm.model.ids import SessionId
from agentvm.model.session import Draft, Drafted

MOST_DEVICES = 20
"""Drafts of one author in one session; the oldest goes when there is one more."""


class DraftStore(Protocol):
    """The drafts of one author. `device` is '' for what is of no device."""

    async def save(
        self, session_id: SessionId, device: str, text: str, now: int, *, if_updated_at: int | None = None
    ) -> Drafted | None:
        """Puts the text in place of what the device had; an empty one removes it. None when there is no such session.

        With `if_updated_at` only if the draft is still of that moment; 0 for only if there is none. Each change has a moment of
        its own.
        """

    async def list(self, session_id: SessionId) -> tuple[Draft, ...] | None:
        """Of one session, the newest first; None when there is no such session."""

    async def list_all(self, *, limit: int = 50) -> tuple[Draft, ...]:
        """Of all sessions, the newest first."""
