"""Importing — imports an archive in small commits that become visible together, or not at all.

Everything is written where it will be, hidden (`arrivals`). An id is therefore reserved from the first row on, and deletions
in the meantime apply as usual; each commit checks that its container is still the same one.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import anyio
import anyio.to_thread
import msgspec

from agentvm.errors import Conflict, ConstraintFailed
from agentvm.model.ids import ContainerId, TenantId
from agentvm.model.image import Image
from agentvm.model.memory import ContainerMemory
from agentvm.model.message import Message
from agentvm.model.schedule import Schedule, Trigger
from agentvm.model.session import Session
from agentvm.model.turn import Turn
from agentvm.storage.attachments import CHUNK_BYTES
from agentvm.storage.carry import Attached, Carried, ChangedFile, ContainerItem, Continued, Present, SessionContent
from agentvm.storage.sql.arrivals import Arrival, open_arrival
from agentvm.storage.sql.attachments import (
    PIECE_CHUNKS_MAX,
    add_chunks,
    attach_arriving,
    begin_blob,
    complete_blob,
    release_blob,
)
from agentvm.storage.sql.connection import Connection, Database, Work, snapshot
from agentvm.storage.sql.container import insert_image, insert_session
from agentvm.storage.sql.dialect import greater
from agentvm.storage.sql.erasing.begin import is_retired, refuse_erasing
from agentvm.storage.sql.file_changes import write_arriving_change
from agentvm.storage.sql.memories import add_arriving_memory
from agentvm.storage.sql.resources.graph import is_readable
from agentvm.storage.sql.resources.lock import lock_image
from agentvm.storage.sql.rows import refuse_deleted
from agentvm.storage.sql.schedules import add_arriving_source
from agentvm.storage.sql.session_write import TURN, PreparedMessage, add_messages, cut, prepare_message
from agentvm.storage.sql.sessions.index import Entry, key_of, preview_of

PIECE_ITEMS_MAX = 64
"""Images and sessions that one commit adds."""

_ADD_CONTAINER = """
INSERT INTO containers (tenant_id, container_id, created_at, updated_at, arrival_key) VALUES (?1, ?2, ?3, ?3, ?4)
RETURNING position, created_at
"""
# A position may be given again; the time of creation is another then.
_CONTAINERS = "SELECT container_id, position, created_at FROM containers WHERE tenant_id = ?"
_CONTAINER = "SELECT position, created_at FROM containers WHERE tenant_id = ? AND container_id = ?"
_IS_PRESENT = "SELECT 1 FROM images WHERE tenant_id = ? AND container_id = ? AND image_id = ?"
_ADDED = "SELECT session_key FROM sessions WHERE tenant_id = ? AND session_id = ? AND arrival_key = ?"
_SET_QUARANTINE = "UPDATE sessions SET quarantine = ? WHERE tenant_id = ? AND session_id = ?"
_CONTINUED = """
SELECT session_key FROM sessions
WHERE tenant_id = ? AND container_id = ? AND image_id = ? AND session_id = ? AND deleted_at IS NULL
"""
_LAST = (
    "SELECT position, message_id, rewind_key IS NULL FROM placed_messages WHERE session_key = ? ORDER BY position DESC LIMIT 1"
)
_RUNS = "SELECT 1 FROM turns WHERE session_key = ? AND outcome IS NULL"
_BEGIN = """
INSERT INTO arriving_messages (session_key, arrival_key, base, first, last, updated_at) VALUES (?1, ?2, ?3, ?4, ?4 - 1, ?5)
"""
_RANGE = """
SELECT a.session_key, a.last FROM arriving_messages AS a JOIN sessions AS s USING (session_key)
WHERE s.tenant_id = ? AND s.session_id = ? AND a.arrival_key = ?
"""
_HAS_LATER = "SELECT 1 FROM messages WHERE session_key = ? AND position > ? LIMIT 1"
_NEXT = "SELECT coalesce(max(position), 0) + 1 FROM all_messages"
_EXTEND = """
UPDATE arriving_messages SET first = CASE WHEN last < first THEN ?1 ELSE first END, last = ?2
WHERE session_key = ?3 AND arrival_key = ?4
"""
_SET_SUMMARY = f"""
SET last_message_at = {greater("coalesce(last_message_at, 0)", "?1")}, preview = coalesce(?2, preview)
WHERE session_key = ?3 AND arrival_key = ?4
"""
_SUMMARIZE_SESSION, _SUMMARIZE_RANGE = f"UPDATE sessions {_SET_SUMMARY}", f"UPDATE arriving_messages {_SET_SUMMARY}"
# A turn that a continued session has already stays as it is.
_ADD_TURN = f"""
INSERT INTO turns (session_key, arrival_key, {TURN.text}) VALUES (?, ?, {TURN.marks}) ON CONFLICT DO NOTHING
"""
_IS_CONTINUED = "SELECT 1 FROM arriving_messages WHERE arrival_key = ? LIMIT 1"
_MARKS = "SELECT (SELECT coalesce(max(position), 0) FROM all_messages), (SELECT coalesce(max(rewind_key), 0) FROM rewinds)"
# All that a session has but the messages that arrive.
_WENT_ON = """
SELECT s.session_id FROM arriving_messages AS a JOIN sessions AS s USING (session_key)
WHERE a.arrival_key = ? AND coalesce((SELECT max(position) FROM messages AS m WHERE m.session_key = a.session_key), 0) <> a.base
LIMIT 1
"""
# Looks only at what was stored since the marks, and at the turns that run.
_WENT_ON_SINCE = """
SELECT s.session_id FROM sessions AS s JOIN (
    SELECT session_key FROM all_messages WHERE position > ?2
    UNION ALL SELECT session_key FROM rewinds WHERE rewind_key > ?3
    UNION ALL SELECT session_key FROM turns WHERE outcome IS NULL AND arrival_key IS DISTINCT FROM ?1
) AS changed USING (session_key)
WHERE EXISTS (SELECT 1 FROM arriving_messages AS a WHERE a.session_key = s.session_key AND a.arrival_key = ?1)
LIMIT 1
"""

Piece = list[Work[None]]
Containers = Mapping[ContainerId, tuple[int, int]]
"""Containers of a tenant at one moment, each with the numbers that tell it from a later one of the same name."""


async def import_archive(database: Database, tenant_id: TenantId, load: Callable[[], Iterator[Carried]], now: int) -> None:
    """See `Carrier.add`."""
    database = database.of(tenant_id)
    await database.write(lambda connection: refuse_deleted(connection, tenant_id))
    # All of them: which are needed is known only when everything is read, and one may be deleted before.
    before = await database.read(lambda connection: _containers(connection, tenant_id), heavy=True)
    async with open_arrival(database) as arrival:
        archive = _Import(tenant_id, arrival, now, before)
        pieces = archive.pieces(load())
        try:
            # Reading and encoding need no database, and are done beside the writer.
            while piece := await anyio.to_thread.run_sync(next, pieces, None):
                await database.write(_all(piece))
                archive.confirm()
            await _publish(database, tenant_id, arrival, now)
        finally:
            with anyio.CancelScope(shield=True):
                await database.write(archive.release_file)


def _containers(connection: Connection, tenant_id: TenantId) -> Containers:
    return {ContainerId(name): (number, created_at) for name, number, created_at in connection.fetch(_CONTAINERS, (tenant_id,))}


def _all(piece: Piece) -> Work[None]:
    def work(connection: Connection) -> None:
        try:
            for write in piece:
                write(connection)
        except ConstraintFailed as error:
            raise Conflict("An item with the same id was created in the meantime; nothing was imported. Try again") from error

    return work


async def _publish(database: Database, tenant_id: TenantId, arrival: Arrival, now: int) -> None:
    """Publishes the import if no continued session continued in the meantime. A reader looks at each; the writer at changes
    since."""
    key = arrival.arrival_key

    def read_marks(connection: Connection) -> tuple[int, int] | None:
        with snapshot(connection):
            if not connection.fetch(_IS_CONTINUED, (key,)):
                return None
            _refuse(connection.fetch(_WENT_ON, (key,)))
            messages, rewinds = connection.fetch(_MARKS)[0]
            return messages, rewinds

    marks = await database.read(read_marks, heavy=True)

    def check(connection: Connection) -> None:
        refuse_deleted(connection, tenant_id)
        if marks is not None:
            _refuse(connection.fetch(_WENT_ON_SINCE, (key, *marks)))

    await arrival.publish(now, check)


def _refuse(went_on: Sequence[tuple[Any, ...]]) -> None:
    for (session_id,) in went_on:
        raise Conflict(f"The session {session_id} continued in the meantime; nothing was imported. Try again")


class _Import:
    """The commits of one import."""

    def __init__(self, tenant_id: TenantId, arrival: Arrival, now: int, before: Containers) -> None:
        self._tenant_id = tenant_id
        self._arrival_key = arrival.arrival_key
        self._now = now
        self._containers = dict(before)
        self._entered: dict[ContainerId, tuple[int, int]] = {}
        """Containers that the commit in progress has found or created."""
        self._session: Session | Continued | None = None
        self._blob_key: int | None = None
        """A file of which a part is written."""

    def confirm(self) -> None:
        """The commit in progress is done."""
        self._containers |= self._entered
        self._entered = {}

    def release_file(self, connection: Connection) -> None:
        """Leaves nothing of a file that was being written."""
        if self._blob_key is not None:
            release_blob(connection, self._blob_key)

    def pieces(self, carried: Iterator[Carried]) -> Iterator[Piece]:
        piece: Piece = []
        for item in carried:
            match item:
                case Image() | Present():
                    piece.append(partial(self._put_image, item=item))
                case Session() | Continued():
                    self._session = item
                    piece.append(partial(self._put_session, item=item))
                case Attached() if self._session is not None:
                    if piece:
                        yield piece
                    yield from self._file_pieces(self._session, item)
                    piece = []
                case ChangedFile() if self._session is not None:
                    if piece:
                        yield piece
                    yield from self._change_pieces(self._session, item)
                    piece = []
                case SessionContent() if self._session is not None:
                    turns = item.turns
                    for messages in cut(item.messages) or [()]:
                        piece.append(self._put_content(self._session, messages, turns))
                        yield piece
                        piece, turns = [], ()
                case ContainerMemory() | Schedule() | Trigger():
                    piece.append(partial(self._put_item, item=item))
                case _:
                    raise ValueError("a message stands before its session")
            if len(piece) >= PIECE_ITEMS_MAX:
                yield piece
                piece = []
        if piece:
            yield piece

    def _enter(self, connection: Connection, container_id: ContainerId) -> None:
        """Creates the container if there is none; `Conflict` if it was deleted during the import."""
        key = (self._tenant_id, container_id)
        refuse_erasing(connection, key)
        rows = connection.fetch(_CONTAINER, key)
        container = self._containers.get(container_id)
        if container is not None and rows != [container]:
            raise Conflict(f"The container {container_id} was deleted in the meantime; nothing was imported")
        if is_retired(connection, key):
            message = f"The container {container_id} was deleted with its user; nothing was imported. Name another container"
            raise Conflict(message)
        rows = rows or connection.fetch(_ADD_CONTAINER, (*key, self._now, self._arrival_key))
        self._entered[container_id] = rows[0]

    def _put_image(self, connection: Connection, item: Image | Present) -> None:
        image = item.image if isinstance(item, Present) else item
        refuse_deleted(connection, self._tenant_id)
        self._enter(connection, image.container_id)
        if isinstance(item, Image):
            position = insert_image(connection, self._tenant_id, image, self._arrival_key)
            held = [locked for locked in image.lock if is_readable(connection, self._tenant_id, locked.version_id)]
            lock_image(connection, self._tenant_id, position, held)
        elif not connection.fetch(_IS_PRESENT, (self._tenant_id, image.container_id, image.image_id)):
            raise Conflict(f"The image {image.image_id} was deleted in the meantime; nothing was imported. Try again")

    def _put_item(self, connection: Connection, item: ContainerItem) -> None:
        refuse_deleted(connection, self._tenant_id)
        self._enter(connection, item.container_id)
        if isinstance(item, ContainerMemory):
            add_arriving_memory(connection, (self._tenant_id, item.container_id), item, self._arrival_key)
        else:
            add_arriving_source(connection, self._tenant_id, item, self._arrival_key)

    def _put_session(self, connection: Connection, item: Session | Continued) -> None:
        if isinstance(item, Continued):
            self._continue(connection, item)
        else:
            insert_session(connection, self._tenant_id, item, self._arrival_key)
            connection.execute(_SET_QUARANTINE, (item.quarantine, self._tenant_id, item.session_id))

    def _continue(self, connection: Connection, item: Continued) -> None:
        """Begins to add messages to a session that the tenant has, if that is unchanged since it was looked at."""
        session = item.session
        place = (session.container_id, session.image_id, session.session_id)
        keys = connection.fetch(_CONTINUED, (self._tenant_id, *place))
        if not keys:
            raise Conflict(f"The session {session.session_id} was deleted in the meantime; nothing was imported. Try again")
        key = keys[0][0]
        last = connection.fetch(_LAST, (key,))
        if [row[1:] for row in last] != ([] if item.last is None else [(item.last, 1)]) or connection.fetch(_RUNS, (key,)):
            _refuse([(session.session_id,)])
        first = connection.fetch(_NEXT)[0][0]
        connection.execute(_BEGIN, (key, self._arrival_key, last[0][0] if last else 0, first, session.updated_at))

    def _put_content(self, item: Session | Continued, messages: Sequence[Message], turns: Sequence[Turn]) -> Work[None]:
        session = item.session if isinstance(item, Continued) else item
        words = key_of(self._tenant_id, session.container_id)
        prepared = [prepare_message(message, words) for message in messages]
        # Waits stay where they are: nobody could answer them here.
        turn_rows = [TURN.encode(msgspec.structs.replace(turn, parked_at=None)) for turn in turns]

        def work(connection: Connection) -> None:
            place = self._find(connection, item)
            session_key = place[0]
            if isinstance(item, Continued) and connection.fetch(_HAS_LATER, place):
                _refuse([(session.session_id,)])
            update = _SUMMARIZE_RANGE if isinstance(item, Continued) else _SUMMARIZE_SESSION
            entries = self._add(connection, session_key, session, prepared, extend=isinstance(item, Continued))
            if entries:
                about = (max(entry.at for entry in entries), preview_of(entries))
                connection.execute(update, (*about, session_key, self._arrival_key))
            connection.many(_ADD_TURN, ((session_key, self._arrival_key, *row) for row in turn_rows))

        return work

    def _find(self, connection: Connection, item: Session | Continued) -> tuple[Any, ...]:
        """The key of a session that arrives, and the last of its messages if it was here before."""
        session = item.session if isinstance(item, Continued) else item
        self._enter(connection, session.container_id)
        find = _RANGE if isinstance(item, Continued) else _ADDED
        place = connection.fetch(find, (self._tenant_id, session.session_id, self._arrival_key))
        if not place:
            raise Conflict(f"The session {session.session_id} was deleted in the meantime; nothing was imported. Try again")
        return place[0]

    def _add(
        self, connection: Connection, session_key: int, session: Session, prepared: Sequence[PreparedMessage], *, extend: bool
    ) -> list[Entry]:
        if not prepared:
            return []
        added = add_messages(connection, session_key, (self._tenant_id, session.container_id), prepared)
        if len(added) < len(prepared):
            raise Conflict(f"A message of the session {session.session_id} is here already; nothing was imported. Try again")
        if extend:
            first, last = added[0][0], added[-1][0]
            connection.execute(_EXTEND, (first, last, session_key, self._arrival_key))
        return [entry for _, entry in added]

    def _file_pieces(self, item: Session | Continued, file: Attached) -> Iterator[Piece]:
        session = item.session if isinstance(item, Continued) else item
        chunks = _chunks(file.body)
        put = partial(self._put_file, session=session, file=file, chunks=chunks)
        yield from self._blob_pieces(file.digest, file.size, chunks, put)

    def _change_pieces(self, item: Session | Continued, file: ChangedFile) -> Iterator[Piece]:
        (change,) = file.delta.changes
        chunks = _chunks(file.body)
        put = partial(self._put_change, item=item, file=file, chunks=chunks)
        yield from self._blob_pieces(change.digest or "", change.size, chunks, put)

    def _blob_pieces(self, digest: str, size: int, chunks: Sequence[bytes], put: Work[None]) -> Iterator[Piece]:
        """A large file is written in several commits, and belongs to no container until the last."""
        if len(chunks) <= PIECE_CHUNKS_MAX:
            yield [put]
            return
        yield [partial(self._begin_file, size=size)]
        for first in range(0, len(chunks), PIECE_CHUNKS_MAX):
            yield [partial(self._add_to_file, first=first, chunks=chunks[first : first + PIECE_CHUNKS_MAX])]
        # All chunks once more: they are taken if the import took longer than the grace of what nobody has yet.
        yield [partial(self._complete_file, digest=digest), put]
        self._blob_key = None

    def _begin_file(self, connection: Connection, size: int) -> None:
        self._blob_key = begin_blob(connection, size, self._now)

    def _add_to_file(self, connection: Connection, first: int, chunks: Sequence[bytes]) -> None:
        if self._blob_key is not None:
            add_chunks(connection, self._blob_key, first, chunks)

    def _complete_file(self, connection: Connection, digest: str) -> None:
        if self._blob_key is not None:
            complete_blob(connection, self._blob_key, digest)

    def _put_file(self, connection: Connection, session: Session, file: Attached, chunks: Sequence[bytes]) -> None:
        self._enter(connection, session.container_id)
        key, blob = (self._tenant_id, session.container_id), (file.digest, file.size, iter(chunks))
        attach_arriving(connection, key, blob, file.upload, self._now, self._arrival_key)

    def _put_change(
        self, connection: Connection, item: Session | Continued, file: ChangedFile, chunks: Sequence[bytes]
    ) -> None:
        write_arriving_change(connection, self._find(connection, item)[0], file.delta, chunks)


def _chunks(body: bytes | None) -> list[bytes]:
    return [body[at : at + CHUNK_BYTES] for at in range(0, len(body), CHUNK_BYTES)] if body else []
