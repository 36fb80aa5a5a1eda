"""Arriving — much that comes in at once, without keeping anybody waiting, and all of it or nothing.

Theory of operation. The writer's time is everybody's, and an archive may have hundreds of megabytes. So it is written in small
pieces, with other people's commits in between, under the name of a tenant that nobody is. What is there nobody sees. When all
of it is there, one short commit gives it to its tenant. What was left by a crash is dropped at the next start.
"""

import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence

import anyio
import anyio.to_thread

from agentvm.errors import Conflict, ConstraintFailed
from agentvm.model.ids import ContainerId, TenantId
from agentvm.model.image import Image
from agentvm.model.message import Message
from agentvm.model.session import Session
from agentvm.model.turn import Turn
from agentvm.storage.attachments import CHUNK_BYTES
from agentvm.storage.base import SessionWrite
from agentvm.storage.carry import Attached, Carried, Continued, Present, Said
from agentvm.storage.sql.accounts.living import refuse_deleted
from agentvm.storage.sql.attachments import (
    PIECE_CHUNKS_MAX,
    add_chunks,
    attach,
    begin_blob,
    complete_blob,
    drop_attachments,
    drop_given_up,
    give_attachments,
    give_up_blob,
)
from agentvm.storage.sql.connection import Connection, Database, Work
from agentvm.storage.sql.container import insert_image, insert_session
from agentvm.storage.sql.erasing.begin import is_retired, refuse_erasing
from agentvm.storage.sql.resources.graph import is_readable
from agentvm.storage.sql.resources.lock import lock_image
from agentvm.storage.sql.rows import drop_snapshot
from agentvm.storage.sql.session_write import ARRIVING_MS, PIECE_MESSAGES, cut, prepare
from agentvm.storage.sql.sessions.index import key_of

PIECE_ITEMS_MAX = 64
"""Images and sessions that it takes at a time."""

# Between these two is every name of this kind, and no id of a tenant.
_FIRST, _BEYOND = "importing:", "importing;"

_ADD_CONTAINER = """
INSERT INTO containers (tenant_id, container_id, created_at, updated_at) VALUES (?1, ?2, ?3, ?3)
ON CONFLICT (tenant_id, container_id) DO NOTHING
"""
# The number of the last one may be given again; when it was made is another then.
_CONTAINERS = "SELECT container_id, position, created_at FROM containers WHERE tenant_id = ?"
_CONTAINER = "SELECT position, created_at FROM containers WHERE tenant_id = ? AND container_id = ?"
_SET_QUARANTINE = "UPDATE sessions SET quarantine = ? WHERE tenant_id = ? AND session_id = ?"
# What was said elsewhere before is news to nobody.
_GIVE = "UPDATE sessions SET tenant_id = ?, answers = 0 WHERE tenant_id = ? AND image_id = ?"
_IS_PRESENT = "SELECT 1 FROM images WHERE tenant_id = ? AND container_id = ? AND image_id = ?"
_KEY_OF = """
SELECT session_key FROM sessions
WHERE tenant_id = ? AND container_id = ? AND image_id = ? AND session_id = ? AND deleted_at IS NULL
"""
_LAST = "SELECT message_id, rewind_key IS NULL FROM placed_messages WHERE session_key = ? ORDER BY position DESC LIMIT 1"
_RUNS = "SELECT 1 FROM turns WHERE session_key = ? AND outcome IS NULL"
# What came aside, in the session that is here: what the search and the lists know of it goes along.
_MOVE_FACTS = """
UPDATE message_facts SET session_key = ?1 WHERE position IN (SELECT position FROM all_messages WHERE session_key = ?2)
"""
_MOVE_MESSAGES = "UPDATE all_messages SET session_key = ? WHERE session_key = ?"
# Those that are here already stay behind, and go with the rest that is aside.
_MOVE_TURNS = """
UPDATE turns SET session_key = ?1 WHERE session_key = ?2 AND NOT EXISTS (
    SELECT 1 FROM turns AS own WHERE own.session_key = ?1
      AND (own.turn_id = turns.turn_id OR own.client_key = turns.client_key)
)
"""
_CONTINUE = """
UPDATE sessions SET
    updated_at = (SELECT max(updated_at) FROM sessions WHERE session_key IN (?1, ?2)),
    last_message_at = (SELECT max(last_message_at) FROM sessions WHERE session_key IN (?1, ?2)),
    preview = coalesce((SELECT preview FROM sessions WHERE session_key = ?2), preview)
WHERE session_key = ?1
"""
_DROP_SESSION = "DELETE FROM sessions WHERE session_key = ?"
_LEFT = "SELECT DISTINCT tenant_id FROM containers WHERE tenant_id >= ? AND tenant_id < ?"
_DROP_SOME = """
DELETE FROM all_messages
WHERE position IN (SELECT position FROM sessions JOIN all_messages USING (session_key) WHERE tenant_id = ? LIMIT ?)
"""
_DROP_SOME_OF_FORKS = """
DELETE FROM all_messages
WHERE position IN (SELECT position FROM sessions JOIN all_messages USING (session_key) WHERE deleted_at = ? LIMIT ?)
"""
_DROP_FORKS = "DELETE FROM sessions WHERE deleted_at = ?"
_DROP_IMAGES = "DELETE FROM images WHERE tenant_id = ? RETURNING digest"
_DROP_CONTAINERS = "DELETE FROM containers WHERE tenant_id = ?"

Piece = list[Work[None]]
Containers = Mapping[ContainerId, tuple[int, int]]
"""Containers of a tenant at one moment, each with what tells it from a later one of the same name."""


async def arrive(database: Database, tenant_id: TenantId, load: Callable[[], Iterator[Carried]], now: int) -> None:
    """See `Carrier.add`."""
    database = database.of(tenant_id)
    await database.write(lambda connection: refuse_deleted(connection, tenant_id))
    # All of them: which are needed is known only when everything is read, and one may be deleted before.
    before = await database.read(lambda connection: _containers(connection, tenant_id), heavy=True)
    coming = _Coming(tenant_id, TenantId(f"{_FIRST}{secrets.token_hex(8)}"), now, before)
    pieces = coming.pieces(load())
    try:
        # What needs no database, such as to read and encode it, is done beside the writer.
        while piece := await anyio.to_thread.run_sync(next, pieces, None):
            await database.write(_all(piece))
        await database.write(_all([coming.give]))
    finally:
        # Nothing is left there when it was given.
        with anyio.CancelScope(shield=True):
            await database.write(_all([coming.give_up]))
            await _drop(database, coming.aside)
            await drop_given_up(database)


def _containers(connection: Connection, tenant_id: TenantId) -> Containers:
    return {ContainerId(name): (number, made) for name, number, made in connection.fetch(_CONTAINERS, (tenant_id,))}


async def drop_left(database: Database) -> None:
    """Deletes imports and long forks that a previous process did not finish."""
    for (aside,) in await database.read(lambda connection: connection.fetch(_LEFT, (_FIRST, _BEYOND))):
        await _drop(database, aside)
    # Long forks too: see `ContainerStore.add_session`.
    await _drop_messages(database, _DROP_SOME_OF_FORKS, ARRIVING_MS)

    def rest(connection: Connection) -> None:
        connection.execute(_DROP_FORKS, (ARRIVING_MS,))

    await database.write(rest)


async def _drop_messages(database: Database, query: str, whose: str | int) -> None:
    """Some at a time."""

    def some(connection: Connection) -> int:
        return connection.execute(query, (whose, PIECE_MESSAGES))

    while await database.write(some):
        pass


async def _drop(database: Database, aside: str) -> None:
    await _drop_messages(database, _DROP_SOME, aside)

    def rest(connection: Connection) -> None:
        for (digest,) in connection.fetch(_DROP_IMAGES, (aside,)):
            drop_snapshot(connection, digest)
        drop_attachments(connection, TenantId(aside))
        connection.execute(_DROP_CONTAINERS, (aside,))

    await database.write(rest)


def _all(piece: Piece) -> Work[None]:
    def work(connection: Connection) -> None:
        try:
            for one in piece:
                one(connection)
        except ConstraintFailed as error:
            raise Conflict("Something of the same id has come to be meanwhile; nothing was imported. Try again") from error

    return work


class _Coming:
    """One import: written aside first, then moved to its tenant."""

    def __init__(self, tenant_id: TenantId, aside: TenantId, now: int, before: Containers) -> None:
        self._tenant_id = tenant_id
        self._before = before
        self.aside = aside
        self._now = now
        self._images: list[Image | Present] = []
        self._continued: list[Continued] = []
        self._session: Session | None = None
        self._begun: int | None = None
        """The key of a file of which a part is written."""

    def pieces(self, carried: Iterator[Carried]) -> Iterator[Piece]:
        piece: Piece = []
        for one in carried:
            match one:
                case Image() | Present():
                    self._images.append(one)
                    piece.append(self._put_image(one if isinstance(one, Image) else one.image))
                case Session() | Continued():
                    self._session = one if isinstance(one, Session) else one.session
                    self._continued += [] if isinstance(one, Session) else [one]
                    piece.append(self._put_session(self._session))
                case Attached() if self._session is not None:
                    if piece:
                        yield piece
                    yield from self._file_pieces(self._session, one)
                    piece = []
                case Said() if self._session is not None:
                    turns = one.turns
                    for some in cut(one.messages) or [()]:
                        piece.append(self._put_said(self._session, some, turns))
                        yield piece
                        piece, turns = [], ()
                case _:
                    raise ValueError("nothing is said before there is a session")
            if len(piece) >= PIECE_ITEMS_MAX:
                yield piece
                piece = []
        if piece:
            yield piece

    def give(self, connection: Connection) -> None:
        """To the tenant; an image anew, because its sessions name it."""
        refuse_deleted(connection, self._tenant_id)
        for container_id in {(one.image if isinstance(one, Present) else one).container_id for one in self._images}:
            self._refuse_gone(connection, container_id)
        for continued in self._continued:
            self._continue(connection, continued)
        for one in self._images:
            if isinstance(one, Present):
                image_id = one.image.image_id
                if not connection.fetch(_IS_PRESENT, (self._tenant_id, one.image.container_id, image_id)):
                    raise Conflict(f"The image {image_id} has gone meanwhile; nothing was imported. Try again")
            else:
                image_id = one.image_id
                self._give_image(connection, one)
            connection.execute(_GIVE, (self._tenant_id, self.aside, image_id))
        give_attachments(connection, self.aside, self._tenant_id)

    def give_up(self, connection: Connection) -> None:
        """Leaves nothing of a file that was being written."""
        if self._begun is not None:
            give_up_blob(connection, self._begun)

    def _refuse_gone(self, connection: Connection, container_id: ContainerId) -> None:
        """Refuses a container that was deleted during the import."""
        key = (self._tenant_id, container_id)
        refuse_erasing(connection, key)
        before = self._before.get(container_id)
        if before is not None and connection.fetch(_CONTAINER, key) != [before]:
            raise Conflict(f"The container {container_id} was deleted meanwhile; nothing was imported")
        if is_retired(connection, key):
            message = f"The container {container_id} was deleted with its user; nothing was imported. Name another container"
            raise Conflict(message)

    def _give_image(self, connection: Connection, image: Image) -> None:
        connection.execute(_ADD_CONTAINER, (self._tenant_id, image.container_id, self._now))
        position = insert_image(connection, self._tenant_id, image)
        held = [one for one in image.lock if is_readable(connection, self._tenant_id, one.version_id)]
        lock_image(connection, self._tenant_id, position, held)

    def _continue(self, connection: Connection, one: Continued) -> None:
        """Appends imported messages to a session that the tenant has, if that is unchanged since."""
        session = one.session
        place = (session.container_id, session.image_id, session.session_id)
        keys = [connection.fetch(_KEY_OF, (tenant_id, *place)) for tenant_id in (self._tenant_id, self.aside)]
        if not keys[0] or not keys[1]:
            raise Conflict(f"The session {session.session_id} has gone meanwhile; nothing was imported. Try again")
        here, aside = keys[0][0][0], keys[1][0][0]
        last = connection.fetch(_LAST, (here,))
        if last != ([] if one.last is None else [(one.last, 1)]) or connection.fetch(_RUNS, (here,)):
            raise Conflict(f"The session {session.session_id} went on meanwhile; nothing was imported. Try again")
        connection.execute(_CONTINUE, (here, aside))
        connection.execute(_MOVE_FACTS, (here, aside))
        connection.execute(_MOVE_MESSAGES, (here, aside))
        connection.execute(_MOVE_TURNS, (here, aside))
        connection.execute(_DROP_SESSION, (aside,))

    def _put_image(self, image: Image) -> Work[None]:
        def work(connection: Connection) -> None:
            connection.execute(_ADD_CONTAINER, (self.aside, image.container_id, self._now))
            insert_image(connection, self.aside, image)

        return work

    def _put_session(self, session: Session) -> Work[None]:
        def work(connection: Connection) -> None:
            insert_session(connection, self.aside, session)
            connection.execute(_SET_QUARANTINE, (session.quarantine, self.aside, session.session_id))

        return work

    def _file_pieces(self, session: Session, one: Attached) -> Iterator[Piece]:
        """By itself, and a large one in several commits: so the writer is nobody's for long."""
        body = one.body or b""
        chunks = [body[at : at + CHUNK_BYTES] for at in range(0, len(body), CHUNK_BYTES)]
        if len(chunks) <= PIECE_CHUNKS_MAX:
            yield [self._put_file(session, one, chunks)]
            return
        yield [self._begin_file(one)]
        for first in range(0, len(chunks), PIECE_CHUNKS_MAX):
            yield [self._add_to_file(first, chunks[first : first + PIECE_CHUNKS_MAX])]
        yield [self._complete_file(one), self._put_file(session, one, [])]
        self._begun = None

    def _begin_file(self, one: Attached) -> Work[None]:
        def work(connection: Connection) -> None:
            self._begun = begin_blob(connection, one.size, self._now)

        return work

    def _add_to_file(self, first: int, chunks: Sequence[bytes]) -> Work[None]:
        def work(connection: Connection) -> None:
            if self._begun is not None:
                add_chunks(connection, self._begun, first, chunks)

        return work

    def _complete_file(self, one: Attached) -> Work[None]:
        def work(connection: Connection) -> None:
            if self._begun is not None:
                complete_blob(connection, self._begun, one.digest)

        return work

    def _put_file(self, session: Session, one: Attached, chunks: Sequence[bytes]) -> Work[None]:
        key = (self.aside, session.container_id)

        def work(connection: Connection) -> None:
            attach(connection, key, one.digest, one.size, iter(chunks), one.upload, self._now)

        return work

    def _put_said(self, session: Session, messages: Sequence[Message], turns: Sequence[Turn]) -> Work[None]:
        write = SessionWrite(
            tenant_id=self.aside,
            container_id=session.container_id,
            session_id=session.session_id,
            now=session.updated_at,
            messages=messages,
            turns=turns,
        )
        # Its words are those of where it will be: a search asks the rows again, and these are nobody's yet.
        return prepare(write, words=key_of(self._tenant_id, session.container_id))
