"""Drafts — what somebody has begun to write and not sent, for sockets and HTTP.

It is theirs alone: others hear only that there is one.
"""

from dataclasses import dataclass

from agentvm.commands.call import Call
from agentvm.commands.session_centre import SessionCentre
from agentvm.commands.speaking import Speaker
from agentvm.errors import InvalidInput, SessionNotFound
from agentvm.events.base import Scope
from agentvm.events.lifecycle import SessionDraftUpdated
from agentvm.model.ids import SessionId
from agentvm.model.session import Draft, Drafted
from agentvm.protocol import commands as ask
from agentvm.storage.drafts import DraftStore

MAX_DRAFT = 100_000
"""Characters."""
PREVIEW = 140


@dataclass(frozen=True, slots=True)
class DraftCentre:
    """Of one principal, within what they reach."""

    sessions: SessionCentre
    speaker: Speaker

    async def save(
        self, session_id: SessionId, text: str, *, device: str | None = None, if_updated_at: int | None = None
    ) -> Drafted:
        if len(text) > MAX_DRAFT:
            raise InvalidInput(f"A draft has at most {MAX_DRAFT:,} characters, not {len(text):,}")
        reader, centre = self.sessions.reader(device), self.sessions
        drafts = await self._within()
        size = len(text.encode())
        if text:
            # Who has no room left can still remove what is there.
            await self.speaker.check_storage(size)
        done = await drafts.save(session_id, reader.device, text, centre.clock(), if_updated_at=if_updated_at)
        await self.speaker.free_storage(done.freed if done is not None and done.saved else size)
        if done is None:
            raise SessionNotFound(session_id)
        if done.changed:
            told = SessionDraftUpdated(
                session_id=session_id,
                updated_at=done.at,
                user_id=centre.principal.user_id,
                device=device,
                removed=done.draft is None,
            )
            scope = Scope(container_id=done.container_id, image_id=done.image_id)
            centre.runtime.tell(centre.tenant_id, scope, told)
        return done

    async def of_session(self, session_id: SessionId) -> tuple[Draft, ...]:
        found = await (await self._within()).list(session_id)
        if found is None:
            raise SessionNotFound(session_id)
        return found

    async def of_all(self, container_id: str | None, limit: int) -> tuple[ask.DraftListed, ...]:
        return tuple(map(_listed, await (await self._within(container_id)).list_all(limit=limit)))

    async def _within(self, container_id: str | None = None) -> DraftStore:
        centre = self.sessions
        return centre.store.drafts(centre.reader().user, await centre.containers(container_id))


async def save(call: Call, command: ask.SessionDraft) -> ask.SessionDraftReply:
    done = await DraftCentre(call.sessions, call.speaker).save(
        command.session_id, command.text, device=command.device, if_updated_at=command.if_updated_at
    )
    return ask.SessionDraftReply(session_id=command.session_id, saved=done.saved, draft=done.draft)


async def of_session(call: Call, command: ask.SessionDrafts) -> ask.SessionDraftsReply:
    found = await DraftCentre(call.sessions, call.speaker).of_session(command.session_id)
    return ask.SessionDraftsReply(session_id=command.session_id, drafts=found)


async def of_all(call: Call, command: ask.SessionDraftList) -> ask.SessionDraftListReply:
    return ask.SessionDraftListReply(
        drafts=await DraftCentre(call.sessions, call.speaker).of_all(command.container_id, command.limit)
    )


def _listed(draft: Draft) -> ask.DraftListed:
    return ask.DraftListed(
        session_id=draft.session_id,
        container_id=draft.container_id,
        image_id=draft.image_id,
        preview=" ".join(draft.text[: 4 * PREVIEW].split())[:PREVIEW],
        updated_at=draft.updated_at,
        device=draft.device,
    )
