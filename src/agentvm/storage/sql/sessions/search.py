"""Search — finds messages, the best matches first.

Theory of operation. The index returns the newest messages with the words; at most `RANKED_MAX` of them are ranked, which bounds
the cost of a frequent word. The weight of a message is that of BM25, up to twice as much if it is new. Pages continue by weight
and place; the weight of where a page ended is looked up again, because it depends on all else that was said.
"""

from collections.abc import Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Any

from agentvm.model.ids import ContainerId, MessageId, TenantId
from agentvm.model.message import decode_message
from agentvm.storage.sessions import Found, FoundPage, MessageSearch, Role
from agentvm.storage.sql.connection import Connection
from agentvm.storage.sql.dialect import ORDERED_JOIN
from agentvm.storage.sql.places import read_place, write_place
from agentvm.storage.sql.records import narrow
from agentvm.storage.sql.rows import SESSION_COLUMNS, decode_session
from agentvm.storage.sql.search_index import SearchPiece, Weighed
from agentvm.storage.sql.sessions.index import entry_of, key_of
from agentvm.storage.sql.sessions.listing import archived, scope
from agentvm.storage.sql.sessions.question import pieces_of
from agentvm.storage.sql.sessions.rewound_ranges import HIDDEN_HIT
from agentvm.storage.sql.sessions.snippet import snippet
from agentvm.storage.sql.sessions.titles import search_titles

RANKED_MAX = 10_000
CONTAINERS_MAX = 100
"""Containers that are asked about in one query."""
MONTH_MS = 30 * 86_400_000
"""Age at which the bonus of a new message has halved."""

ROLES: dict[str, Role] = {"user": "user", "assistant": "assistant", "tool-result": "tool"}
"""By the kind of a message, of those that can be found."""
_KINDS = {role: kind for kind, role in ROLES.items()}

_CONTAINERS = "SELECT container_id FROM containers WHERE tenant_id = ? ORDER BY position"
_HIT = f"""
SELECT {SESSION_COLUMNS}, m.message_id, m.body, s.session_key
FROM messages AS m JOIN sessions AS s ON s.session_key = m.session_key
WHERE m.position = ?
"""
_SESSION_OF = "SELECT session_key FROM messages WHERE position = ?"
_BETWEEN = "SELECT count(*) FROM messages WHERE session_key = ? AND position >= ? AND position < ?"
_NEXT_TO = f"""
SELECT m.body
FROM messages AS m {ORDERED_JOIN} message_facts AS f ON f.position = m.position
WHERE m.session_key = ? AND m.position {{beyond}} ? AND f.kind IN ('user', 'assistant')
ORDER BY m.position {{order}} LIMIT 1
"""
_BEFORE, _AFTER = _NEXT_TO.format(beyond="<", order="DESC"), _NEXT_TO.format(beyond=">", order="ASC")


def search_messages(
    connection: Connection, tenant_id: TenantId, containers: Sequence[ContainerId] | None, search: MessageSearch
) -> FoundPage:
    after = None if search.after is None else read_place(search.after, tuple[int, float, int])
    pieces = pieces_of(search.text)
    if containers is None:
        containers = [name for (name,) in connection.fetch(_CONTAINERS, (tenant_id,))]
    if not pieces or not containers:
        return FoundPage((), 0, False, None)
    titles = search_titles(connection, tenant_id, containers, pieces, search) if after is None else ()
    # All pages of a search have the same now.
    now = search.now if after is None else after[0]
    hits: list[Weighed] = []
    for names in _some(containers):
        hits += _hits(connection, tenant_id, names, pieces, search, now)
    # The newest of all, whatever container they are in.
    capped = len(hits) > RANKED_MAX
    hits = sorted(sorted(hits, key=itemgetter(1))[:RANKED_MAX] if capped else hits)
    rest = hits if after is None else _beyond(hits, (after[1], after[2]))
    page = rest[: search.limit]
    numbers = _numbers(connection, [-place for _, place in page])
    return FoundPage(
        items=tuple(hit for _, place in page if (hit := _hit(connection, -place, pieces, numbers)) is not None),
        total=len(hits),
        capped=capped,
        next=write_place(now, *page[-1]) if len(rest) > len(page) > 0 else None,
        titles=titles,
    )


def weigh(bm25: float, age: int) -> float:
    """BM25 is negative, and the less the better."""
    return bm25 * (1 + 1 / (1 + max(age, 0) / MONTH_MS))


def _some(containers: Sequence[ContainerId]) -> Iterator[Sequence[ContainerId]]:
    for start in range(0, len(containers), CONTAINERS_MAX):
        yield containers[start : start + CONTAINERS_MAX]


def _hits(
    connection: Connection,
    tenant_id: TenantId,
    containers: Sequence[ContainerId],
    pieces: Sequence[SearchPiece],
    search: MessageSearch,
    now: int,
) -> list[Weighed]:
    values: dict[str, Any] = {"most": RANKED_MAX + 1, "now": now, "month": float(MONTH_MS)}
    # The words say whose they are; the rows are asked again, because they decide.
    whose = scope(tenant_id, containers, values, listed=True)
    where = f"{whose} AND NOT ({HIDDEN_HIT}){_narrow(search, values)}"
    keys = [key_of(tenant_id, container_id) for container_id in containers]
    return connection.search.find_messages(pieces, keys, where, values)


def _narrow(search: MessageSearch, values: dict[str, Any]) -> str:
    conditions = (
        ("image", "s.image_id = :image", search.image_id),
        ("session", "s.session_id = :session", search.session_id),
        ("kind", "f.kind = :kind", None if search.role is None else _KINDS[search.role]),
        ("tool", "f.tool = :tool", search.tool),
        ("since", "f.at >= :since", search.since),
        ("until", "f.at < :until", search.until),
    )
    return narrow(conditions, values) + archived(search.archived)


def _beyond(hits: Sequence[Weighed], after: Weighed) -> Sequence[Weighed]:
    weight, place = after
    now = next((hit for hit in hits if hit[1] == place), (weight, place))
    return [hit for hit in hits if hit > now]


def _numbers(connection: Connection, positions: Sequence[int]) -> dict[int, int]:
    """Where in its session each of them is: counted from one to the next, so that a long session is gone through once."""
    numbers: dict[int, int] = {}
    reached: dict[int, tuple[int, int]] = {}
    for position in sorted(positions):
        for (session_key,) in connection.fetch(_SESSION_OF, (position,)):
            since, number = reached.get(session_key, (0, 0))
            number += connection.fetch(_BETWEEN, (session_key, since, position))[0][0]
            numbers[position], reached[session_key] = number, (position, number)
    return numbers


def _hit(connection: Connection, position: int, pieces: Sequence[SearchPiece], numbers: Mapping[int, int]) -> Found | None:
    """None for one that went in the meantime."""
    rows = connection.fetch(_HIT, (position,))
    if not rows or position not in numbers:
        return None
    *session, message_id, body, session_key = rows[0]
    entry = entry_of(decode_message(body))
    return Found(
        session=decode_session(session),
        message_id=MessageId(message_id),
        role=ROLES[entry.kind],
        tool=entry.tool,
        at=entry.at,
        position=numbers[position],
        snippet=snippet(entry.text, pieces),
        before=_preview(connection, _BEFORE, session_key, position),
        after=_preview(connection, _AFTER, session_key, position),
        cursor=write_place(position),
    )


def _preview(connection: Connection, query: str, session_key: int, position: int) -> str | None:
    rows = connection.fetch(query, (session_key, position))
    return entry_of(decode_message(rows[0][0])).preview if rows else None
