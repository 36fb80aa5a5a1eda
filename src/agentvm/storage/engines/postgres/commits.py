"""Commits — the writes of many sessions in one commit, as one statement and one round trip.

Theory of operation. A turn takes about ten statements, and a commit has the turns of many sessions: with a database elsewhere
each of them costs a round trip and a plan. So the rows of all sessions go there as a few JSON arrays, their bodies as arrays of
bytes, and one statement spreads them over the tables. Its parts are those that the commit needs, and there are few such sets,
so the server keeps their plans.

A statement cannot touch a row twice, and cannot say which session it could not serve. A session with two writes, or with an
unusual one, is therefore passed to the statements of all engines; and if a write contradicts the stored state, the whole commit
is rolled back and passed to them, which find the cause.
"""

from collections import Counter
from collections.abc import Sequence
from functools import cache
from struct import pack
from typing import Any, ClassVar

import msgspec
import psycopg
from psycopg import errors
from psycopg.adapt import Dumper
from psycopg.pq import Format

from agentvm.storage.base import SessionWrite
from agentvm.storage.sql.accounts.ledger import ENTRY
from agentvm.storage.sql.accounts.sent_calls import CALL
from agentvm.storage.sql.connection import NUL, NUL_SHOWN
from agentvm.storage.sql.session_write import TURN, AddedTogether, PreparedWrite, summary_of

_BYTEA_OID, _BYTEA_ARRAY_OID = 17, 1001

_CONTRADICTIONS = (
    errors.IntegrityError, errors.DataError, errors.CardinalityViolation, ValueError, TypeError, OverflowError,
)  # fmt: skip
"""Errors that one session's write causes by itself."""

_encode = msgspec.json.Encoder().encode

_NAMES = "n int8, tenant_id text, container_id text, session_id text"
_SESSION_IS = "s.tenant_id = i.tenant_id AND s.container_id = i.container_id AND s.session_id = i.session_id"
_TOUCHED = f"""
touched AS (
    UPDATE sessions AS s
    SET updated_at = i.now, preview = coalesce(i.preview, s.preview), answers = s.answers + i.answers,
        last_message_at = CASE WHEN i.at IS NULL THEN s.last_message_at ELSE greatest(coalesce(s.last_message_at, 0), i.at) END
    FROM json_to_recordset($sessions::json)
        AS i({_NAMES}, now int8, at int8, preview text, answers int8, touches_image int8)
    WHERE {_SESSION_IS}
    RETURNING i.n, s.session_key, s.tenant_id, s.container_id, s.image_id, i.now, i.touches_image, s.deleted_at
),
touched_images AS (
    UPDATE images AS s SET updated_at = i.now
    FROM (
        SELECT tenant_id, container_id, image_id, max(now) AS now FROM touched WHERE touches_image = 1
        GROUP BY tenant_id, container_id, image_id
    ) AS i
    WHERE s.tenant_id = i.tenant_id AND s.container_id = i.container_id AND s.image_id = i.image_id
)"""
_MESSAGES = """
said AS MATERIALIZED (
    SELECT t.session_key, t.tenant_id, i.* FROM ROWS FROM (
        json_to_recordset($messages::json) AS (n int8, message_id text, at int8, kind text, tool text, has_text int8),
        unnest($bodies)
    ) WITH ORDINALITY AS i(n, message_id, at, kind, tool, has_text, body, place)
    JOIN touched AS t USING (n)
),
added AS (
    INSERT INTO all_messages (session_key, message_id, body)
    SELECT session_key, message_id, body FROM said ORDER BY place
    ON CONFLICT (session_key, message_id) DO NOTHING
    RETURNING position, session_key, message_id
),
facts AS (
    INSERT INTO message_facts (position, session_key, at, kind, tool)
    SELECT a.position, session_key, at, kind, tool FROM added AS a JOIN said USING (session_key, message_id)
),
pending AS (
    INSERT INTO search_pending (position, session_key, tenant_id)
    SELECT a.position, session_key, tenant_id FROM added AS a JOIN said USING (session_key, message_id) WHERE has_text = 1
)"""
# The number of the write travels in a column that the table fills itself.
_TURNS = f"""
put_turns AS (
    INSERT INTO turns (session_key, {TURN.text})
    SELECT t.session_key, {TURN.select("i.")}
    FROM json_populate_recordset(NULL::turns, $turns::json) WITH ORDINALITY AS i JOIN touched AS t ON t.n = i.position
    ORDER BY i.ordinality
    ON CONFLICT (session_key, turn_id) DO UPDATE
    SET outcome = excluded.outcome, usage = excluded.usage, ended_at = excluded.ended_at,
        attempts = greatest(turns.attempts, excluded.attempts),
        alongside = coalesce(excluded.alongside, turns.alongside), parked_at = excluded.parked_at,
        active_ms = greatest(turns.active_ms, excluded.active_ms)
    WHERE turns.outcome IS NULL
    RETURNING 1
)"""
_CHUNKS = """
chunks AS (
    INSERT INTO log (session_key, first_seq, last_seq, made_at, body)
    SELECT t.session_key, i.first_seq, i.last_seq, i.made_at, i.body
    FROM ROWS FROM (
        json_to_recordset($chunks::json) AS (n int8, first_seq int8, last_seq int8, made_at int8), unnest($parts)
    ) AS i(n, first_seq, last_seq, made_at, body) JOIN touched AS t USING (n)
)"""
_LEDGER = f"""
entered AS (
    INSERT INTO ledger (tenant_id, node_id, {ENTRY.text})
    SELECT tenant_id, $node::bigint, {ENTRY.text} FROM json_populate_recordset(NULL::ledger, $ledger::json)
    ON CONFLICT (tenant_id, key) DO NOTHING
)"""
_ANSWERED = """
answered AS (
    DELETE FROM asked AS s USING json_to_recordset($answered::json) AS i(tenant_id text, key text)
    WHERE s.tenant_id = i.tenant_id AND s.key = i.key
)"""
_ASKED = f"""
asked_now AS (
    INSERT INTO asked (tenant_id, node_id, {CALL.text})
    SELECT tenant_id, $node::bigint, {CALL.text} FROM json_populate_recordset(NULL::asked, $asked::json)
    ON CONFLICT (tenant_id, key) DO UPDATE
    SET node_id = excluded.node_id, {", ".join(f"{name} = excluded.{name}" for name in CALL.names[1:])}
)"""
_GONE = f"""
gone AS (
    SELECT i.n FROM json_to_recordset($carried::json) AS i({_NAMES})
    WHERE NOT EXISTS (SELECT 1 FROM sessions AS s WHERE {_SESSION_IS})
)"""
_ENTRY = "entered_journal AS (INSERT INTO journal (body, node_id) VALUES ($entry, $node) RETURNING entry)"

_PARTS: dict[str, tuple[str, tuple[str, ...]]] = {
    "sessions": (_TOUCHED, ("sessions",)),
    "messages": (_MESSAGES, ("messages", "bodies")),
    "turns": (_TURNS, ("turns",)),
    "chunks": (_CHUNKS, ("chunks", "parts")),
    "ledger": (_LEDGER, ("ledger", "node")),
    "answered": (_ANSWERED, ("answered",)),
    "asked": (_ASKED, ("asked", "node")),
    "carried": (_GONE, ("carried",)),
    "entry": (_ENTRY, ("entry", "node")),
}
"""The parts of the statement, each with the names of its arguments, in their order."""

_RESULTS = {
    "entry": "(SELECT entry FROM entered_journal)",
    "sessions": "(SELECT count(*) FILTER (WHERE deleted_at IS NULL) FROM touched)",
    "messages": "(SELECT count(*) FROM added)",
    "turns": "(SELECT count(*) FROM put_turns)",
    "carried": "(SELECT coalesce(json_agg(n), '[]')::text FROM gone)",
}


class Bodies(list[bytes]):
    """Texts as bytes, for one argument."""


class BodiesDumper(Dumper):
    """Writes an array of bytes as PostgreSQL has it: each with its length, none of them quoted."""

    format = Format.BINARY
    oid: ClassVar[int] = _BYTEA_ARRAY_OID  # type: ignore[misc]  # a number for the whole class

    def dump(self, obj: Bodies) -> bytes:
        parts = [pack("!iiIii", 1, 0, _BYTEA_OID, len(obj), 1)]
        for body in obj:
            parts += (pack("!i", len(body)), body)
        return b"".join(parts)


@cache
def statement(parts: tuple[str, ...]) -> tuple[str, tuple[str, ...]]:
    """The statement of these parts, and the names of its arguments."""
    text = f"WITH {','.join(_PARTS[part][0] for part in parts)}\nSELECT " + ", ".join(
        _RESULTS[part] if part in parts else "NULL" for part in _RESULTS
    )
    names = tuple(dict.fromkeys(name for part in parts for name in _PARTS[part][1]))
    for number, name in enumerate(names, start=1):
        text = text.replace(f"${name}", f"${number}")
    return text, names


class Commit:
    """The rows of one commit, gathered."""

    def __init__(
        self, carried: Sequence[SessionWrite], prepared: Sequence[PreparedWrite], entry: bytes | None, node_id: int
    ) -> None:
        times = Counter(add.write.session_id for add in prepared)
        self.left: list[PreparedWrite] = []
        self._carried = list(carried)
        self._certain: set[int] = set()
        """The carried writes whose session must be there."""
        self._rows: dict[str, list[dict[str, Any]]] = {}
        self._bodies, self._parts = Bodies(), Bodies()
        self._entry, self._node_id = entry, node_id
        # In one order everywhere, so that two commits never wait for each other.
        for add in sorted(prepared, key=lambda add: (add.write.tenant_id, add.write.session_id)):
            if add.is_plain and times[add.write.session_id] == 1:
                self._take(add)
            else:
                self.left.append(add)
        # Those that are left are added in the order they came in.
        self.left.sort(key=prepared.index)
        for n, write in enumerate(self._carried):
            self._add("carried", _named(n, write))

    def add(self, raw: psycopg.Connection[Any]) -> AddedTogether | None:
        """Adds the rows. None if a row contradicts them; then the transaction is as it was before."""
        values: dict[str, Any] = {name: _json(rows) for name, rows in self._rows.items()}
        if self._entry is not None:
            values["entry"] = self._entry
        if not values:
            return AddedTogether(0, set(), self.left)
        text, names = statement(tuple(part for part in _PARTS if part in values))
        values |= {"bodies": self._bodies, "parts": self._parts, "node": self._node_id}
        try:
            (row,) = raw.execute(text, [values[name] for name in names]).fetchall()
        except _CONTRADICTIONS:
            return None
        number, sessions, messages, turns, gone = row
        missing = set(msgspec.json.decode(gone)) if gone is not None else set()
        whole = (sessions or 0, messages or 0, turns or 0) == (
            len(self._rows.get("sessions", ())), len(self._bodies), len(self._rows.get("turns", ())),
        )  # fmt: skip
        if not whole or missing & self._certain:
            return None
        return AddedTogether(number or 0, {self._carried[n].session_id for n in missing}, self.left)

    def _add(self, part: str, row: dict[str, Any]) -> None:
        self._rows.setdefault(part, []).append(row)

    def _take(self, add: PreparedWrite) -> None:
        write = add.write
        tenant = {"tenant_id": write.tenant_id}
        if write.changes_no_session:
            self._certain.add(len(self._carried))
            self._carried.append(write)
        else:
            self._take_session(add)
        for entry in write.ledger:
            self._add("ledger", tenant | dict(zip(ENTRY.names, ENTRY.encode(entry), strict=True)))
        for key in write.answered:
            self._add("answered", {**tenant, "key": key})
        for call in write.asked:
            self._add("asked", tenant | dict(zip(CALL.names, CALL.encode(call), strict=True)))

    def _take_session(self, add: PreparedWrite) -> None:
        write, n = add.write, len(self._rows.get("sessions", ()))
        at, preview, answers = summary_of([body.entry for body in add.bodies]) if add.bodies else (None, None, 0)
        values = {"now": write.now, "at": at, "preview": preview, "answers": answers, "touches_image": int(add.touches_image)}
        self._add("sessions", _named(n, write) | values)
        for message in add.bodies:
            entry = message.entry
            facts = {"at": entry.at, "kind": entry.kind, "tool": entry.tool, "has_text": int(bool(entry.text))}
            self._add("messages", {"n": n, "message_id": message.message_id, **facts})
            self._bodies.append(message.body)
        for _, row in add.turns:
            self._add("turns", {"position": n, **{name: _hex(value) for name, value in zip(TURN.names, row, strict=True)}})
        if (chunk := write.chunk) is not None:
            places = {"first_seq": chunk.first_seq, "last_seq": chunk.last_seq, "made_at": chunk.made_at}
            self._add("chunks", {"n": n, **places})
            self._parts.append(chunk.body)


def _named(n: int, write: SessionWrite) -> dict[str, Any]:
    return {"n": n, "tenant_id": write.tenant_id, "container_id": write.container_id, "session_id": write.session_id}


def _hex(value: Any) -> Any:
    """Bytes as PostgreSQL reads them from a text."""
    return f"\\x{value.hex()}" if isinstance(value, bytes) else value


def _json(rows: list[dict[str, Any]]) -> str:
    text = _encode(rows).decode()
    # PostgreSQL does not store that character: as `agentvm.storage.sql.connection.storable` has it.
    return text if "\\u0000" not in text else _encode([_without_nul(row) for row in rows]).decode()


def _without_nul(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value.replace(NUL, NUL_SHOWN) if isinstance(value, str) else value for name, value in row.items()}
