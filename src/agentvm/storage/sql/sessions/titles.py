"""Titles — finds sessions by the words of their titles, the latest first.

Titles are few and short, so they are looked through instead of being indexed: the newest of them, in one pass.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from agentvm.model.ids import ContainerId, TenantId
from agentvm.storage.sessions import FoundTitle, MessageSearch
from agentvm.storage.sql.connection import Connection
from agentvm.storage.sql.records import narrow
from agentvm.storage.sql.rows import SESSION_COLUMNS, decode_session
from agentvm.storage.sql.search_index import SearchPiece
from agentvm.storage.sql.sessions.listing import archived, scope
from agentvm.storage.sql.sessions.snippet import snippet
from agentvm.storage.sql.words import terms

TITLES_MAX = 5_000
"""Titles that one search looks at: cutting a Chinese one into words takes some 20 microseconds of a reader's time."""

# By the index of lists, in which pinned sessions come first.
_SOME = "SELECT s.session_key, s.title, s.active_at FROM sessions AS s WHERE {where} AND s.is_pinned = {pinned} "
_ORDER = "ORDER BY active_at DESC LIMIT :most"
_TITLES = f"""
SELECT session_key, title FROM (
    SELECT * FROM ({_SOME.format(where="{where}", pinned=1)}{_ORDER}) AS pinned
    UNION ALL
    SELECT * FROM ({_SOME.format(where="{where}", pinned=0)}{_ORDER}) AS others
) AS latest {_ORDER}
"""
_SESSION = f"SELECT {SESSION_COLUMNS} FROM sessions AS s WHERE s.session_key = ?"


def search_titles(
    connection: Connection,
    tenant_id: TenantId,
    containers: Sequence[ContainerId] | None,
    pieces: Sequence[SearchPiece],
    search: MessageSearch,
) -> tuple[FoundTitle, ...]:
    """Sessions whose titles match, at most `limit`. None for a search by role or tool."""
    if search.role is not None or search.tool is not None:
        return ()
    values: dict[str, Any] = {"most": TITLES_MAX}
    whose = scope(tenant_id, containers, values, listed=True)
    where = f"{whose} AND s.title IS NOT NULL{_narrow(search, values)}"
    rows = connection.fetch(_TITLES.format(where=where), values)
    return tuple(_titled(connection, key, pieces) for key in _matching(rows, pieces, search.limit))


def _matching(rows: Sequence[tuple[Any, ...]], pieces: Sequence[SearchPiece], limit: int) -> Iterator[int]:
    for key, title in rows:
        if limit <= 0:
            return
        if has_pieces(title, pieces):
            limit -= 1
            yield key


def has_pieces(title: str, pieces: Sequence[SearchPiece]) -> bool:
    """Whether every piece is somewhere in the title."""
    if title.isascii():
        # Most titles end here, long before they are cut into words.
        letters = title.lower()
        if not all(word in letters for piece in pieces for word in piece.words):
            return False
    title_terms = terms(title)
    return all(any(piece.matches(title_terms, start) for start in range(len(title_terms))) for piece in pieces)


def _narrow(search: MessageSearch, values: dict[str, Any]) -> str:
    conditions = (
        ("image", "s.image_id = :image", search.image_id),
        ("session", "s.session_id = :session", search.session_id),
        ("since", "s.active_at >= :since", search.since),
        ("until", "s.active_at < :until", search.until),
    )
    return narrow(conditions, values) + archived(search.archived)


def _titled(connection: Connection, session_key: int, pieces: Sequence[SearchPiece]) -> FoundTitle:
    session = decode_session(connection.fetch(_SESSION, (session_key,))[0])
    return FoundTitle(session=session, snippet=snippet(session.title or "", pieces))
