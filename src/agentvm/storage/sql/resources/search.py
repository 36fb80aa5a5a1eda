"""Search — finds resources by words, or lists them by name; one page at a time.

A page continues after the last value of the previous one, not at an offset, so concurrent publications do not shift it. With
words, where that was is looked up again: the weight of a hit depends on all others there are, but hardly its rank among them.
For the same reason no weight is returned: it would reveal how many texts of other tenants contain the word.
"""

from typing import Any

import msgspec

from agentvm.model.ids import TenantId
from agentvm.storage.resources import Hit, Hits, Search
from agentvm.storage.sql.connection import Connection
from agentvm.storage.sql.dialect import ORDERED_JOIN, items_of
from agentvm.storage.sql.places import read_place, write_place
from agentvm.storage.sql.records import narrow
from agentvm.storage.sql.resources.rows import RESOURCE_COLUMNS, RESOURCES, decode_resource, tenant_of
from agentvm.storage.sql.resources.words import pieces_of, scopes_of

_encode = msgspec.json.Encoder().encode

_USES = f"""
(SELECT count(DISTINCT d.version_key)
 FROM resource_versions AS target {ORDERED_JOIN} resource_deps AS d ON d.target_key = target.version_key
 WHERE target.resource_key = r.resource_key
   AND d.version_key NOT IN (SELECT version_key FROM resource_versions WHERE resource_key = r.resource_key))
+ (SELECT count(DISTINCT position)
   FROM resource_versions AS target {ORDERED_JOIN} image_refs ON image_refs.version_key = target.version_key
   WHERE target.resource_key = r.resource_key)
"""
_ITEMS = f"SELECT {RESOURCE_COLUMNS}, {_USES} FROM {RESOURCES} WHERE r.resource_id IN ({items_of('?')})"
_CONTENTS = f"""
SELECT r.resource_id, b.body
FROM resources AS r JOIN resource_versions AS v ON v.version_key = r.latest_key JOIN resource_blobs AS b ON b.digest = v.content
WHERE r.resource_id IN ({items_of("?")})
"""
_OWN = "r.tenant_id = :asks AND r.deleted_at IS NULL"
_OPEN = "r.visibility = 'public' AND r.deleted_at IS NULL AND r.latest_key IS NOT NULL AND r.tenant_id <> :asks"
# Only by versions that the asker can see, and that are not withdrawn.
_DEPENDS = f"""
r.resource_key IN (
    SELECT v.resource_key
    FROM resources AS wanted
    {ORDERED_JOIN} resource_versions AS target ON target.resource_key = wanted.resource_key
    {ORDERED_JOIN} resource_deps AS d ON d.target_key = target.version_key
    {ORDERED_JOIN} resource_versions AS v ON v.version_key = d.version_key
    {ORDERED_JOIN} resources AS source ON source.resource_key = v.resource_key
    WHERE wanted.resource_id = :depends_on AND wanted.deleted_at IS NULL
      AND (wanted.tenant_id = :asks OR wanted.visibility = 'public')
      AND v.yanked_at IS NULL AND (source.tenant_id = :asks OR v.is_open = 1) AND v.resource_key <> wanted.resource_key
)
"""


def search(connection: Connection, tenant_id: TenantId, search_for: Search) -> Hits:
    """`InvalidInput` for an `after` that is no `next`. A text of spaces is none; one without any word finds nothing."""
    values: dict[str, Any] = {"asks": tenant_id, "limit": search_for.limit + 1}
    narrow = _narrow(connection, search_for, values)
    if search_for.text is None or not search_for.text.strip():
        hits, total = _list(connection, tenant_id, search_for, narrow, values)
        places: list[tuple[object, str]] = [*hits]
    else:
        before, resource_id = (0, "") if search_for.after is None else read_place(search_for.after, tuple[int, str])
        values["before"], values["id"] = max(before, 1), resource_id
        ranked, total = _rank(connection, tenant_id, search_for, narrow, values)
        hits = [("", resource_id) for resource_id in ranked]
        places = [(before + number, resource_id) for number, resource_id in enumerate(ranked, 1)]
    page = [resource_id for _, resource_id in hits[: search_for.limit]]
    goes_on = len(hits) > len(page) > 0
    return Hits(
        items=_items(connection, page, with_content=search_for.with_content),
        total=total,
        next=write_place(*places[len(page) - 1]) if goes_on else None,
    )


def _narrow(connection: Connection, search_for: Search, values: dict[str, Any]) -> str:
    """The SQL conditions of a search; their values are added to `values`."""
    conditions = (
        ("type", "r.type = :type", search_for.type),
        ("tag", "r.resource_key IN (SELECT resource_key FROM resource_words WHERE word = :tag)", search_for.tag),
        ("owner", "r.tenant_id = :owner", None if search_for.owner is None else tenant_of(connection, search_for.owner)),
        ("visibility", "r.visibility = :visibility", search_for.visibility),
        ("depends_on", _DEPENDS, search_for.depends_on),
    )
    return narrow(conditions, values)


def _list(
    connection: Connection, tenant_id: TenantId, search_for: Search, narrow: str, values: dict[str, Any]
) -> tuple[list[tuple[str, str]], int]:
    """Lists by name. Own resources and those of others come from an index each, already in order."""
    sides = {"own": (_OWN,), "public": (_OPEN,), "all": (_OWN, _OPEN)}[search_for.scope]
    beyond = ""
    if search_for.after is not None:
        values["name"], values["id"] = read_place(search_for.after, tuple[str, str])
        beyond = " AND (r.name, r.resource_id) > (:name, :id)"
    total = 0
    hits: list[Any] = []
    for side in sides:
        total += connection.fetch(f"SELECT count(*) FROM resources AS r WHERE {side}{narrow}", values)[0][0]
        page = f"WHERE {side}{narrow}{beyond} ORDER BY r.name, r.resource_id LIMIT :limit"
        hits += connection.fetch(f"SELECT r.name, r.resource_id FROM resources AS r {page}", values)
    return sorted(hits)[: search_for.limit + 1], total


def _rank(
    connection: Connection, tenant_id: TenantId, search_for: Search, narrow: str, values: dict[str, Any]
) -> tuple[list[str], int]:
    """The best first. The index contains the visibility; the rows are checked again, because they are authoritative."""
    pieces = pieces_of(search_for.text or "")
    if not pieces:
        return [], 0
    side = {"own": _OWN, "public": _OPEN, "all": f"({_OWN} OR {_OPEN})"}[search_for.scope]
    rows = connection.search.find_resources(pieces, scopes_of(tenant_id, search_for.scope), f"{side}{narrow}", values)
    return [resource_id for _, resource_id in rows if resource_id is not None], rows[0][0]


def _items(connection: Connection, page: list[str], *, with_content: bool) -> tuple[Hit, ...]:
    """The hits of the page that still exist, in its order."""
    named = (_encode(page).decode(),)
    contents: dict[str, bytes] = dict(connection.fetch(_CONTENTS, named)) if with_content else {}
    hits = {
        row[0]: Hit(resource=decode_resource(row[:-1]), uses=row[-1], content=contents.get(row[0]))
        for row in connection.fetch(_ITEMS, named)
    }
    return tuple(hits[key] for key in page if key in hits)
