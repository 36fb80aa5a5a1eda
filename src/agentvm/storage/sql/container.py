"""ContainerStore — one container of one tenant.

Every statement carries the tenant and the container of this scope; a container id inside a record is not consulted. Values of
a write are encoded before it is queued, results of a read are decoded in the reader's thread.
"""

from collections.abc import Callable, Sequence

import anyio
import anyio.to_thread
import msgspec

from agentvm.errors import ContainerNotFound, ImageNotFound, SessionNotFound
from agentvm.model.container import Container
from agentvm.model.definition import snapshot_of
from agentvm.model.ids import ContainerId, ImageId, SessionId, TenantId, TurnId
from agentvm.model.image import Image
from agentvm.model.message import Message
from agentvm.model.session import Alias, Session
from agentvm.storage.base import SessionWrite
from agentvm.storage.sql import rows
from agentvm.storage.sql.aliases import AliasStore, insert_alias
from agentvm.storage.sql.arrivals import open_arrival
from agentvm.storage.sql.attachments import AttachmentStore
from agentvm.storage.sql.connection import Connection, Database
from agentvm.storage.sql.erasing.begin import refuse_erasing
from agentvm.storage.sql.file_changes import copy_files
from agentvm.storage.sql.log import LogStore
from agentvm.storage.sql.memories import MemoryStore
from agentvm.storage.sql.resources.lock import lock_image
from agentvm.storage.sql.rows import refuse_deleted
from agentvm.storage.sql.session_files import SessionFileStore
from agentvm.storage.sql.session_write import cut, prepare
from agentvm.storage.sql.sessions.dropping import drop_image_slice, hide_image
from agentvm.storage.sql.sessions.index import key_of
from agentvm.storage.sql.store_items import StoreItems
from agentvm.storage.sql.webhooks import add_session_notice

# One that is still arriving becomes everybody's.
_CREATE = f"""
INSERT INTO containers (tenant_id, container_id, created_at, updated_at) VALUES (?, ?, ?, ?)
ON CONFLICT (tenant_id, container_id) DO UPDATE SET arrival_key = NULL
WHERE NOT {rows.is_present("containers")}
"""
_ADD_IMAGE = """
INSERT INTO images (tenant_id, container_id, image_id, session_id, name, description, definition_name, digest, config, source,
                    lock, created_at, updated_at, arrival_key)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
RETURNING position
"""
_REBUILD_IMAGE = """
UPDATE images SET definition_name = ?, digest = ?, config = ?, source = ?, lock = ?, updated_at = ?
WHERE tenant_id = ? AND container_id = ? AND image_id = ?
"""
_PLACE_OF_IMAGE = "SELECT position, digest FROM images WHERE tenant_id = ? AND container_id = ? AND image_id = ?"
_ADD_SNAPSHOT = "INSERT INTO snapshots VALUES (?, ?) ON CONFLICT (digest) DO NOTHING"
_ADD_SESSION = """
INSERT INTO sessions (tenant_id, container_id, image_id, session_id, title, created_at, updated_at, pinned_at, archived_at,
                      forked_session, forked_message, agent, parent_session, parent_turn, parent_call, root_session, root_turn,
                      arrival_key)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
"""
# Messages of another session are news to nobody.
_SET_READ = """
UPDATE sessions SET answers = 0 WHERE tenant_id = ? AND container_id = ? AND session_id = ? AND deleted_at IS NULL
"""

_Build = tuple[str, str, bytes, bytes | None, bytes | None]

ENCODED_INLINE_MAX = 100
"""Longer histories are encoded in a thread."""
LIGHT_MESSAGES = 200
LIGHT_BYTES = 256 * 1024
"""Messages, and bytes, of a history that is read like anything else; a longer one is a heavy read."""


class ContainerStore:
    """One container of one tenant."""

    def __init__(self, database: Database, tenant_id: TenantId, container_id: ContainerId) -> None:
        self._database = database.of(tenant_id)
        self._key = (tenant_id, container_id)
        self.attachments: AttachmentStore = AttachmentStore(self._database, self._key)

    async def get(self) -> Container | None:
        return await self._database.read(lambda connection: rows.read_container(connection, self._key))

    async def create(self, now: int) -> bool:
        """Get-or-create; True when this call created it. `ContainerErasing` while one of the same name is being erased."""

        def write(connection: Connection) -> bool:
            refuse_deleted(connection, self._key[0])
            refuse_erasing(connection, self._key)
            return connection.execute(_CREATE, (*self._key, now, now)) == 1

        return await self._database.write(write)

    async def add_image(self, image: Image, default_session: Session, alias: Alias | None = None) -> None:
        """The image, its default session with that name, and (once per digest) its snapshot, in one commit.

        `Conflict` when another session has the name. `ResourceNotFound` when a version of its lock is gone in the meantime.
        Versions that an image is locked to cannot be deleted.
        """
        body = _snapshot(image)
        build = _encode_build(image)

        def write(connection: Connection) -> None:
            if not self._exists(connection):
                raise ContainerNotFound(self._key[1])
            position = _insert_image(connection, self._key, image, body, build)
            lock_image(connection, self._key[0], position, image.lock)
            _insert_session(connection, self._key, image.image_id, default_session)
            if alias is not None:
                insert_alias(connection, self._key, alias, default_session.session_id, default_session.created_at)
            add_session_notice(connection, self._key, default_session)

        await self._database.write(write)

    async def get_image(self, image_id: ImageId) -> Image | None:
        return await self._database.read(lambda connection: rows.read_image(connection, self._key, image_id))

    async def list_images(self) -> tuple[Image, ...]:
        """Newest first."""
        return await self._database.read(lambda connection: rows.read_images(connection, self._key))

    async def update_image(self, image_id: ImageId, *, name: str | None, description: str | None, now: int) -> Image | None:
        """Changes the fields that are not None; returns the updated image, None without such an image."""

        def write(connection: Connection) -> Image | None:
            connection.execute(
                "UPDATE images SET name = coalesce(?, name), description = coalesce(?, description), updated_at = ? "
                "WHERE tenant_id = ? AND container_id = ? AND image_id = ?",
                (name, description, now, *self._key, image_id),
            )
            return rows.read_image(connection, self._key, image_id)

        return await self._database.write(write)

    async def rebuild_image(self, image: Image) -> bool:
        """Puts its definition, config, source and lock in place of those that are stored; False when it is gone."""
        body = _snapshot(image)
        build = _encode_build(image)

        def write(connection: Connection) -> bool:
            places = connection.fetch(_PLACE_OF_IMAGE, (*self._key, image.image_id))
            for position, digest in places:
                connection.execute(_ADD_SNAPSHOT, (image.digest, body))
                connection.execute(_REBUILD_IMAGE, (*build, image.updated_at, *self._key, image.image_id))
                rows.drop_snapshot(connection, digest)
                lock_image(connection, self._key[0], position, image.lock)
            return bool(places)

        return await self._database.write(write)

    async def delete_image(self, image_id: ImageId) -> bool:
        """With its sessions, messages and turns: hidden by one commit, gone in small ones. True when it was there."""
        key = (*self._key, image_id)
        if not await self._database.write(lambda connection: bool(connection.fetch(_PLACE_OF_IMAGE, key))):
            return False
        while await self._database.write(lambda connection: hide_image(connection, key)):
            pass
        while await self._database.write(lambda connection: drop_image_slice(connection, key)):
            pass
        return True

    async def add_session(
        self,
        session: Session,
        messages: Sequence[Message] = (),
        files_of: SessionId | None = None,
        alias: Alias | None = None,
    ) -> None:
        """Adds a session with its first messages, all of it at once. `ImageNotFound` when its image is gone.

        With `files_of` it is a fork: the changes of files that came with these messages are copied from that session. With an
        `alias` it is found by that name from then on; `Conflict` when another session is.
        """
        # A thread costs more than a few messages do.
        pieces = cut(messages) if len(messages) <= ENCODED_INLINE_MAX else await anyio.to_thread.run_sync(cut, messages)
        if len(pieces) <= 1:
            await self._database.write(self._beginning(session, pieces[0] if pieces else (), None, files_of, alias))
            return
        try:
            async with open_arrival(self._database) as arrival:
                key = arrival.arrival_key
                begin = await anyio.to_thread.run_sync(self._beginning, session, pieces[0], key, files_of, alias)
                await self._database.write(begin)
                for piece in pieces[1:]:
                    await self._database.write(await anyio.to_thread.run_sync(self._saying, session, piece, key, files_of))
                await arrival.publish(session.updated_at, lambda connection: self._arrived(connection, session))
        except SessionNotFound:
            # It went with its image.
            raise ImageNotFound(session.image_id) from None

    def _beginning(
        self,
        session: Session,
        messages: Sequence[Message],
        arrival_key: int | None,
        files_of: SessionId | None,
        alias: Alias | None,
    ) -> Callable[[Connection], None]:
        """The write that adds a session and its first messages."""
        say = self._saying(session, messages, arrival_key, files_of) if messages else None

        def work(connection: Connection) -> None:
            if not connection.fetch(f"{_PLACE_OF_IMAGE} AND {rows.IS_SHOWN}", (*self._key, session.image_id)):
                raise ImageNotFound(session.image_id)
            _insert_session(connection, self._key, session.image_id, session, arrival_key)
            if arrival_key is None and session.parent is None:
                add_session_notice(connection, self._key, session)
            if alias is not None:
                insert_alias(connection, self._key, alias, session.session_id, session.created_at)
            if files_of is not None:
                copy_files(connection, self._key, files_of, session.session_id, ())
            if say is not None:
                say(connection)
                self._set_read(connection, session)

        return work

    def _saying(
        self, session: Session, messages: Sequence[Message], arrival_key: int | None, files_of: SessionId | None
    ) -> Callable[[Connection], None]:
        """The write that adds messages; those of an arrival are indexed at once, not by the next search."""
        tenant_id, container_id = self._key
        write = SessionWrite(
            tenant_id=tenant_id,
            container_id=container_id,
            session_id=session.session_id,
            now=session.updated_at,
            messages=messages,
        )
        say = prepare(write, words=None if arrival_key is None else key_of(tenant_id, container_id))

        def work(connection: Connection) -> None:
            say(connection)
            if files_of is not None:
                copy_files(connection, self._key, files_of, session.session_id, [message.id for message in messages])

        return work

    def _set_read(self, connection: Connection, session: Session) -> None:
        if not connection.execute(_SET_READ, (*self._key, session.session_id)):
            raise SessionNotFound(session.session_id)

    def _arrived(self, connection: Connection, session: Session) -> None:
        self._set_read(connection, session)
        add_session_notice(connection, self._key, session)

    async def get_session(self, session_id: SessionId) -> Session | None:
        return await self._database.read(lambda connection: rows.read_session(connection, self._key, session_id))

    async def list_sessions(self, image_id: ImageId) -> tuple[Session, ...]:
        """Oldest first, so that the default session leads."""
        return await self._database.read(lambda connection: rows.read_sessions(connection, self._key, image_id))

    async def list_called(self, turn_id: TurnId) -> tuple[Session, ...]:
        """The sessions of the sub-agents that a turn has called, in order."""
        return await self._database.read(
            lambda connection: rows.read_hidden_sessions(connection, self._key, "parent_turn", turn_id)
        )

    async def list_below(self, session_id: SessionId) -> tuple[Session, ...]:
        """The sessions of all sub-agents below a session, in order."""
        return await self._database.read(
            lambda connection: rows.read_hidden_sessions(connection, self._key, "root_session", session_id)
        )

    async def set_title(self, session_id: SessionId, title: str | None, now: int) -> Session | None:
        def write(connection: Connection) -> Session | None:
            connection.execute(
                "UPDATE sessions SET title = ?, updated_at = ? "
                "WHERE tenant_id = ? AND container_id = ? AND session_id = ? AND deleted_at IS NULL",
                (title, now, *self._key, session_id),
            )
            return rows.read_session(connection, self._key, session_id)

        return await self._database.write(write)

    async def list_messages(self, session_id: SessionId) -> tuple[Message, ...]:
        """Messages in the order they were appended."""
        # Most histories are short; one that is not is read again as what it is.
        history = await self._database.read(
            lambda connection: rows.read_messages(connection, self._key, session_id, LIGHT_MESSAGES + 1)
        )
        if len(history) <= LIGHT_MESSAGES:
            return history
        return await self._database.read(lambda connection: rows.read_messages(connection, self._key, session_id), heavy=True)

    async def list_recent_messages(
        self, session_id: SessionId, max_bytes: int, *, limit: int | None = None, strict: bool = False
    ) -> tuple[tuple[Message, ...], bool]:
        """The newest messages whose stored sizes add up to at most `max_bytes`, oldest first, and whether some were left out.

        At most `limit`, if one is given. The newest message is always returned, also if it alone is larger, unless `strict` is
        given. Messages that do not fit are never read into memory.
        """
        # As above: what is short is read like anything else.
        few = LIGHT_MESSAGES if limit is None else min(limit, LIGHT_MESSAGES)
        size = min(max_bytes, LIGHT_BYTES)
        history, truncated = await self._database.read(
            lambda connection: rows.read_recent_messages(connection, self._key, session_id, size, limit=few, strict=strict)
        )
        if not truncated or (size == max_bytes and (few == limit or len(history) < few)):
            return history, truncated
        return await self._database.read(
            lambda connection: rows.read_recent_messages(
                connection, self._key, session_id, max_bytes, limit=limit, strict=strict
            ),
            heavy=True,
        )

    def log(self, session_id: SessionId) -> LogStore:
        return LogStore(self._database, self._key, session_id)

    @property
    def aliases(self) -> AliasStore:
        """The names that clients of other protocols have given to the sessions."""
        return AliasStore(self._database, self._key)

    @property
    def memories(self) -> MemoryStore:
        return MemoryStore(self._database, self._key)

    @property
    def store_items(self) -> StoreItems:
        return StoreItems(self._database, self._key)

    def files(self, session_id: SessionId) -> SessionFileStore:
        return SessionFileStore(self._database, self._key, session_id)

    def _exists(self, connection: Connection) -> bool:
        return bool(connection.fetch(rows.CONTAINER, self._key))


def insert_image(connection: Connection, tenant_id: TenantId, image: Image, arrival_key: int) -> int:
    """Adds an image of an arrival, without its lock; returns the position of its row."""
    key = (tenant_id, image.container_id)
    return _insert_image(connection, key, image, _snapshot(image), _encode_build(image), arrival_key)


def insert_session(connection: Connection, tenant_id: TenantId, session: Session, arrival_key: int) -> None:
    """Adds a session of an arrival."""
    _insert_session(connection, (tenant_id, session.container_id), session.image_id, session, arrival_key)


def _insert_image(
    connection: Connection, key: rows.Key, image: Image, body: bytes, build: _Build, arrival_key: int | None = None
) -> int:
    connection.execute(_ADD_SNAPSHOT, (image.digest, body))
    named = (image.image_id, image.session_id, image.name, image.description)
    row = (*key, *named, *build, image.created_at, image.updated_at, arrival_key)
    return int(connection.fetch(_ADD_IMAGE, row)[0][0])


def _insert_session(
    connection: Connection, key: rows.Key, image_id: ImageId, session: Session, arrival_key: int | None = None
) -> None:
    fork = session.forked_from
    origin = (None, None) if fork is None else (fork.session_id, fork.message_id)
    about = (session.title, session.created_at, session.updated_at, session.pinned_at, session.archived_at, *origin)
    parent = session.parent
    called = (None,) * 5 if parent is None else msgspec.structs.astuple(parent)
    connection.execute(_ADD_SESSION, (*key, image_id, session.session_id, *about, session.agent, *called, arrival_key))


def _snapshot(image: Image) -> bytes:
    digest, body = snapshot_of(image.definition)
    if digest != image.digest:
        # Snapshots are shared across tenants, so one stored under a foreign digest would change other people's images.
        raise ValueError(f"image {image.image_id}: digest {image.digest} is not that of its definition, {digest}")
    return body


def _encode_build(image: Image) -> _Build:
    """The columns of an image that a build decides."""
    config, source, lock = rows.encode_build(image)
    return image.definition_name, image.digest, config, source, lock
