"""Turns — the turns of several sessions together: the newest, or the slowest."""

from collections.abc import Mapping, Sequence
from typing import Any

from agentvm.model.ids import ContainerId, TenantId
from agentvm.storage.sessions import TurnPage, TurnQuery
from agentvm.storage.sql.connection import Connection
from agentvm.storage.sql.dialect import ORDERED_JOIN, greater
from agentvm.storage.sql.places import read_place, write_place
from agentvm.storage.sql.records import narrow
from agentvm.storage.sql.rows import TURN_COLUMNS, decode_turn, is_here
from agentvm.storage.sql.sessions.listing import scope

# Only sessions in which something was said since then are looked at: a turn begins with something that is said.
_TURNS = f"""
SELECT {TURN_COLUMNS}, {{by}} AS rank, t.position
FROM sessions AS s {ORDERED_JOIN} turns AS t ON t.session_key = s.session_key
WHERE {{where}}
ORDER BY rank DESC, t.position DESC LIMIT :limit
"""
_RANKS = {"newest": "t.accepted_at", "slowest": f"coalesce(t.ended_at, {greater(':now', 't.accepted_at')}) - t.accepted_at"}
_OUTCOMES: Mapping[str | None, str] = {
    "running": "t.outcome IS NULL AND t.parked_at IS NULL",
    "parked": "t.parked_at IS NOT NULL",
}


def list_turns(
    connection: Connection, tenant_id: TenantId, containers: Sequence[ContainerId] | None, query: TurnQuery
) -> TurnPage:
    values: dict[str, Any] = {"now": query.now, "limit": query.limit + 1}
    by = _RANKS[query.order]
    conditions = (
        ("session", "s.session_id = :session", query.session_id),
        ("since", "s.is_pinned IN (0, 1) AND s.active_at >= :since AND t.accepted_at >= :since", query.since),
        ("until", "t.accepted_at < :until", query.until),
        ("outcome", _OUTCOMES.get(query.outcome, "t.outcome = :outcome"), query.outcome),
    )
    whose = scope(tenant_id, containers, values, listed=query.session_id is None)
    where = f"{whose} AND {is_here('t')}{narrow(conditions, values)}"
    if query.after is not None:
        # All pages have the same now, or those that run would come again.
        values["now"], values["rank"], values["position"] = read_place(query.after, tuple[int, int, int])
        where += f" AND ({by}, t.position) < (:rank, :position)"
    rows = connection.fetch(_TURNS.format(by=by, where=where), values)
    page = rows[: query.limit]
    following = write_place(values["now"], *page[-1][-2:]) if len(rows) > len(page) > 0 else None
    return TurnPage(tuple(decode_turn(row[:-2]) for row in page), following)
