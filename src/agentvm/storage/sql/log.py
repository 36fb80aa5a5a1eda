"""LogStore — the log of one session."""

from collections.abc import Sequence
from typing import Any

from agentvm.errors import SessionNotFound
from agentvm.model.exchange import Extent
from agentvm.model.ids import SessionId, TurnId
from agentvm.model.message import Message, ToolResultMessage, decode_message
from agentvm.model.program import ProgramCall
from agentvm.model.session import RefusedPart, Session, Summary
from agentvm.model.turn import Turn
from agentvm.storage.base import WHOLE, LogChunk, ReadingLimits, Recalled, SessionWrite
from agentvm.storage.sql.connection import Connection, Database
from agentvm.storage.sql.dialect import ORDERED_JOIN
from agentvm.storage.sql.programs import PROGRAM, decode_call
from agentvm.storage.sql.records import Scope
from agentvm.storage.sql.rows import PARKED_TURN, TURN_BY_KEY, TURNS, Key, decode_turn, read_session
from agentvm.storage.sql.session_write import prepare
from agentvm.storage.sql.sessions.summaries import read_turn, recall, refuse, store_summary

LOG_RANGE = """
SELECT min(first_seq), max(last_seq)
FROM sessions LEFT JOIN log USING (session_key)
WHERE tenant_id = ? AND container_id = ? AND session_id = ?
GROUP BY session_key
"""
OPENING = """
SELECT (SELECT max(last_seq) FROM log WHERE log.session_key = s.session_key),
       (SELECT turn_id FROM turns WHERE turns.session_key = s.session_key AND parked_at IS NOT NULL LIMIT 1)
FROM sessions AS s
WHERE tenant_id = ? AND container_id = ? AND session_id = ?
"""
STANDING = OPENING.replace("\nFROM sessions AS s", ", coalesce(s.tail_of, s.runner)\nFROM sessions AS s")
LOG = """
SELECT first_seq, last_seq, made_at, body
FROM sessions JOIN log USING (session_key)
WHERE tenant_id = ? AND container_id = ? AND session_id = ? AND last_seq > ?
ORDER BY last_seq LIMIT ?
"""
LAST_BEFORE = """
SELECT coalesce(max(last_seq), 0)
FROM sessions JOIN log USING (session_key)
WHERE tenant_id = ? AND container_id = ? AND session_id = ? AND made_at < ?
"""
# Also what was taken back: it was told, and is told again to who was away.
MESSAGE = """
SELECT body
FROM sessions JOIN all_messages USING (session_key)
WHERE tenant_id = ? AND container_id = ? AND session_id = ? AND message_id = ?
"""
FIRST_AGENT = "SELECT agent FROM sessions WHERE tenant_id = ? AND container_id = ? AND session_id = ?"
# The newest handoffs that stand.
HANDOFFS = f"""
SELECT m.body
FROM sessions AS s {ORDERED_JOIN} messages AS m ON m.session_key = s.session_key
{ORDERED_JOIN} message_facts AS f ON f.position = m.position
WHERE s.tenant_id = ? AND s.container_id = ? AND s.session_id = ?
  AND f.kind = 'tool-result' AND f.tool LIKE 'transfer_to_%'
ORDER BY m.position DESC LIMIT 20
"""
MESSAGE_SIZE = MESSAGE.replace("SELECT body", "SELECT length(body)")
_SET_QUARANTINE = """
UPDATE sessions SET quarantine = ?, updated_at = ? WHERE tenant_id = ? AND container_id = ? AND session_id = ?
"""


class LogStore(Scope):
    """The log of one session; `Store.commit` appends to many logs at once."""

    def __init__(self, database: Database, key: Key, session_id: SessionId) -> None:
        super().__init__(database)
        self._session_id = session_id
        self._scope = (*key, session_id)

    async def opening(self) -> tuple[int, TurnId | None]:
        """The last seq in the log, 0 when it is empty, and the parked turn. `SessionNotFound` if the session is gone."""

        def read(connection: Connection) -> tuple[int, TurnId | None]:
            for last, parked in connection.fetch(OPENING, self._scope):
                return last or 0, parked
            raise SessionNotFound(self._session_id)

        return await self._database.read(read)

    async def standing(self) -> tuple[int, TurnId | None, int | None]:
        """The last seq in the log, the parked turn, and the node whose journal has the following events, None for none.

        `SessionNotFound` if the session is gone.
        """

        def read(connection: Connection) -> tuple[int, TurnId | None, int | None]:
            for last, parked, runner in connection.fetch(STANDING, self._scope):
                return last or 0, parked, runner
            raise SessionNotFound(self._session_id)

        return await self._database.read(read)

    async def find_parked(self) -> Turn | None:
        """The turn that waits for an answer."""

        def read(connection: Connection) -> Turn | None:
            return next((decode_turn(row) for row in connection.fetch(PARKED_TURN, self._scope)), None)

        return await self._database.read(read)

    async def list_program(self, turn_id: TurnId, program: str) -> tuple[ProgramCall, ...]:
        """The calls of an unfinished program that have their results, in order; `program` is the id of its own call."""
        return await self._all(decode_call, PROGRAM, (*self._scope, turn_id, program))

    async def range(self) -> tuple[int, int]:
        """The first and the last seq in the log; (1, 0) when it is empty. `SessionNotFound` if the session is gone."""

        row = await self._first(tuple[Any, ...], LOG_RANGE, self._scope)
        if row is None:
            raise SessionNotFound(self._session_id)
        first, last = row
        return (1, 0) if last is None else (first, last)

    async def read(self, after: int, limit: int) -> tuple[LogChunk, ...]:
        """The next chunks with an event after that seq, in order."""

        def decode(row: Sequence[Any]) -> LogChunk:
            first_seq, last_seq, made_at, body = row
            return LogChunk(first_seq=first_seq, last_seq=last_seq, made_at=made_at, body=body)

        return await self._all(decode, LOG, (*self._scope, after, limit))

    async def get_messages(self, message_ids: Sequence[str]) -> tuple[Message, ...]:
        """The messages that exist, rewound ones as well."""

        def read(connection: Connection) -> tuple[Message, ...]:
            return tuple(
                decode_message(body)
                for message_id in message_ids
                for (body,) in connection.fetch(MESSAGE, (*self._scope, message_id))
            )

        return await self._database.read(read)

    async def find_agent(self) -> str | None:
        """The agent of the image that answers here, by its URI: the one of the last handoff that stands."""

        def read(connection: Connection) -> str | None:
            for (body,) in connection.fetch(HANDOFFS, self._scope):
                message = decode_message(body)
                if isinstance(message, ToolResultMessage) and message.tool_result.agent is not None:
                    return message.tool_result.agent
            rows = connection.fetch(FIRST_AGENT, self._scope)
            return rows[0][0] if rows else None

        return await self._database.read(read)

    async def message_sizes(self, message_ids: Sequence[str]) -> dict[str, int]:
        """Stored bytes of each message that exists."""

        def read(connection: Connection) -> dict[str, int]:
            return {
                message_id: size
                for message_id in message_ids
                for (size,) in connection.fetch(MESSAGE_SIZE, (*self._scope, message_id))
            }

        return await self._database.read(read)

    async def record(self, *, messages: Sequence[Message] = (), turns: Sequence[Turn] = (), now: int) -> None:
        """Appends messages (a message id that is already there is left alone) and inserts or finishes turns, in one commit.

        Bumps `updated_at` of the session and of its image. A session that is gone takes nothing: `SessionNotFound`.
        """
        tenant_id, container_id, session_id = self._scope
        write = SessionWrite(
            tenant_id=tenant_id, container_id=container_id, session_id=session_id, now=now, messages=messages, turns=turns
        )
        await self._database.write(prepare(write))

    async def find_turn(self, client_key: str) -> Turn | None:
        """The turn that was accepted under the sender's key."""

        return await self._first(decode_turn, TURN_BY_KEY, (*self._scope, client_key))

    async def list_turns(self) -> tuple[Turn, ...]:
        """Turns in the order they were accepted."""
        return await self._all(decode_turn, TURNS, self._scope)

    async def last_before(self, at: int) -> int:
        """The last seq of the chunks that were made before that moment; 0 for none. Later events follow it."""

        return await self._database.read(lambda connection: int(connection.fetch(LAST_BEFORE, (*self._scope, at))[0][0]))

    async def set_quarantine(self, reason: str | None, now: int) -> Session | None:
        """Sets the session aside, or releases it for None; as it is now, or None when it is gone."""
        tenant_id, container_id, session_id = self._scope

        def write(connection: Connection) -> Session | None:
            connection.execute(_SET_QUARANTINE, (reason, now, *self._scope))
            return read_session(connection, (tenant_id, container_id), session_id)

        return await self._database.write(write)

    async def recall(self, reading: ReadingLimits = WHOLE) -> Recalled:
        """The context of a model call, as much as `reading` allows; empty for a session that is gone."""
        return await self._database.read(lambda connection: recall(connection, self._scope, reading))

    async def list_turn_messages(self, turn: Turn, max_bytes: int) -> tuple[tuple[Message, ...], bool]:
        """The messages of that turn alone, in the order they were appended, and whether some were left out.

        As many as have `max_bytes` together, the oldest first; one that does not fit is never read into memory.
        """
        return await self._database.read(lambda connection: read_turn(connection, self._scope, turn, max_bytes))

    async def add_refused(self, parts: Sequence[RefusedPart], provider: str, now: int) -> None:
        """Stores parts of the session that a provider refuses. Storing one twice changes nothing."""
        await self._database.write(lambda connection: refuse(connection, self._scope, parts, provider, now))

    async def add_summary(self, summary: Summary, covered: Extent, recalled: Recalled) -> bool:
        """Stores a summary of that part of the recalled history. A rewind of a message it covers deletes it.

        False, and nothing is stored, if a covered message was removed in the meantime, another summary was stored first, or the
        session was deleted.
        """
        return await self._database.write(store_summary(self._scope, summary, covered, recalled))
