"""Session centre — what is done with sessions as such, whoever asks on whichever way: listed, kept, deleted, read, searched.

Everything goes through what its principal may reach. What is changed is told to all who work with the container.
"""

from dataclasses import dataclass
from typing import TypeVar

from msgspec.structs import replace

from agentvm.errors import InvalidInput, SessionNotFound
from agentvm.events.base import EventData, Scope
from agentvm.events.lifecycle import (
    ImageCreated,
    ImageDeleted,
    SessionDeleted,
    SessionRead,
    SessionRestored,
    SessionTitleUpdated,
    SessionUpdated,
)
from agentvm.model.ids import Clock, ContainerId, MessageId, SessionId, TenantId, check_container_id
from agentvm.model.principal import Principal
from agentvm.model.session import Session
from agentvm.protocol.records import FoundRecord, SessionRecord, TitleRecord
from agentvm.runtime.runtime import Runtime
from agentvm.storage.base import TenantStore
from agentvm.storage.sessions import Found, FoundTitle, Listed, MessagePage, MessageQuery, Reader, SessionStore

MAX_TITLE = 300
MAX_DEVICE = 128
MAX_SEARCH = 1_000
"""Characters of what is searched for."""

READING = "sessions:read"

T = TypeVar("T")
S = TypeVar("S", bound=Session)


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionCentre:
    """Of one principal. `store` ends where its reach does."""

    store: TenantStore
    principal: Principal
    tenant_id: TenantId
    runtime: Runtime
    clock: Clock

    async def within(self, container_id: str | None = None) -> SessionStore:
        """The sessions of that container, or of all that the principal may reach."""
        return self.store.sessions(await self.containers(container_id))

    async def containers(self, container_id: str | None = None) -> tuple[ContainerId, ...] | None:
        """That one, or those that the principal may reach; None for all of the tenant's."""
        if container_id is not None:
            return (check_container_id(container_id),)
        return None if self.principal.containers is None else await self.store.list_containers()

    def reader(self, device: str | None = None) -> Reader:
        if device is not None and not 0 < len(device) <= MAX_DEVICE:
            raise InvalidInput(f"A device has a name of 1 to {MAX_DEVICE} characters")
        return Reader(self.principal.user_id or "", device or "")

    async def get(self, session_id: SessionId, device: str | None = None) -> SessionRecord:
        sessions = await self._home(session_id)
        return self.seen(shown(_there(await sessions.get(session_id, self.reader(device)), session_id)))

    def seen(self, session: S) -> S:
        """Without what was said in it, for who may use sessions and not read them."""
        return session if self.principal.may(READING) else replace(session, title=None, preview=None)

    async def keep(self, session_id: SessionId, *, pinned: bool | None = None, archived: bool | None = None) -> Session:
        sessions = await self._home(session_id)
        kept = _there(await sessions.keep(session_id, pinned=pinned, archived=archived, now=self.clock()), session_id)
        self._tell(kept, _updated(kept))
        return self.seen(kept)

    async def rename(self, session_id: SessionId, title: str | None) -> Session:
        check_title(title)
        container_id = await self._container(session_id)
        named = _there(await self.store.container(container_id).set_title(session_id, title, self.clock()), session_id)
        self._tell(named, SessionTitleUpdated(session_id=named.session_id, title=named.title, updated_at=named.updated_at))
        return replace(self.seen(named), title=named.title)

    async def delete(self, session_id: SessionId) -> tuple[Session, int]:
        """The session, and until when it can be restored. Its agent ends then, so that its turns have their ends."""
        container_id = await self._container(session_id)
        sessions = self.store.sessions((container_id,))
        deleted = _there(await sessions.delete(session_id, self.clock()), session_id)
        present = self.runtime.roster.get(self.tenant_id, container_id, session_id)
        if present is not None:
            await self.runtime.stop_agent(present)
        until = (deleted.deleted_at or 0) + self._undo()
        told = SessionDeleted(
            session_id=session_id,
            image_id=deleted.image_id,
            container_id=container_id,
            deleted_at=deleted.deleted_at or 0,
            restorable_until=until,
        )
        self._tell(deleted, told)
        if await self.store.find_image(deleted.image_id) is None:
            # It had no other.
            self._tell(deleted, ImageDeleted(image_id=deleted.image_id, container_id=container_id))
        return deleted, until

    async def restore(self, session_id: SessionId) -> Session:
        container_id = await self.store.find_session(session_id)
        if container_id is not None:
            # It is not deleted, so nobody is told.
            return self.seen(_there(await self.store.container(container_id).get_session(session_id), session_id))
        now = self.clock()
        sessions = await self.within()
        restored = _there(await sessions.restore(session_id, now, deleted_after=now - self._undo()), session_id)
        image = await self.store.container(restored.container_id).get_image(restored.image_id)
        if image is not None and image.session_id == session_id:
            # It went with this session.
            told = ImageCreated(
                image_id=image.image_id, container_id=image.container_id, name=image.name, created_at=image.created_at
            )
            self._tell(restored, told)
        self._tell(
            restored,
            SessionRestored(
                session_id=session_id,
                image_id=restored.image_id,
                container_id=restored.container_id,
                title=restored.title,
                updated_at=restored.updated_at,
            ),
        )
        return self.seen(restored)

    async def mark_read(
        self, session_id: SessionId, *, cursor: str | None, message_id: MessageId | None, device: str | None
    ) -> SessionRecord:
        if cursor is not None and message_id is not None:
            raise InvalidInput("Give cursor or messageId, not both")
        sessions = await self._home(session_id)
        reader, now = self.reader(device), self.clock()
        marked = _there(await sessions.mark_read(session_id, reader, now, cursor=cursor, message_id=message_id), session_id)
        user_id = self.principal.user_id
        self._tell(marked.session, SessionRead(session_id=session_id, user_id=user_id, unread=marked.unread, read_at=now))
        return shown(marked)

    async def messages(self, session_id: SessionId, wanted: MessageQuery) -> MessagePage:
        sessions = await self._home(session_id)
        return _there(await sessions.messages(session_id, wanted), session_id)

    async def _home(self, session_id: SessionId) -> SessionStore:
        return self.store.sessions((await self._container(session_id),))

    async def _container(self, session_id: SessionId) -> ContainerId:
        return _there(await self.store.find_session(session_id), session_id)

    def _undo(self) -> int:
        """Milliseconds for which a deleted session can be restored."""
        return int(self.runtime.limits_of(None).undo_seconds * 1000)

    def _tell(self, session: Session, told: EventData) -> None:
        self.runtime.tell(self.tenant_id, Scope(container_id=session.container_id, image_id=session.image_id), told)


def check_title(title: str | None) -> None:
    """Titles are told to all who work with the container, and shown in every list."""
    if title is not None and len(title) > MAX_TITLE:
        raise InvalidInput(f"A title has at most {MAX_TITLE} characters, not {len(title)}")


def check_search(text: str) -> str:
    if len(text) > MAX_SEARCH:
        raise InvalidInput(f"A search has at most {MAX_SEARCH} characters, not {len(text)}")
    return text


def shown(listed: Listed) -> SessionRecord:
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


def found_shown(found: Found) -> FoundRecord:
    session = found.session
    return FoundRecord(
        session_id=session.session_id,
        image_id=session.image_id,
        container_id=session.container_id,
        title=session.title,
        message_id=found.message_id,
        role=found.role,
        tool=found.tool,
        at=found.at,
        position=found.position,
        cursor=found.cursor,
        snippet=found.snippet,
        before=found.before,
        after=found.after,
    )


def title_shown(found: FoundTitle) -> TitleRecord:
    session = found.session
    return TitleRecord(
        session_id=session.session_id,
        image_id=session.image_id,
        container_id=session.container_id,
        title=session.title or "",
        at=session.created_at if session.last_message_at is None else session.last_message_at,
        snippet=found.snippet,
    )


def _updated(session: Session) -> SessionUpdated:
    return SessionUpdated(
        session_id=session.session_id,
        image_id=session.image_id,
        container_id=session.container_id,
        updated_at=session.updated_at,
        pinned_at=session.pinned_at,
        archived_at=session.archived_at,
    )


def _there(found: T | None, session_id: SessionId) -> T:
    if found is None:
        raise SessionNotFound(session_id)
    return found
