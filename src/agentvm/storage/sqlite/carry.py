"""SqliteCarrier — moves sessions out of and into SQLite."""

from collections.abc import Callable, Collection, Iterator

import apsw

from agentvm.model.ids import ContainerId, SessionId, TenantId, TurnId
from agentvm.model.message import decode_message
from agentvm.storage.carry import Carried, History, Page
from agentvm.storage.sqlite.arriving import arrive
from agentvm.storage.sqlite.database import Database
from agentvm.storage.sqlite.rows import TURNS, decode_turn, fetch

PAGE_BYTES = 4 * 1024 * 1024
PAGE = 256
IDS = 500
"""Looked for at a time."""

_MEASURE = """
WITH said AS (
    SELECT position, body FROM sessions JOIN messages USING (session_key)
    WHERE tenant_id = ?1 AND container_id = ?2 AND (?3 IS NULL OR session_id = ?3) AND deleted_at IS NULL
)
SELECT (SELECT coalesce(sum(length(body)), 0) FROM said)
     + (SELECT coalesce(sum(size), 0) FROM blobs WHERE blob_key IN (
            SELECT blob_key FROM said JOIN message_attachments USING (position) JOIN attachments USING (attachment_key)))
"""
_LAST = """
SELECT coalesce(max(position), 0) FROM sessions JOIN messages USING (session_key)
WHERE tenant_id = ? AND container_id = ? AND session_id = ?
"""
_REWOUND = """
SELECT coalesce(max(rewind_key), 0) FROM sessions JOIN rewinds USING (session_key)
WHERE tenant_id = ? AND container_id = ? AND session_id = ?
"""
# The sum leaves out what is beyond a page, but never the first.
_PAGE = """
SELECT position, body FROM (
    SELECT position, body, sum(length(body)) OVER (ORDER BY position) - length(body) AS before
    FROM (SELECT position, body FROM sessions JOIN all_messages USING (session_key)
          WHERE tenant_id = ? AND container_id = ? AND session_id = ? AND position > ? AND position <= ?
            AND (rewind_key IS NULL OR rewind_key > ?)
          ORDER BY position LIMIT ?)
) WHERE before < ? ORDER BY position
"""


class SqliteCarrier:
    """See `agentvm.storage.carry.Carrier`."""

    def __init__(self, database: Database, tenant_id: TenantId) -> None:
        self._database = database.of(tenant_id)
        self._tenant_id = tenant_id

    async def measure(self, container_id: ContainerId, session_id: SessionId | None = None) -> int:
        scope = (self._tenant_id, container_id, session_id)
        return await self._database.read(lambda connection: int(fetch(connection, _MEASURE, scope)[0][0]), heavy=True)

    async def history(self, container_id: ContainerId, session_id: SessionId) -> History:
        scope = (self._tenant_id, container_id, session_id)

        def read(connection: apsw.Connection) -> History:
            # One state for both: a message whose turn is not known yet must not come along.
            with connection:
                turns = [decode_turn(row) for row in fetch(connection, TURNS, scope)]
                last = int(fetch(connection, _LAST, scope)[0][0])
                rewound = int(fetch(connection, _REWOUND, scope)[0][0])
            running = frozenset(TurnId(turn.turn_id) for turn in turns if turn.outcome is None)
            return History(tuple(turn for turn in turns if turn.outcome is not None), running, last, rewound)

        return await self._database.read(read, heavy=True)

    async def read(self, container_id: ContainerId, session_id: SessionId, history: History, after: int) -> Page:
        scope = (self._tenant_id, container_id, session_id, after, history.last, history.rewound, PAGE, PAGE_BYTES)

        def read(connection: apsw.Connection) -> Page:
            found = fetch(connection, _PAGE, scope)
            messages = (decode_message(body) for _, body in found)
            kept = tuple(message for message in messages if message.turn_id not in history.running)
            return Page(kept, int(found[-1][0]) if found and found[-1][0] < history.last else None)

        return await self._database.read(read, heavy=True)

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
        await arrive(self._database, self._tenant_id, load, now)
