"""Nodes — the processes that share one database: their leases, their sessions, and the journals of dead ones.

Theory of operation. A node is a row for one start of a process. It renews its lease every second; the database's clock alone
decides whether a lease is over. A session has a `runner` while a turn of it runs: the commit that accepts a message takes it,
the commit that ends the turn lets it go. A node that is declared dead cannot commit any more (the engine's fence), so its data
does not change: other nodes take over its sessions in batches, and fold the end of each log out of its journal.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import msgspec

from agentvm.errors.cluster import SessionsMoved
from agentvm.model.ids import ContainerId, SessionId, TenantId
from agentvm.model.node import NodeReport, NodeState, TurnScope
from agentvm.model.wait import AnsweredWait
from agentvm.storage.base import SessionWrite
from agentvm.storage.sql.connection import Connection, Database
from agentvm.storage.sql.dialect import DATABASE_NOW, SKIP_LOCKED, items_of, numbers_of
from agentvm.storage.sql.node_asks import NodeQuestionStore
from agentvm.storage.sql.notices import NoticeStore

FIRST_LEASE_MS = 30_000
"""The first lease of a node, which is still starting and runs nothing."""
FORGOTTEN_MS = 3_600_000
"""Nodes that have ended are listed for this long."""

_UP = "SELECT node_id FROM nodes WHERE state = 'up'"
_REGISTER = f"""
INSERT INTO nodes (name, version, state, started_at) VALUES (?, ?, 'up', {DATABASE_NOW}) RETURNING node_id
"""
_FIRST_BEAT = f"INSERT INTO node_beats (node_id, until, beats) VALUES (?, {DATABASE_NOW} + ?, 0)"
# Turns that a server without a cluster has left: nobody runs them.
_CLAIM_LEFT = """
UPDATE sessions SET runner = 0 WHERE runner IS NULL AND session_key IN (
    SELECT session_key FROM turns WHERE outcome IS NULL AND parked_at IS NULL
)
"""
_RENEW = f"""
UPDATE node_beats SET until = {DATABASE_NOW} + ?1, beats = beats + 1, report = ?3
WHERE node_id = ?2 AND EXISTS (SELECT 1 FROM nodes WHERE nodes.node_id = node_beats.node_id AND state = 'up')
RETURNING beats, {DATABASE_NOW}
"""
_LIST = f"""
SELECT n.node_id, n.name, n.version, n.state, n.started_at, coalesce(b.until, 0), {DATABASE_NOW},
       (SELECT count(*) FROM sessions WHERE sessions.runner = n.node_id), coalesce(b.report, '{{}}')
FROM nodes AS n LEFT JOIN node_beats AS b ON b.node_id = n.node_id
ORDER BY n.node_id
"""
_JUDGE = f"""
UPDATE nodes SET state = 'dead'
WHERE state = 'up' AND node_id = ?
  AND EXISTS (SELECT 1 FROM node_beats AS b WHERE b.node_id = nodes.node_id AND b.until < {DATABASE_NOW})
"""
_LEAVE = "UPDATE nodes SET state = 'gone' WHERE node_id = ? AND state = 'up'"
_HAND_OVER = "UPDATE sessions SET tail_of = coalesce(tail_of, runner), runner = 0 WHERE runner = ?"
_HANDED_OVER = "SELECT 1 FROM sessions WHERE runner = 0 LIMIT 1"
_HAS_LEFT = f"SELECT 1 FROM sessions WHERE runner IS NOT NULL AND runner NOT IN ({_UP}) LIMIT 1"
_LEFT = f"""
SELECT session_key, tenant_id, container_id, session_id, coalesce(tail_of, runner) FROM sessions
WHERE runner IS NOT NULL AND runner NOT IN ({_UP}) ORDER BY session_key LIMIT ? {SKIP_LOCKED}
"""
_OWN = """
SELECT session_key, tenant_id, container_id, session_id, coalesce(tail_of, runner) FROM sessions
WHERE runner = ? ORDER BY session_key
"""
_ADOPT = f"""
UPDATE sessions SET tail_of = coalesce(tail_of, runner), runner = ? WHERE session_key IN ({numbers_of("?")})
"""
_FOLDED = f"UPDATE sessions SET tail_of = NULL WHERE runner = ? AND session_key IN ({numbers_of('?')})"
_UNNEEDED = """
NOT EXISTS (SELECT 1 FROM sessions WHERE runner = {node}) AND NOT EXISTS (SELECT 1 FROM sessions WHERE tail_of = {node})
"""
_DROP_JOURNALS = f"""
DELETE FROM journal WHERE entry IN (
    SELECT entry FROM journal WHERE node_id NOT IN ({_UP}) AND {_UNNEEDED.format(node="journal.node_id")} LIMIT ?
)
"""
_DROP_BEATS = f"""
DELETE FROM node_beats WHERE until < {DATABASE_NOW} - ?
  AND node_id IN (SELECT node_id FROM nodes WHERE state <> 'up' AND {_UNNEEDED.format(node="nodes.node_id")})
"""
_DROP_NODES = "DELETE FROM nodes WHERE state <> 'up' AND node_id NOT IN (SELECT node_id FROM node_beats)"
_DROP_PARTS = f"""
DELETE FROM quota_parts WHERE (tenant_id, metric, user_id, begins, node_id) IN (
    SELECT tenant_id, metric, user_id, begins, node_id FROM quota_parts WHERE ends < {DATABASE_NOW} - ? LIMIT ?
)
"""
_HAS_ENDED = f"""
SELECT 1 WHERE EXISTS (SELECT 1 FROM journal WHERE node_id NOT IN ({_UP}) AND {_UNNEEDED.format(node="journal.node_id")})
    OR EXISTS (SELECT 1 FROM node_beats WHERE until < {DATABASE_NOW} - ?1)
    OR EXISTS (SELECT 1 FROM quota_parts WHERE ends < {DATABASE_NOW} - ?1)
"""
_RUNNER = "SELECT runner FROM sessions WHERE tenant_id = ? AND session_id = ?"
# One statement for the sessions of a commit, each by the ids of its tenant and its own. The separate lists are for the index.
_THESE = f"tenant_id IN ({items_of('?2')}) AND session_id IN ({items_of('?3')})"
# The head of the log is what a node must have numbered from: another may have run a turn since it has looked.
_TAKE = f"""
UPDATE sessions SET runner = ?1
WHERE {_THESE} AND runner IS NULL AND tenant_id || ' ' || session_id || ' ' || CAST((
    SELECT coalesce(max(last_seq), 0) FROM log WHERE log.session_key = sessions.session_key
) AS TEXT) IN ({items_of("?4")})
RETURNING tenant_id, session_id
"""
# Nobody runs a turn that waits for somebody, so each node may answer or end it: the first does, whatever head others have read.
_CONTINUED = f"""
SELECT 1 FROM sessions AS s WHERE s.tenant_id = ? AND s.session_id = ? AND (
    EXISTS (
        SELECT 1 FROM waits AS w
        WHERE w.session_key = s.session_key AND w.answered_at IS NOT NULL AND w.wait_id IN ({items_of("?")})
    ) OR EXISTS (
        SELECT 1 FROM turns AS t
        WHERE t.session_key = s.session_key AND t.outcome IS NOT NULL AND t.turn_id IN ({items_of("?")})
    )
)
"""
_LET_GO = f"""
UPDATE sessions SET runner = NULL
WHERE {_THESE} AND runner = ?1 AND tail_of IS NULL AND tenant_id || ' ' || session_id IN ({items_of("?4")}) AND NOT EXISTS (
    SELECT 1 FROM turns WHERE turns.session_key = sessions.session_key AND turns.outcome IS NULL AND turns.parked_at IS NULL
)
RETURNING tenant_id, session_id
"""
_report = msgspec.json.Decoder(NodeReport)
_RUNNING = f"SELECT session_id FROM sessions WHERE runner IS NOT NULL AND tenant_id = ? AND session_id IN ({items_of('?')})"
_RUNNERS = "SELECT DISTINCT runner FROM sessions WHERE runner IS NOT NULL AND tenant_id = ?"

SessionKey = tuple[TenantId, SessionId]


class Claim(NamedTuple):
    """A session that a commit writes to. `base` is the head of its log as the node knows it; None if the node runs it."""

    tenant_id: TenantId
    session_id: SessionId
    base: int | None
    ends: bool
    """Whether the node needs it no longer after this commit, as far as it knows. It is kept if a turn is open all the same."""
    closes: "ClosedRows | None" = None
    """Waits and turns that no other node may have closed before, if this commit takes the session."""


class ClosedRows(NamedTuple):
    """Waits that a commit answers, and turns that it ends without having begun them; each a JSON array of ids."""

    waits: str
    turns: str

    @classmethod
    def of(cls, write: SessionWrite) -> "ClosedRows | None":
        begun = {turn.turn_id for turn in write.turns if turn.outcome is None}
        turns = [turn.turn_id for turn in write.turns if turn.outcome is not None and turn.turn_id not in begun]
        waits = [change.wait_id for change in write.waits if isinstance(change, AnsweredWait)]
        return cls(_listed(waits), _listed(turns)) if waits or turns else None


class NodeRow(msgspec.Struct, frozen=True):
    """A node as it is stored. `late_ms` is how long its lease has been over; negative while it is valid."""

    node_id: int
    name: str
    version: str
    state: NodeState
    started_at: int
    late_ms: int
    now: int
    """The time of the database's clock."""
    sessions: int
    """Sessions that it runs."""
    report: NodeReport = NodeReport()


class Orphan(NamedTuple):
    """A session that was taken over. The end of its log is in the journal of the node `tail_of`."""

    session_key: int
    tenant_id: TenantId
    container_id: ContainerId
    session_id: SessionId
    tail_of: int

    @property
    def key(self) -> SessionKey:
        return self.tenant_id, self.session_id


@dataclass(frozen=True, slots=True)
class Beat:
    """A lease that was renewed: how often so far, and the time of the database's clock."""

    beats: int
    now: int


class NodeStore:
    """The nodes of a database. `beats` has a connection of its own, so that no long commit keeps a node from renewing."""

    def __init__(self, database: Database, beats: Database) -> None:
        self._database = database
        self._beats = beats
        self.node_id = database.node_id
        self.asks = NodeQuestionStore(database)
        self.notices = NoticeStore(database)

    async def renew(self, lease_ms: int, report: NodeReport) -> Beat | None:
        """Renews the lease of this node, with its status report; None if it was declared dead."""
        report_json = msgspec.json.encode(report).decode()

        def work(connection: Connection) -> Beat | None:
            return next((Beat(*row) for row in connection.fetch(_RENEW, (lease_ms, self.node_id, report_json))), None)

        return await self._beats.write(work)

    async def list_all(self) -> tuple[NodeRow, ...]:
        """The nodes that are up, and those that have ended lately; oldest first."""

        def read(connection: Connection) -> tuple[NodeRow, ...]:
            return tuple(
                NodeRow(node_id, name, version, state, started_at, now - until, now, sessions, _report.decode(report_json))
                for node_id, name, version, state, started_at, until, now, sessions, report_json in connection.fetch(_LIST)
            )

        return await self._database.read(read)

    async def judge(self, node_id: int) -> bool:
        """Declares a node dead, unless it has renewed its lease in the meantime. Waits for its commit that is under way."""
        return await self._beats.write(lambda connection: connection.execute(_JUDGE, (node_id,)) > 0)

    async def leave(self) -> None:
        """Declares this node gone; it commits nothing any more."""
        await self._beats.write(lambda connection: connection.execute(_LEAVE, (self.node_id,)))

    async def hand_over(self) -> int:
        """Lets all sessions go that this node runs, with their open turns, for others to take over; returns how many."""
        return await self._database.write(lambda connection: connection.execute(_HAND_OVER, (self.node_id,)))

    async def has_handed_over(self) -> bool:
        """Whether sessions wait that a node has handed over. Reads one row at most."""
        return await self._database.read(lambda connection: bool(connection.fetch(_HANDED_OVER)))

    async def has_orphans(self) -> bool:
        return await self._database.read(lambda connection: bool(connection.fetch(_HAS_LEFT)))

    async def adopt(self, limit: int) -> tuple[Orphan, ...]:
        """Takes over some sessions of nodes that have ended."""

        def work(connection: Connection) -> tuple[Orphan, ...]:
            orphans = tuple(map(Orphan._make, connection.fetch(_LEFT, (limit,))))
            if orphans:
                connection.execute(_ADOPT, (self.node_id, _listed(orphan.session_key for orphan in orphans)))
            return orphans

        return await self._database.write(work)

    async def list_own(self) -> tuple[Orphan, ...]:
        """The sessions that this node runs by the database."""
        rows = await self._database.read(lambda connection: connection.fetch(_OWN, (self.node_id,)))
        return tuple(map(Orphan._make, rows))

    async def folded(self, orphans: Sequence[Orphan]) -> None:
        """The ends of their logs are in the log: the journal that had them is not needed for these sessions any more."""
        keys = _listed(orphan.session_key for orphan in orphans)
        await self._database.write(lambda connection: connection.execute(_FOLDED, (self.node_id, keys)))

    async def release(self, sessions: Sequence[SessionKey]) -> set[SessionKey]:
        """Lets sessions go that have no open turn; returns those that were."""

        def work(connection: Connection) -> set[SessionKey]:
            return _release(connection, self.node_id, sessions)

        return await self._database.write(work)

    async def drop_ended(self, limit: int = 500) -> bool:
        """Drops journals of nodes whose sessions were all taken over, nodes that ended a while ago, and parts of quotas whose
        window is over; whether all of it."""

        def work(connection: Connection) -> bool:
            if connection.execute(_DROP_JOURNALS, (limit,)) == limit:
                return False
            connection.execute(_DROP_BEATS, (FORGOTTEN_MS,))
            connection.execute(_DROP_NODES)
            connection.execute(_DROP_PARTS, (FORGOTTEN_MS, limit))
            return True

        # Nothing is committed as long as there is nothing to drop.
        if not await self._database.read(lambda connection: connection.fetch(_HAS_ENDED, (FORGOTTEN_MS,))):
            return True
        return await self._database.write(work)

    async def runner(self, tenant_id: TenantId, session_id: SessionId) -> int | None:
        """The node that runs a turn of the session."""

        def read(connection: Connection) -> int | None:
            return next((runner for (runner,) in connection.fetch(_RUNNER, (tenant_id, session_id))), None)

        return await self._database.read(read)

    async def running(self, tenant_id: TenantId, sessions: Iterable[SessionId]) -> frozenset[SessionId]:
        """Sessions among these in which some node runs a turn."""
        args = (tenant_id, _listed(sessions))
        rows = await self._database.read(lambda connection: connection.fetch(_RUNNING, args))
        return frozenset(session_id for (session_id,) in rows)

    async def runners(self, scope: TurnScope) -> frozenset[int]:
        """The nodes that run such turns."""
        sql, args = _RUNNERS, list[Any]((scope.tenant_id,))
        if scope.container_ids is not None:
            sql, args = f"{sql} AND container_id IN ({items_of('?')})", [*args, _listed(scope.container_ids)]
        for column, value in (("image_id", scope.image_id), ("session_id", scope.session_id)):
            if value is not None:
                sql, args = f"{sql} AND {column} = ?", [*args, value]
        rows = await self._database.read(lambda connection: connection.fetch(sql, args))
        return frozenset(node for (node,) in rows)


async def register(database: Database, name: str, version: str) -> int:
    """Adds a node; returns its number. The first one also takes over the journal of a server without a cluster."""

    def work(connection: Connection) -> int:
        if not connection.fetch(_UP):
            connection.execute(_CLAIM_LEFT)
        node_id: int = connection.fetch(_REGISTER, (name, version))[0][0]
        connection.execute(_FIRST_BEAT, (node_id, FIRST_LEASE_MS))
        return node_id

    return await database.write(work)


def with_closed(claims: Sequence[Claim], writes: Sequence[SessionWrite]) -> Sequence[Claim]:
    """Returns the claims, with the waits and turns that the commit closes in their sessions."""
    if all(claim.base is None for claim in claims):
        return claims
    by_session = {(write.tenant_id, write.session_id): write for write in writes if write.waits or write.turns}
    return [
        claim._replace(closes=ClosedRows.of(write))
        if claim.base is not None and (write := by_session.get((claim.tenant_id, claim.session_id))) is not None
        else claim
        for claim in claims
    ]


def take(connection: Connection, node_id: int, claims: Sequence[Claim]) -> None:
    """Takes the sessions that the node does not run yet. `SessionsMoved` for those that another runs, or has run in the
    meantime."""
    new = {(claim.tenant_id, claim.session_id): claim for claim in claims if claim.base is not None}
    if not new:
        return
    bases = (f"{tenant_id} {session_id} {claim.base}" for (tenant_id, session_id), claim in new.items())
    claimed = set(connection.fetch(_TAKE, (node_id, *_lists(new), _listed(bases))))
    moved: dict[str, int | None] = {}
    for key, claim in new.items():
        if key not in claimed:
            for (runner,) in connection.fetch(_RUNNER, key):
                moved[claim.session_id] = runner
        elif claim.closes is not None and connection.fetch(_CONTINUED, (*key, *claim.closes)):
            moved[claim.session_id] = None
    if moved:
        raise SessionsMoved(moved)


def release_claims(connection: Connection, node_id: int, claims: Sequence[Claim]) -> frozenset[SessionId]:
    """Lets sessions go whose last turn has ended. Returns those that were; others have an open turn."""
    ended = [(claim.tenant_id, claim.session_id) for claim in claims if claim.ends]
    return frozenset(session_id for _, session_id in _release(connection, node_id, ended))


def _release(connection: Connection, node_id: int, sessions: Sequence[SessionKey]) -> set[SessionKey]:
    if not sessions:
        return set()
    names = (f"{tenant_id} {session_id}" for tenant_id, session_id in sessions)
    return set(connection.fetch(_LET_GO, (node_id, *_lists(sessions), _listed(names))))


def _lists(sessions: Iterable[SessionKey]) -> tuple[str, str]:
    """The ids of tenants, and those of sessions."""
    tenants, ids = zip(*sessions, strict=True)
    return _listed(dict.fromkeys(tenants)), _listed(ids)


def _listed(values: Iterable[object]) -> str:
    return msgspec.json.encode(list(values)).decode()
