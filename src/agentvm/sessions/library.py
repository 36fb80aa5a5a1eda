"""Session library — one principal's sessions: create, list, read, search, rename, pin, archive, delete, restore.

Every read and write goes through a store that is limited to the principal's containers. A change is announced to every
connection that works with the container.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from msgspec import structs

from agentvm.blueprint.image import new_session
from agentvm.errors import Conflict, InvalidInput, NotAvailable, SessionNotFound
from agentvm.events.base import EventData
from agentvm.events.lifecycle import (
    ImageCreated,
    ImageDeleted,
    SessionCreated,
    SessionDeleted,
    SessionRead,
    SessionRestored,
    SessionTitleUpdated,
    SessionUpdated,
)
from agentvm.model.ids import ContainerId, ImageId, MessageId, SessionId, check_container_id
from agentvm.model.message import encode_message
from agentvm.model.session import Alias, Session, Summary, check_title
from agentvm.sessions.background_call import SessionWork
from agentvm.sessions.seeding import SeedMessage, seeded
from agentvm.sessions.workspace import Workspace
from agentvm.storage.sessions import Listed, MessagePage, MessageQuery, SessionReader
from agentvm.storage.sql.container import ContainerStore
from agentvm.storage.sql.sessions import SessionStore

DEVICE_MAX = 128
SESSION_ROW_BYTES = 100
"""Counted against the storage quota for an empty session."""

READ_PERMISSION = "sessions:read"

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class SessionLibrary:
    """The sessions in the workspace."""

    workspace: Workspace

    async def within(self, container_id: str | None = None) -> SessionStore:
        """Returns the sessions of that container, or of every container that the principal may use."""
        return self.workspace.store.sessions(await self.containers(container_id))

    async def containers(self, container_id: str | None = None) -> tuple[ContainerId, ...] | None:
        """Returns that container, or those that the principal may use; None stands for all of the tenant's."""
        if container_id is not None:
            return (check_container_id(container_id),)
        return None if self.workspace.principal.containers is None else await self.workspace.store.list_containers()

    def reader(self, device: str | None = None) -> SessionReader:
        if device is not None and not 0 < len(device) <= DEVICE_MAX:
            raise InvalidInput(f"A device has a name of 1 to {DEVICE_MAX} characters")
        return SessionReader(self.workspace.principal.user_id or "", device or "")

    async def session(self, session_id: SessionId) -> Session:
        """Returns the whole record, whether or not the principal may read it."""
        return (await self.workspace.session(session_id))[1]

    async def get(self, session_id: SessionId, device: str | None = None) -> Listed:
        sessions = await self._home(session_id)
        listed = _existing(await sessions.get(session_id, self.reader(device)), session_id)
        return replace(listed, session=self.redacted(listed.session))

    def redacted(self, session: Session) -> Session:
        """Returns the session without title and preview if the principal may use sessions but not read them."""
        return session if self.workspace.principal.may(READ_PERMISSION) else structs.replace(session, title=None, preview=None)

    async def create(self, image_id: ImageId, title: str | None) -> Session:
        check_title(title)
        container, image = await self.workspace.image(image_id)
        await self.workspace.check_storage(SESSION_ROW_BYTES + len((title or "").encode()))
        session = new_session(image, SessionId(self.workspace.new_id("sess")), title, self.workspace.clock())
        await container.add_session(session)
        self.announce_created(session)
        return session

    async def open(
        self,
        image_id: ImageId,
        alias: Alias | None,
        *,
        title: str | None = None,
        seeds: Sequence[SeedMessage] = (),
        archived: bool = False,
    ) -> tuple[Session, bool]:
        """Returns the session of that name and False; the first time, a new one that begins with these messages, and True."""
        check_title(title)
        container, image = await self.workspace.image(image_id)
        if alias is not None and (session := await self._named(container, image_id, alias)) is not None:
            return session, False
        now = self.workspace.clock()
        messages = seeded(seeds, self.workspace.new_id, now)
        size = sum(len(encode_message(message)) for message in messages)
        await self.workspace.check_storage(SESSION_ROW_BYTES + len((title or "").encode()) + size)
        session = new_session(image, SessionId(self.workspace.new_id("sess")), title, now)
        session = structs.replace(session, archived_at=now if archived else None)
        try:
            await container.add_session(session, messages, alias=alias)
        except Conflict:
            # Another request has created it meanwhile.
            other = None if alias is None else await self._named(container, image_id, alias)
            if other is None:
                raise
            return other, False
        self.announce_created(session)
        return session, True

    async def _named(self, container: ContainerStore, image_id: ImageId, alias: Alias) -> Session | None:
        """Returns the session of that name; `Conflict` when it belongs to another image."""
        session_id = await container.aliases.find(alias)
        session = None if session_id is None else await container.get_session(session_id)
        if session is not None and session.image_id != image_id:
            raise Conflict("This name is that of a conversation with another agent")
        return session

    def announce_created(self, session: Session) -> None:
        self.announce(session, SessionCreated.of(session))

    async def keep(self, session_id: SessionId, *, pinned: bool | None = None, archived: bool | None = None) -> Session:
        sessions = await self._home(session_id)
        session = _existing(
            await sessions.keep(session_id, pinned=pinned, archived=archived, now=self.workspace.clock()), session_id
        )
        self.announce(session, SessionUpdated.of(session))
        return self.redacted(session)

    async def rename(self, session_id: SessionId, title: str | None) -> Session:
        check_title(title)
        container_id = await self._container(session_id)
        session = await self.workspace.store.container(container_id).set_title(session_id, title, self.workspace.clock())
        session = _existing(session, session_id)
        self.announce(session, SessionTitleUpdated.of(session))
        return structs.replace(self.redacted(session), title=session.title)

    async def release(self, session_id: SessionId) -> Session:
        """Lets a quarantined session take messages again."""
        container_id = await self._container(session_id)
        released = await self.workspace.runtime.quarantine.release(self.workspace.tenant_id, container_id, session_id)
        return self.redacted(_existing(released, session_id))

    async def delete(self, session_id: SessionId) -> tuple[Session, int]:
        """Returns the session and the time until which it can be restored. Its agent is stopped, which ends its turns."""
        return await self._hide(session_id, self.undo_ms)

    async def discard(self, session_id: SessionId) -> None:
        """Deletes a session that was not to be stored: nothing of it is left to restore."""
        deleted, _ = await self._hide(session_id, 0)
        await self._drop(deleted)

    async def discard_unbegun(self, session_id: SessionId) -> None:
        """Does the same with a session whose first message was refused, unless a turn has begun in it meanwhile."""
        container_id = await self._container(session_id)
        sessions = self.workspace.store.sessions((container_id,))
        deleted = await sessions.delete(session_id, self.workspace.clock(), unless_begun=True)
        if deleted is not None:
            await self._end(deleted, 0)
            await self._drop(deleted)

    async def _drop(self, deleted: Session) -> None:
        await self.workspace.store.sessions((deleted.container_id,)).drop(deleted.session_id)
        self.workspace.runtime.forget_discarded(self.workspace.tenant_id, deleted.session_id)

    async def _hide(self, session_id: SessionId, undo_ms: int) -> tuple[Session, int]:
        container_id = await self._container(session_id)
        sessions = self.workspace.store.sessions((container_id,))
        await self.workspace.stop_elsewhere(session_id=session_id)
        deleted = _existing(await sessions.delete(session_id, self.workspace.clock()), session_id)
        return deleted, await self._end(deleted, undo_ms)

    async def _end(self, deleted: Session, undo_ms: int) -> int:
        """Stops the agent of a deleted session and announces the deletion; returns until when it can be restored."""
        session_id, container_id = deleted.session_id, deleted.container_id
        present = self.workspace.runtime.roster.get(self.workspace.tenant_id, container_id, session_id)
        if present is not None:
            await self.workspace.runtime.stop_agent(present)
        until = (deleted.deleted_at or 0) + undo_ms
        self.announce(deleted, SessionDeleted.of(deleted, restorable_until=until))
        if await self.workspace.store.find_image(deleted.image_id) is None:
            # It was the image's last session.
            self.announce(deleted, ImageDeleted(image_id=deleted.image_id, container_id=container_id))
        return until

    async def restore(self, session_id: SessionId) -> Session:
        container_id = await self.workspace.store.find_session(session_id)
        if container_id is not None:
            # It is not deleted, so there is nothing to announce.
            return self.redacted(
                _existing(await self.workspace.store.container(container_id).get_session(session_id), session_id)
            )
        now = self.workspace.clock()
        sessions = await self.within()
        restored = _existing(await sessions.restore(session_id, now, deleted_after=now - self.undo_ms), session_id)
        image = await self.workspace.store.container(restored.container_id).get_image(restored.image_id)
        if image is not None and image.session_id == session_id:
            # It was deleted together with this session.
            self.announce(restored, ImageCreated.of(image))
        self.announce(restored, SessionRestored.of(restored))
        return self.redacted(restored)

    async def mark_read(
        self, session_id: SessionId, *, cursor: str | None, message_id: MessageId | None, device: str | None
    ) -> Listed:
        if cursor is not None and message_id is not None:
            raise InvalidInput("Give cursor or messageId, not both")
        sessions = await self._home(session_id)
        reader, now = self.reader(device), self.workspace.clock()
        marked = _existing(await sessions.mark_read(session_id, reader, now, cursor=cursor, message_id=message_id), session_id)
        user_id = self.workspace.principal.user_id
        self.announce(marked.session, SessionRead(session_id=session_id, user_id=user_id, unread=marked.unread, read_at=now))
        return marked

    async def messages(self, session_id: SessionId, query: MessageQuery) -> MessagePage:
        sessions = await self._home(session_id)
        return _existing(await sessions.messages(session_id, query), session_id)

    async def log_cursor(self, session_id: SessionId) -> int:
        """Returns the cursor from which a client follows the session that it begins to read now."""
        session = await self.session(session_id)
        return await self.workspace.runtime.log_cursor(self.workspace.tenant_id, session.container_id, session_id)

    async def compact(self, session_id: SessionId) -> Summary:
        """Summarizes older messages now. `Conflict` when there is nothing to summarize, or a summary is being made.

        The summary's text is returned only to a principal that may read sessions.
        """
        session = await self.session(session_id)
        if self.workspace.compactor is None:
            raise NotAvailable("Summaries are not available on this server")
        work = SessionWork(
            tenant_id=self.workspace.tenant_id,
            container_id=session.container_id,
            image_id=session.image_id,
            session_id=session_id,
            user_id=self.workspace.principal.user_id,
            key_id=self.workspace.principal.key_id,
            requested=True,
        )
        summary = await self.workspace.compactor.compact(work, self.workspace.runtime.broadcast)
        return summary if self.workspace.principal.may(READ_PERMISSION) else structs.replace(summary, text="")

    async def summaries(self, session_id: SessionId) -> tuple[Summary, ...]:
        """Returns the session's summaries, the newest first."""
        return _existing(await (await self._home(session_id)).summaries(session_id), session_id)

    def announce(self, session: Session, event: EventData) -> None:
        """Sends the event to every connection that works with the session's container."""
        self.workspace.announce(session.container_id, session.image_id, event)

    async def _home(self, session_id: SessionId) -> SessionStore:
        return self.workspace.store.sessions((await self._container(session_id),))

    async def _container(self, session_id: SessionId) -> ContainerId:
        return _existing(await self.workspace.store.find_session(session_id), session_id)

    @property
    def undo_ms(self) -> int:
        """Milliseconds for which a deleted session can be restored."""
        return int(self.workspace.runtime.settings_of(None).limits.undo_seconds * 1000)


def _existing(value: T | None, session_id: SessionId) -> T:
    if value is None:
        raise SessionNotFound(session_id)
    return value
