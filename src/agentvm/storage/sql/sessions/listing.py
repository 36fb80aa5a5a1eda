"""Listing — sessions in the order of their last messages, pinned ones first; one page at a time.

A page continues after the last value of the previous one, not at an offset: a new message moves its session to the top, and
does not shift the others.
"""

from collections.abc import Sequence
from typing import Any

import msgspec

from agentvm.model.ids import ContainerId, SessionId, TenantId
from agentvm.storage.sessions import Listed, SessionPage, SessionQuery, SessionReader
from agentvm.storage.sql.connection import Connection
from agentvm.storage.sql.dialect import contains_folded, items_of
from agentvm.storage.sql.places import read_place, write_place
from agentvm.storage.sql.records import narrow
from agentvm.storage.sql.rows import IS_LISTED, SESSION_COLUMNS, decode_session, is_present, is_rooted

UNREAD_MAX = 1_000
TOTAL_MAX = 10_000
"""Sessions that are counted for a list: a tenant may have a million of them, and a page must not visit them all."""

_encode = msgspec.json.Encoder().encode

_LAST = "(SELECT max(m.position) FROM messages AS m WHERE m.session_key = s.session_key)"
_MARK = """
(SELECT r.answers FROM read_marks AS r WHERE r.session_key = s.session_key AND r.reader = :reader AND r.device = :device)
"""
_SEEN = f"""
SELECT {SESSION_COLUMNS}, s.answers - coalesce({_MARK}, 0), {_LAST}, s.is_pinned, s.active_at,
       s.session_key
FROM sessions AS s
"""
_COUNT = "SELECT count(*) FROM (SELECT 1 FROM sessions AS s WHERE {where} LIMIT :most) AS counted"


def scope(
    tenant_id: TenantId,
    containers: Sequence[ContainerId] | None,
    values: dict[str, Any],
    *,
    deleted: bool = False,
    listed: bool = False,
) -> str:
    """The first condition of every query here: the tenant, its containers, and deleted sessions or the others.

    `listed` leaves out the sessions of sub-agents.
    """
    values["tenant"] = tenant_id
    # Of a session that is listed nobody has to look for the one that it works for.
    rooted = IS_LISTED if listed else is_rooted("s")
    whose = f"s.tenant_id = :tenant AND s.deleted_at IS {'NOT ' if deleted else ''}NULL AND {is_present('s')} AND {rooted}"
    if containers is None:
        return whose
    if len(containers) == 1:
        values["container"] = containers[0]
        return f"{whose} AND s.container_id = :container"
    values["containers"] = _encode(containers).decode()
    return f"{whose} AND s.container_id IN ({items_of(':containers')})"


def list_sessions(
    connection: Connection,
    tenant_id: TenantId,
    containers: Sequence[ContainerId] | None,
    query: SessionQuery,
    reader: SessionReader,
) -> SessionPage:
    values: dict[str, Any] = {"reader": reader.user, "device": reader.device, "limit": query.limit + 1}
    whose = scope(tenant_id, containers, values, deleted=query.deleted_after is not None, listed=True)
    where = f"{whose}{_narrow(query, values)}"
    counted = {name: value for name, value in values.items() if name not in ("reader", "device", "limit")}
    total = connection.fetch(_COUNT.format(where=where), counted | {"most": TOTAL_MAX})[0][0]
    if query.after is not None:
        values["is_pinned"], values["active_at"], values["key"] = read_place(query.after, tuple[int, int, int])
        where += " AND (s.is_pinned, s.active_at, s.session_key) < (:is_pinned, :active_at, :key)"
    # The sum keeps the order of a tenant from being walked through for the sessions of a few containers: they are sorted.
    pinned = "s.is_pinned" if containers is None or len(containers) == 1 else "s.is_pinned + 0"
    order = f"ORDER BY {pinned} DESC, s.active_at DESC, s.session_key DESC LIMIT :limit"
    rows = connection.fetch(f"{_SEEN} WHERE {where} {order}", values)
    page = rows[: query.limit]
    return SessionPage(
        items=tuple(_listed(row) for row in page),
        total=total,
        next=write_place(*page[-1][-3:]) if len(rows) > len(page) > 0 else None,
    )


def read_listed(
    connection: Connection,
    tenant_id: TenantId,
    containers: Sequence[ContainerId] | None,
    session_id: SessionId,
    reader: SessionReader,
) -> Listed | None:
    values: dict[str, Any] = {"reader": reader.user, "device": reader.device, "session": session_id}
    where = scope(tenant_id, containers, values)
    rows = connection.fetch(f"{_SEEN} WHERE {where} AND s.session_id = :session", values)
    return _listed(rows[0]) if rows else None


def archived(is_archived: bool | None) -> str:
    """The condition that only archived sessions are listed, or only the others; None for both."""
    return "" if is_archived is None else f" AND s.archived_at IS {'NOT ' if is_archived else ''}NULL"


def _narrow(query: SessionQuery, values: dict[str, Any]) -> str:
    conditions = (
        ("image", "s.image_id = :image", query.image_id),
        ("pinned", "s.is_pinned = :pinned", None if query.pinned is None else int(query.pinned)),
        ("since", "s.active_at >= :since", query.since),
        ("until", "s.active_at < :until", query.until),
        ("origin", "s.forked_session = :origin", query.forked_from),
        ("deleted_after", "s.deleted_at > :deleted_after", query.deleted_after),
        ("title", contains_folded("s.title", ":title"), None if query.title is None else query.title.casefold()),
    )
    return narrow(conditions, values) + archived(query.archived)


def _listed(row: tuple[Any, ...]) -> Listed:
    *session, unread, last, _, _, _ = row
    return Listed(decode_session(session), min(max(unread, 0), UNREAD_MAX), None if last is None else write_place(last))
