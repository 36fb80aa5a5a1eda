"""Turns — the turns of several sessions together: the newest, or the slowest."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from agentvm.model.ids import ContainerId, TenantId
from agentvm.storage.sessions import TurnPage, TurnQuery
from agentvm.storage.sql.connection import Connection
from agentvm.storage.sql.dialect import ORDERED_JOIN, greater
from agentvm.storage.sql.places import read_place, write_place
from agentvm.storage.sql.records import narrow
from agentvm.storage.sql.rows import TURN_COLUMNS, decode_turn, is_present
from agentvm.storage.sql.sessions.listing import TOTAL_MAX, scope

RECENT_MS = 60_000
RECENT_FACTOR = 16
"""The newest turns of a tenant are looked for in its last minute first, then in 16 times as much, and so on."""

_RUNS = "t.outcome IS NULL AND t.parked_at IS NULL"
# Only sessions in which something was said since then are looked at: a turn begins with something that is said.
_TURNS = f"""
SELECT {TURN_COLUMNS}, CASE WHEN {_RUNS} THEN s.runner END, {{by}} AS rank, t.position
FROM sessions AS s {ORDERED_JOIN} turns AS t ON t.session_key = s.session_key
WHERE {{where}}
ORDER BY rank DESC, t.position DESC LIMIT :limit
"""
_COUNT = f"""
SELECT count(*) FROM (
    SELECT 1 FROM sessions AS s {ORDERED_JOIN} turns AS t ON t.session_key = s.session_key WHERE {{where}} LIMIT :most
) AS counted
"""
_RANKS = {"newest": "t.accepted_at", "slowest": f"coalesce(t.ended_at, {greater(':now', 't.accepted_at')}) - t.accepted_at"}
_OUTCOMES: Mapping[str | None, str] = {
    "running": _RUNS,
    "parked": "t.parked_at IS NOT NULL",
}


def list_turns(
    connection: Connection, tenant_id: TenantId, containers: Sequence[ContainerId] | None, query: TurnQuery
) -> TurnPage:
    by, now = _RANKS[query.order], query.now
    values: dict[str, Any] = {"now": now, "limit": query.limit + 1}
    total = _count(connection, *_where(tenant_id, containers, query)) if query.counts else None
    further = ""
    if query.after is not None:
        # All pages have the same now, or those that run would come again.
        values["now"], values["rank"], values["position"] = read_place(query.after, tuple[int, int, int])
        now = min(now, values["rank"])
        further = f" AND ({by}, t.position) < (:rank, :position)"
    rows: list[Any] = []
    for since in _windows(query, now) if containers is None else (query.since,):
        where, conditions = _where(tenant_id, containers, replace(query, since=since))
        rows = connection.fetch(_TURNS.format(by=by, where=where + further), conditions | values)
        if len(rows) > query.limit:
            break
    page = rows[: query.limit]
    following = write_place(values["now"], *page[-1][-2:]) if len(rows) > len(page) > 0 else None
    turns = tuple(decode_turn(row[:-3]) for row in page)
    nodes = {turn.turn_id: row[-3] for turn, row in zip(turns, page, strict=True) if row[-3] is not None}
    return TurnPage(turns, following, total, nodes)


def _windows(query: TurnQuery, now: int) -> Iterator[int | None]:
    """The times since which turns are looked for, one after the other until a page is full.

    A tenant may have had a million sessions today, and the newest page of its turns is not worth a visit to each.
    """
    if query.order == "newest" and query.session_id is None:
        newest = now if query.until is None else min(now, query.until)
        window = RECENT_MS
        while newest - window > (query.since or 0):
            yield newest - window
            window *= RECENT_FACTOR
    yield query.since


def _where(tenant_id: TenantId, containers: Sequence[ContainerId] | None, query: TurnQuery) -> tuple[str, dict[str, Any]]:
    values: dict[str, Any] = {}
    conditions = (
        ("session", "s.session_id = :session", query.session_id),
        ("since", "s.is_pinned IN (0, 1) AND s.active_at >= :since AND t.accepted_at >= :since", query.since),
        ("until", "t.accepted_at < :until", query.until),
        ("image", "s.image_id = :image", query.image_id),
        ("changed", "coalesce(t.ended_at, t.accepted_at) >= :changed", query.changed_since),
        ("outcome", _OUTCOMES.get(query.outcome, "t.outcome = :outcome"), query.outcome),
    )
    whose = scope(tenant_id, containers, values, listed=query.session_id is None)
    return f"{whose} AND {is_present('t')}{narrow(conditions, values)}", values


def _count(connection: Connection, where: str, values: Mapping[str, Any]) -> int:
    total: int = connection.fetch(_COUNT.format(where=where), {**values, "most": TOTAL_MAX})[0][0]
    return total
