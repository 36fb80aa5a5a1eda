"""SqliteCarrier — moves sessions out of and into SQLite."""

from collections.abc import Callable, Collection, Iterator

import apsw

from agentvm.errors import Conflict
from agentvm.model.ids import ContainerId, SessionId, TenantId, TurnId
from agentvm.model.image import Image
from agentvm.model.message import decode_message
from agentvm.model.session import Session
from agentvm.storage.base import SessionWrite
from agentvm.storage.carry import Carried, History, Page, Said
from agentvm.storage.sqlite.accounts.living import refuse_deleted
from agentvm.storage.sqlite.container import insert_image, insert_session
from agentvm.storage.sqlite.database import Database
from agentvm.storage.sqlite.resources.graph import is_readable
from agentvm.storage.sqlite.resources.lock import lock_image
from agentvm.storage.sqlite.rows import TURNS, decode_turn, fetch
from agentvm.storage.sqlite.session_write import prepare

PAGE_BYTES = 4 * 1024 * 1024
PAGE = 256
IDS = 500
"""Looked for at a time."""

_MEASURE = """
SELECT coalesce(sum(length(body)), 0) FROM sessions JOIN messages USING (session_key)
WHERE tenant_id = ?1 AND container_id = ?2 AND (?3 IS NULL OR session_id = ?3) AND deleted_at IS NULL
"""
_LAST = """
SELECT coalesce(max(position), 0) FROM sessions JOIN messages USING (session_key)
WHERE tenant_id = ? AND container_id = ? AND session_id = ?
"""
# The sum leaves out what is beyond a page, but never the first.
_PAGE = """
SELECT position, body FROM (
    SELECT position, body, sum(length(body)) OVER (ORDER BY position) - length(body) AS before
    FROM (SELECT position, body FROM sessions JOIN messages USING (session_key)
          WHERE tenant_id = ? AND container_id = ? AND session_id = ? AND position > ? AND position <= ?
          ORDER BY position LIMIT ?)
) WHERE before < ? ORDER BY position
"""
_ADD_CONTAINER = """
INSERT INTO containers (tenant_id, container_id, created_at, updated_at) VALUES (?1, ?2, ?3, ?3)
ON CONFLICT (tenant_id, container_id) DO NOTHING
"""
_SET_QUARANTINE = "UPDATE sessions SET quarantine = ? WHERE tenant_id = ? AND session_id = ?"
_DATE_IMAGE = "UPDATE images SET updated_at = ? WHERE tenant_id = ? AND image_id = ?"


class SqliteCarrier:
    """See `agentvm.storage.carry.Carrier`."""

    def __init__(self, database: Database, tenant_id: TenantId) -> None:
        self._database = database
        self._tenant_id = tenant_id

    async def measure(self, container_id: ContainerId, session_id: SessionId | None = None) -> int:
        scope = (self._tenant_id, container_id, session_id)
        return await self._database.read(lambda connection: int(fetch(connection, _MEASURE, scope)[0][0]))

    async def history(self, container_id: ContainerId, session_id: SessionId) -> History:
        scope = (self._tenant_id, container_id, session_id)

        def read(connection: apsw.Connection) -> History:
            # One state for both: a message whose turn is not known yet must not come along.
            with connection:
                turns = [decode_turn(row) for row in fetch(connection, TURNS, scope)]
                last = int(fetch(connection, _LAST, scope)[0][0])
            running = frozenset(TurnId(turn.turn_id) for turn in turns if turn.outcome is None)
            return History(tuple(turn for turn in turns if turn.outcome is not None), running, last)

        return await self._database.read(read)

    async def read(self, container_id: ContainerId, session_id: SessionId, history: History, after: int) -> Page:
        scope = (self._tenant_id, container_id, session_id, after, history.last, PAGE, PAGE_BYTES)

        def read(connection: apsw.Connection) -> Page:
            found = fetch(connection, _PAGE, scope)
            messages = (decode_message(body) for _, body in found)
            kept = tuple(message for message in messages if message.turn_id not in history.running)
            return Page(kept, int(found[-1][0]) if found and found[-1][0] < history.last else None)

        return await self._database.read(read)

    async def taken(self, ids: Collection[str]) -> frozenset[str]:
        wanted = sorted(ids)

        def read(connection: apsw.Connection) -> frozenset[str]:
            found: set[str] = set()
            for at in range(0, len(wanted), IDS):
                some = wanted[at : at + IDS]
                marks = ", ".join("?" * len(some))
                for kind in ("image", "session"):
                    query = f"SELECT {kind}_id FROM {kind}s WHERE tenant_id = ? AND {kind}_id IN ({marks})"
                    found.update(str(one) for (one,) in fetch(connection, query, (self._tenant_id, *some)))
            return frozenset(found)

        return await self._database.read(read)

    async def add(self, load: Callable[[], Iterator[Carried]], now: int) -> None:
        def write(connection: apsw.Connection) -> None:
            refuse_deleted(connection, self._tenant_id)
            try:
                _Intake(connection, self._tenant_id, now).take(load())
            except apsw.ConstraintError as error:
                raise Conflict("Something of the same id has come to be meanwhile; nothing was imported. Try again") from error

        await self._database.write(write)


class _Intake:
    """One transaction of the writer."""

    def __init__(self, connection: apsw.Connection, tenant_id: TenantId, now: int) -> None:
        self._connection = connection
        self._tenant_id = tenant_id
        self._now = now

    def take(self, all_of_it: Iterator[Carried]) -> None:
        images: list[Image] = []
        session: Session | None = None
        for one in all_of_it:
            match one:
                case Image():
                    images.append(one)
                    self._add_image(one)
                case Session():
                    session = one
                    insert_session(self._connection, self._tenant_id, one)
                    self._connection.execute(_SET_QUARANTINE, (one.quarantine, self._tenant_id, one.session_id))
                case Said() if session is not None:
                    self._add_said(session, one)
                case _:
                    raise ValueError("nothing is said before there is a session")
        for image in images:
            # What was said in its sessions has touched it.
            self._connection.execute(_DATE_IMAGE, (image.updated_at, self._tenant_id, image.image_id))

    def _add_image(self, image: Image) -> None:
        self._connection.execute(_ADD_CONTAINER, (self._tenant_id, image.container_id, self._now))
        position = insert_image(self._connection, self._tenant_id, image)
        held = [one for one in image.lock if is_readable(self._connection, self._tenant_id, one.version_id)]
        lock_image(self._connection, self._tenant_id, position, held)

    def _add_said(self, session: Session, said: Said) -> None:
        write = SessionWrite(
            tenant_id=self._tenant_id,
            container_id=session.container_id,
            session_id=session.session_id,
            now=session.updated_at,
            messages=said.messages,
            turns=said.turns,
        )
        prepare(write)(self._connection)
