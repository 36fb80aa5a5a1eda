"""Drafts — unsent text of one principal. Events to others only state that a draft changed, without its text."""

from dataclasses import dataclass

from agentvm.errors import InvalidInput, SessionNotFound
from agentvm.events.lifecycle import SessionDraftUpdated
from agentvm.model.ids import SessionId
from agentvm.model.session import Draft, Drafted
from agentvm.sessions.library import SessionLibrary
from agentvm.sessions.workspace import Workspace
from agentvm.storage.sql.sessions.drafts import DraftStore

DRAFT_MAX = 100_000
"""Characters."""


@dataclass(frozen=True, slots=True)
class DraftLibrary:
    """The drafts of the workspace's principal."""

    workspace: Workspace

    async def save(
        self, session_id: SessionId, text: str, *, device: str | None = None, if_updated_at: int | None = None
    ) -> Drafted:
        """Stores the text, or removes the draft if it is empty. With `if_updated_at` only if the draft is still that one."""
        if len(text) > DRAFT_MAX:
            raise InvalidInput(f"A draft has at most {DRAFT_MAX:,} characters, not {len(text):,}")
        workspace = self.workspace
        reader = SessionLibrary(workspace).reader(device)
        drafts = await self._store()
        size = len(text.encode())
        if text:
            # A principal without storage left can still remove a draft.
            await workspace.check_storage(size)
        drafted = await drafts.save(session_id, reader.device, text, workspace.clock(), if_updated_at=if_updated_at)
        await workspace.free_storage(drafted.freed if drafted is not None and drafted.saved else size)
        if drafted is None:
            raise SessionNotFound(session_id)
        if drafted.changed:
            updated = SessionDraftUpdated(
                session_id=session_id,
                updated_at=drafted.at,
                user_id=workspace.user_id,
                device=device,
                removed=drafted.draft is None,
            )
            workspace.announce(drafted.container_id, drafted.image_id, updated)
        return drafted

    async def list_session(self, session_id: SessionId) -> tuple[Draft, ...]:
        """Returns the drafts in that session, one per device."""
        drafts = await (await self._store()).list(session_id)
        if drafts is None:
            raise SessionNotFound(session_id)
        return drafts

    async def list_all(self, container_id: str | None, limit: int) -> tuple[Draft, ...]:
        """Returns the drafts of all sessions, or of one container's."""
        return await (await self._store(container_id)).list_all(limit=limit)

    async def _store(self, container_id: str | None = None) -> DraftStore:
        library = SessionLibrary(self.workspace)
        return self.workspace.store.drafts(library.reader().user, await library.containers(container_id))
