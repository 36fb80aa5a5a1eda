"""Drafts — what one has begun to write, as methods over any link."""

from agentvm.model.ids import SessionId
from agentvm.model.session import Draft
from agentvm.operations.draft import DraftListed, SessionDraft, SessionDraftList, SessionDraftReply, SessionDrafts
from agentvm.protocol.link import RuntimeLink


class Drafts:
    """One's own."""

    def __init__(self, link: RuntimeLink) -> None:
        self._link = link

    async def save(
        self, session_id: str, text: str, *, device: str | None = None, if_updated_at: int | None = None
    ) -> SessionDraftReply:
        """An empty text removes it. `saved` is false when it is not of that moment any more."""
        return await self._link.ask(
            SessionDraft(session_id=SessionId(session_id), text=text, device=device, if_updated_at=if_updated_at)
        )

    async def of(self, session_id: str) -> tuple[Draft, ...]:
        """The newest first."""
        return (await self._link.ask(SessionDrafts(session_id=SessionId(session_id)))).drafts

    async def list(self, container_id: str | None = None, *, limit: int = 50) -> tuple[DraftListed, ...]:
        """Lists the drafts of all sessions, the newest first."""
        return (await self._link.ask(SessionDraftList(container_id=container_id, limit=limit))).drafts
