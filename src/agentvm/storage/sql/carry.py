"""Carrier — moves sessions out of a store and into one."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice

import msgspec

from agentvm.model.ids import ContainerId, SessionId, TurnId
from agentvm.model.message import decode_message
from agentvm.storage.carry import Carried, ExistingSession, ExportedHistory, MessagePart
from agentvm.storage.sql.connection import Connection, snapshot
from agentvm.storage.sql.dialect import items_of, total
from agentvm.storage.sql.importing import import_archive
from agentvm.storage.sql.records import TenantScope
from agentvm.storage.sql.rows import TURNS, decode_turn

PAGE_BYTES = 4 * 1024 * 1024
PAGE_MESSAGES = 256
IMAGES_MAX = 500
"""Images looked for at a time."""
SESSIONS_MAX = 50
"""Sessions looked for at a time: their messages are counted, and other tenants need the reader as well."""

_MEASURE = f"""
WITH said AS (
    SELECT position, body FROM sessions JOIN messages USING (session_key)
    WHERE tenant_id = ?1 AND container_id = ?2 AND (CAST(?3 AS TEXT) IS NULL OR session_id = ?3) AND deleted_at IS NULL
)
SELECT (SELECT {total("length(body)")} FROM said)
     + (SELECT {total("size")} FROM blobs WHERE blob_key IN (
            SELECT blob_key FROM said JOIN message_attachments USING (position) JOIN attachments USING (attachment_key)
            UNION
            SELECT blob_key FROM sessions JOIN standing_changes USING (session_key)
            WHERE tenant_id = ?1 AND container_id = ?2 AND (CAST(?3 AS TEXT) IS NULL OR session_id = ?3)
              AND deleted_at IS NULL))
"""
_LAST = """
SELECT coalesce(max(position), 0) FROM sessions JOIN messages USING (session_key)
WHERE tenant_id = ? AND container_id = ? AND session_id = ?
"""
_REWOUND = """
SELECT coalesce(max(rewind_key), 0) FROM sessions JOIN rewinds USING (session_key)
WHERE tenant_id = ? AND container_id = ? AND session_id = ?
"""
_EXISTING_IMAGES = "SELECT image_id, container_id FROM images WHERE tenant_id = ? AND image_id IN ({marks})"
_EXISTING_ITEMS = tuple(
    f"SELECT container_id, {key} FROM {table} WHERE tenant_id = ? AND {key} IN ({items_of('?')})"
    for table, key in (("memories", "memory_id"), ("schedules", "schedule_id"), ("triggers", "trigger_id"))
)
_EXISTING_SESSION = """
SELECT s.container_id, s.image_id,
       (SELECT count(*) FROM messages AS m WHERE m.session_key = s.session_key),
       (SELECT count(*) FROM turns AS t WHERE t.session_key = s.session_key),
       (SELECT message_id FROM messages AS m WHERE m.session_key = s.session_key ORDER BY position DESC LIMIT 1),
       s.deleted_at IS NOT NULL,
       EXISTS (SELECT 1 FROM placed_messages AS m WHERE m.session_key = s.session_key AND rewind_key IS NOT NULL),
       (SELECT count(*) FROM placed_messages AS m JOIN placed_messages AS known ON m.position <= known.position
        -- Those that stood together with the known one.
        WHERE (m.rewind_key IS NULL OR m.rewind_key >= known.rewind_key)
          AND m.session_key = s.session_key AND known.session_key = s.session_key AND known.message_id = ?3)
FROM sessions AS s WHERE s.tenant_id = ?1 AND s.session_id = ?2
"""
# The sum leaves out what is beyond a page, but never the first.
_PAGE = """
SELECT position, body FROM (
    SELECT position, body, sum(length(body)) OVER (ORDER BY position) - length(body) AS before
    FROM (SELECT position, body FROM sessions JOIN placed_messages USING (session_key)
          WHERE tenant_id = ? AND container_id = ? AND session_id = ? AND position > ? AND position <= ?
            AND (rewind_key IS NULL OR rewind_key > ?)
          ORDER BY position LIMIT ?) AS next_messages
) AS measured WHERE before < ? ORDER BY position
"""


class Carrier(TenantScope):
    """The sessions of one tenant, for those who move them."""

    async def measure(self, container_id: ContainerId, session_id: SessionId | None = None) -> int:
        """Bytes of the messages in a container, or in one session of it."""
        scope = (self._tenant_id, container_id, session_id)
        return await self._database.read(lambda connection: int(connection.fetch(_MEASURE, scope)[0][0]), heavy=True)

    async def history(self, container_id: ContainerId, session_id: SessionId) -> ExportedHistory:
        scope = (self._tenant_id, container_id, session_id)

        def read(connection: Connection) -> ExportedHistory:
            # One state for both: a message whose turn is not known yet must not come along.
            with snapshot(connection):
                turns = [decode_turn(row) for row in connection.fetch(TURNS, scope)]
                last = int(connection.fetch(_LAST, scope)[0][0])
                rewound = int(connection.fetch(_REWOUND, scope)[0][0])
            running = frozenset(TurnId(turn.turn_id) for turn in turns if turn.outcome is None)
            return ExportedHistory(tuple(turn for turn in turns if turn.outcome is not None), running, last, rewound)

        return await self._database.read(read, heavy=True)

    async def read(self, container_id: ContainerId, session_id: SessionId, history: ExportedHistory, after: int) -> MessagePart:
        """The next messages of that moment: a few megabytes at most, but at least one."""
        scope = (self._tenant_id, container_id, session_id, after, history.last, history.rewound, PAGE_MESSAGES, PAGE_BYTES)

        def read(connection: Connection) -> MessagePart:
            rows = connection.fetch(_PAGE, scope)
            messages = (decode_message(body) for _, body in rows)
            finished = tuple(message for message in messages if message.turn_id not in history.running)
            return MessagePart(finished, int(rows[-1][0]) if rows and rows[-1][0] < history.last else None)

        return await self._database.read(read, heavy=True)

    async def existing_images(self, image_ids: Collection[str]) -> Mapping[str, ContainerId]:
        """The images that the tenant has already, with the container of each."""
        names = sorted(image_ids)

        def read(connection: Connection) -> dict[str, ContainerId]:
            present: dict[str, ContainerId] = {}
            for at in range(0, len(names), IMAGES_MAX):
                batch = names[at : at + IMAGES_MAX]
                query = _EXISTING_IMAGES.format(marks=", ".join("?" * len(batch)))
                rows = connection.fetch(query, (self._tenant_id, *batch))
                present.update((str(image_id), ContainerId(where)) for image_id, where in rows)
            return present

        return await self._database.read(read)

    async def existing_sessions(self, names: Mapping[str, str | None]) -> Mapping[str, ExistingSession]:
        """The sessions that the tenant has already, deleted ones as well. `wanted` names a message to look for in each."""
        present: dict[str, ExistingSession] = {}
        for at in range(0, len(names), SESSIONS_MAX):
            batch = list(islice(names.items(), at, at + SESSIONS_MAX))
            present |= await self._database.read(partial(self._find, names=batch))
        return present

    def _find(self, connection: Connection, names: Sequence[tuple[str, str | None]]) -> dict[str, ExistingSession]:
        present = {}
        for session_id, message_id in names:
            for row in connection.fetch(_EXISTING_SESSION, (self._tenant_id, session_id, message_id)):
                where, image_id, messages, turns, last, deleted, rewound, reached = row
                present[session_id] = ExistingSession(
                    where, image_id, messages, turns, last, bool(deleted), bool(rewound), reached
                )
        return present

    async def existing_items(self, names: Collection[tuple[str, str]]) -> frozenset[tuple[str, str]]:
        """The memories, schedules and triggers that the tenant has already, of these containers and ids."""
        ordered = sorted(names)

        def read(connection: Connection) -> frozenset[tuple[str, str]]:
            present = set[tuple[str, str]]()
            for at in range(0, len(ordered), IMAGES_MAX):
                ids = msgspec.json.encode([name for _, name in ordered[at : at + IMAGES_MAX]]).decode()
                for query in _EXISTING_ITEMS:
                    present.update((row[0], row[1]) for row in connection.fetch(query, (self._tenant_id, ids)))
            return frozenset(present.intersection(names))

        return await self._database.read(read)

    async def add(self, load: Callable[[], Iterator[Carried]], now: int) -> None:
        """Adds all that is loaded, or nothing, with containers as needed. It becomes visible all at once.

        Images hold those versions of their lock that the tenant may read here. `Conflict` if in the meantime an id was used, an
        expected item was deleted or changed, or a container or its user was deleted.
        """
        await import_archive(self._database, self._tenant_id, load, now)
