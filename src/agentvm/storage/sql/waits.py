"""Waits — tool calls that wait for an answer, as rows of their sessions."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import msgspec

from agentvm.model.ids import ContainerId, ImageId, SessionId, TenantId, TurnId
from agentvm.model.wait import AnsweredWait, StartedWait, ToolWait, WaitAnswer, WaitChange, WaitId
from agentvm.storage.sql.connection import Connection, Database, Row
from agentvm.storage.sql.rows import is_present
from agentvm.storage.sql.sessions.listing import scope

WaitState = Literal["open", "answered"]

_ADD = """
INSERT INTO waits (session_key, wait_id, turn_id, call_id, round, tool, version, body, expires_at, kind)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (session_key, turn_id, call_id, round) DO NOTHING
"""
_ANSWER = """
UPDATE waits SET answered_at = ?, answered_by = ?, answer = ?, remember = ?, client_key = ?
WHERE session_key = ? AND wait_id = ? AND answered_at IS NULL
"""
# In the commit of the answer: should the server die before the turn continues, the next start takes it up.
_UNPARK = "UPDATE turns SET parked_at = NULL WHERE session_key = ? AND turn_id = ?"
_START = "UPDATE waits SET started_at = ? WHERE session_key = ? AND wait_id = ?"
_IN_ROW: Mapping[str, str] = {
    "waitId": "w.wait_id",
    "containerId": "s.container_id",
    "sessionId": "s.session_id",
    "turnId": "w.turn_id",
    "callId": "w.call_id",
    "round": "w.round",
    "tool": "w.tool",
    "version": "w.version",
    "kind": "w.kind",
    "expiresAt": "w.expires_at",
}
"""Members of a wait that have a column, by which waits are found. The body has the others; that of an older row has all."""
_COLUMNS = f"w.body, w.answered_at, w.answered_by, w.answer, w.started_at, {', '.join(_IN_ROW.values())}"
_WAITS = f"SELECT w.wait_key, {_COLUMNS} FROM sessions AS s JOIN waits AS w USING (session_key) WHERE {{where}}"
_REMEMBERED = """
s.image_id = :image AND w.tool = :tool AND w.version = :version
AND (w.remember = 'image' OR (w.remember = 'session' AND s.session_id = :session))
"""
# Over all tenants, for the server's own clock: each row is handed on with its tenant.
_DUE = f"""
SELECT s.tenant_id, {_COLUMNS}
FROM waits AS w JOIN sessions AS s USING (session_key)
WHERE w.answered_at IS NULL AND w.expires_at <= ? AND s.deleted_at IS NULL AND {is_present("s")}
ORDER BY w.expires_at LIMIT ?
"""
_NEXT_DUE = f"""
SELECT w.expires_at
FROM waits AS w JOIN sessions AS s USING (session_key)
WHERE w.answered_at IS NULL AND s.deleted_at IS NULL AND {is_present("s")}
ORDER BY w.expires_at LIMIT 1
"""
_OF_PEOPLE = "(w.kind IS NULL OR w.kind <> 'child')"
_ENDED_CHILDREN = f"""
SELECT s.tenant_id, {_COLUMNS}
FROM waits AS w JOIN sessions AS s USING (session_key)
WHERE w.kind = 'child' AND w.answered_at IS NULL AND s.deleted_at IS NULL AND {is_present("s")} AND EXISTS (
    SELECT 1 FROM sessions AS c JOIN turns AS t USING (session_key)
    WHERE c.tenant_id = s.tenant_id AND c.parent_turn = w.turn_id AND c.parent_call = w.call_id AND t.outcome IS NOT NULL
)
ORDER BY w.wait_key LIMIT ?
"""

_SAME = "="
"""Stored as `asked` of a call that is the one that was first asked for: a digest less in nearly every row."""

_answer = msgspec.json.Decoder(WaitAnswer)


class WaitStore:
    """The waits of some containers of one tenant; None for all of them."""

    def __init__(self, database: Database, tenant_id: TenantId, containers: Sequence[ContainerId] | None) -> None:
        self._database = database
        self._tenant_id = tenant_id
        self._containers = containers

    async def get(self, wait_id: WaitId) -> ToolWait | None:
        rows = await self._read("w.wait_id = :wait", wait=wait_id)
        return _decode(rows[0][1:]) if rows else None

    async def list_turn(self, session_id: SessionId, turn_id: TurnId) -> tuple[ToolWait, ...]:
        """The waits of a turn, open and answered, in the order they began: of a call, its last round comes last."""
        where = "s.session_id = :session AND w.turn_id = :turn ORDER BY w.wait_key"
        return tuple(_decode(row[1:]) for row in await self._read(where, session=session_id, turn=turn_id))

    async def list_page(
        self, *, session_id: SessionId | None, state: WaitState | None, after: int, limit: int
    ) -> tuple[tuple[int, ToolWait], ...]:
        """Waits in the order they began, each with its place in the list; those behind `after`.

        Those of a session include the waits of the sub-agents below it. None is a wait for a sub-agent itself.
        """
        where, values = f"w.wait_key > :after AND {_OF_PEOPLE}", dict[str, object](after=after, limit=limit)
        if session_id is not None:
            where += " AND (s.session_id = :session OR s.root_session = :session)"
            values = {**values, "session": session_id}
        if state is not None:
            where += " AND w.answered_at IS NULL" if state == "open" else " AND w.answered_at IS NOT NULL"
        rows = await self._read(f"{where} ORDER BY w.wait_key LIMIT :limit", **values)
        return tuple((row[0], _decode(row[1:])) for row in rows)

    async def list_consents(self, limit: int, after: int = 0) -> tuple[tuple[int, ToolWait], ...]:
        """Returns open waits for a consent in the order they began, each with its place; those behind `after`."""
        kind = "(w.kind = 'consent' OR w.kind IS NULL)"
        where = f"w.answered_at IS NULL AND w.wait_key > :after AND {kind} ORDER BY w.wait_key LIMIT :limit"
        rows = await self._read(where, limit=limit, after=after)
        return tuple((row[0], _decode(row[1:])) for row in rows)

    async def find_text_answer(self, session_id: SessionId, client_key: str) -> ToolWait | None:
        """Returns a wait of the session that a message with this key has answered."""
        where = "s.session_id = :session AND w.client_key = :key LIMIT 1"
        rows = await self._read(where, session=session_id, key=client_key)
        return _decode(rows[0][1:]) if rows else None

    async def is_remembered(self, image_id: ImageId, session_id: SessionId, tool: str, version: str) -> bool:
        """Returns whether an approval of this version of the tool was remembered for the session or the image."""
        where = f"{_REMEMBERED} LIMIT 1"
        return bool(await self._read(where, image=image_id, session=session_id, tool=tool, version=version))

    async def _read(self, where: str, **values: object) -> list[Row]:
        own = scope(self._tenant_id, self._containers, values)
        return await self._database.read(lambda connection: connection.fetch(_WAITS.format(where=f"{own} AND {where}"), values))


class DueWaits:
    """The open waits of all tenants by the time when they expire, for the server's own clock."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def list_due(self, now: int, limit: int) -> tuple[tuple[TenantId, ToolWait], ...]:
        """Waits that have expired, the oldest first, and those for sub-agents that have ended."""
        rows = await self._database.read(
            lambda connection: [*connection.fetch(_DUE, (now, limit)), *connection.fetch(_ENDED_CHILDREN, (limit,))]
        )
        return tuple((TenantId(tenant_id), _decode(row)) for tenant_id, *row in rows)

    async def next_due(self) -> int | None:
        """The time when the next one expires."""
        rows = await self._database.read(lambda connection: connection.fetch(_NEXT_DUE))
        return rows[0][0] if rows else None


def write_waits(changes: Sequence[WaitChange]) -> Callable[[Connection, Any], None]:
    """Returns the part of a commit that is about waits, encoded."""
    encoded = [(change, msgspec.json.encode(_blob_of(change))) for change in changes]

    def work(connection: Connection, session_key: Any) -> None:
        for change, blob in encoded:
            match change:
                case ToolWait(wait_id=wait_id, turn_id=turn_id, call_id=call_id):
                    named = (session_key, wait_id, turn_id, call_id, change.round, change.tool, change.version)
                    connection.execute(_ADD, (*named, blob, change.expires_at, change.kind))
                case AnsweredWait(wait_id=wait_id, turn_id=turn_id, answer=answer, by=by, at=at):
                    values = (at, by, blob, answer.remember, answer.client_key)
                    if connection.execute(_ANSWER, (*values, session_key, wait_id)):
                        connection.execute(_UNPARK, (session_key, turn_id))
                case StartedWait(wait_id=wait_id, at=at):
                    connection.execute(_START, (at, session_key, wait_id))

    return work


def _blob_of(change: WaitChange) -> object:
    if isinstance(change, ToolWait):
        marked = msgspec.structs.replace(change, asked=_SAME) if change.asked == change.fingerprint else change
        return {name: value for name, value in msgspec.to_builtins(marked).items() if name not in _IN_ROW}
    return change.answer if isinstance(change, AnsweredWait) else change


def _decode(row: Sequence[Any]) -> ToolWait:
    body, answered_at, answered_by, answer, started_at, *columns = row
    wait = msgspec.convert({**dict(zip(_IN_ROW, columns, strict=True)), **msgspec.json.decode(body)}, ToolWait)
    return msgspec.structs.replace(
        wait,
        asked=wait.fingerprint if wait.asked == _SAME else wait.asked,
        answered_at=answered_at,
        answered_by=answered_by,
        answer=None if answer is None else _answer.decode(answer),
        started_at=started_at,
    )
