"""Arriving — much that comes in at once, without keeping anybody waiting, and all of it or nothing.

Theory of operation. The writer's time is everybody's, and an archive may have hundreds of megabytes. So it is written in small
pieces, with other people's commits in between, under the name of a tenant that nobody is. What is there nobody sees. When all
of it is there, one short commit gives it to its tenant. What was left by a crash is dropped at the next start.
"""

import secrets
from collections.abc import Callable, Iterator, Sequence

import anyio
import anyio.to_thread
import apsw

from agentvm.errors import Conflict
from agentvm.model.ids import TenantId
from agentvm.model.image import Image
from agentvm.model.message import Message
from agentvm.model.session import Session
from agentvm.model.turn import Turn
from agentvm.storage.attachments import CHUNK
from agentvm.storage.base import SessionWrite
from agentvm.storage.carry import Attached, Carried, Said
from agentvm.storage.sqlite.accounts.living import refuse_deleted
from agentvm.storage.sqlite.attachments import attach, drop_attachments, give_attachments
from agentvm.storage.sqlite.container import insert_image, insert_session
from agentvm.storage.sqlite.database import Database, Work
from agentvm.storage.sqlite.resources.graph import is_readable
from agentvm.storage.sqlite.resources.lock import lock_image
from agentvm.storage.sqlite.rows import drop_snapshot, fetch
from agentvm.storage.sqlite.session_write import ARRIVING, MESSAGES, cut, prepare
from agentvm.storage.sqlite.sessions.index import key_of

TOGETHER = 64
"""Images and sessions that it takes at a time."""

# Between these two is every name of this kind, and no id of a tenant.
_FIRST, _BEYOND = "importing:", "importing;"

_ADD_CONTAINER = """
INSERT INTO containers (tenant_id, container_id, created_at, updated_at) VALUES (?1, ?2, ?3, ?3)
ON CONFLICT (tenant_id, container_id) DO NOTHING
"""
_SET_QUARANTINE = "UPDATE sessions SET quarantine = ? WHERE tenant_id = ? AND session_id = ?"
# What was said elsewhere before is news to nobody.
_GIVE = "UPDATE sessions SET tenant_id = ?, answers = 0 WHERE tenant_id = ? AND image_id = ?"
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


async def arrive(database: Database, tenant_id: TenantId, load: Callable[[], Iterator[Carried]], now: int) -> None:
    """See `agentvm.storage.carry.Carrier.add`."""
    database = database.of(tenant_id)
    await database.write(lambda connection: refuse_deleted(connection, tenant_id))
    coming = _Coming(tenant_id, TenantId(f"{_FIRST}{secrets.token_hex(8)}"), now)
    pieces = coming.pieces(load())
    try:
        # What needs no database, such as to read and encode it, is done beside the writer.
        while piece := await anyio.to_thread.run_sync(next, pieces, None):
            await database.write(_all(piece))
        await database.write(_all([coming.give]))
    finally:
        # Nothing is left there when it was given.
        with anyio.CancelScope(shield=True):
            await _drop(database, coming.aside)


async def drop_left(database: Database) -> None:
    """What was still arriving when the process before this one ended."""
    for (aside,) in await database.read(lambda connection: fetch(connection, _LEFT, (_FIRST, _BEYOND))):
        await _drop(database, aside)
    # Long forks too: see `SqliteContainerStore.add_session`.
    await _drop_messages(database, _DROP_SOME_OF_FORKS, ARRIVING)

    def rest(connection: apsw.Connection) -> None:
        connection.execute(_DROP_FORKS, (ARRIVING,))

    await database.write(rest)


async def _drop_messages(database: Database, query: str, whose: str | int) -> None:
    """Some at a time."""

    def some(connection: apsw.Connection) -> int:
        connection.execute(query, (whose, MESSAGES))
        return connection.changes()

    while await database.write(some):
        pass


async def _drop(database: Database, aside: str) -> None:
    await _drop_messages(database, _DROP_SOME, aside)

    def rest(connection: apsw.Connection) -> None:
        for (digest,) in fetch(connection, _DROP_IMAGES, (aside,)):
            drop_snapshot(connection, digest)
        drop_attachments(connection, TenantId(aside))
        connection.execute(_DROP_CONTAINERS, (aside,))

    await database.write(rest)


def _all(piece: Piece) -> Work[None]:
    def work(connection: apsw.Connection) -> None:
        try:
            for one in piece:
                one(connection)
        except apsw.ConstraintError as error:
            raise Conflict("Something of the same id has come to be meanwhile; nothing was imported. Try again") from error

    return work


class _Coming:
    """What arrives, first aside, then where it belongs."""

    def __init__(self, tenant_id: TenantId, aside: TenantId, now: int) -> None:
        self._tenant_id = tenant_id
        self.aside = aside
        self._now = now
        self._images: list[Image] = []
        self._session: Session | None = None

    def pieces(self, carried: Iterator[Carried]) -> Iterator[Piece]:
        piece: Piece = []
        for one in carried:
            match one:
                case Image():
                    self._images.append(one)
                    piece.append(self._put_image(one))
                case Session():
                    self._session = one
                    piece.append(self._put_session(one))
                case Attached() if self._session is not None:
                    # By itself: it may be large.
                    piece.append(self._put_file(self._session, one))
                    yield piece
                    piece = []
                case Said() if self._session is not None:
                    turns = one.turns
                    for some in cut(one.messages) or [()]:
                        piece.append(self._put_said(self._session, some, turns))
                        yield piece
                        piece, turns = [], ()
                case _:
                    raise ValueError("nothing is said before there is a session")
            if len(piece) >= TOGETHER:
                yield piece
                piece = []
        if piece:
            yield piece

    def give(self, connection: apsw.Connection) -> None:
        """To the tenant; an image anew, because its sessions name it."""
        refuse_deleted(connection, self._tenant_id)
        for image in self._images:
            connection.execute(_ADD_CONTAINER, (self._tenant_id, image.container_id, self._now))
            position = insert_image(connection, self._tenant_id, image)
            held = [one for one in image.lock if is_readable(connection, self._tenant_id, one.version_id)]
            lock_image(connection, self._tenant_id, position, held)
            connection.execute(_GIVE, (self._tenant_id, self.aside, image.image_id))
        give_attachments(connection, self.aside, self._tenant_id)

    def _put_image(self, image: Image) -> Work[None]:
        def work(connection: apsw.Connection) -> None:
            connection.execute(_ADD_CONTAINER, (self.aside, image.container_id, self._now))
            insert_image(connection, self.aside, image)

        return work

    def _put_session(self, session: Session) -> Work[None]:
        def work(connection: apsw.Connection) -> None:
            insert_session(connection, self.aside, session)
            connection.execute(_SET_QUARANTINE, (session.quarantine, self.aside, session.session_id))

        return work

    def _put_file(self, session: Session, one: Attached) -> Work[None]:
        body = one.body or b""
        key = (self.aside, session.container_id)

        def work(connection: apsw.Connection) -> None:
            chunks = (body[at : at + CHUNK] for at in range(0, len(body), CHUNK))
            attach(connection, key, one.digest, one.size, chunks, one.upload, self._now)

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
