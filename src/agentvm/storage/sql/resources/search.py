"""Search — finds resources by words, or lists them by name; one page at a time.

A page goes on where the one before ended, by value and not by number, so what is published meanwhile shifts nothing. With
words, where that was is looked up again: the weight of a hit depends on all others there are, but hardly its rank among them.
For the same reason a weight is shown to nobody: it would tell how many texts of other tenants have the word.
"""

import base64
import binascii
from typing import Annotated, Any

import msgspec

from agentvm.errors import InvalidInput
from agentvm.model.ids import TenantId
from agentvm.storage.resources import Hit, Hits, Search
from agentvm.storage.sql.connection import Connection
from agentvm.storage.sql.dialect import ORDERED_JOIN, items_of
from agentvm.storage.sql.resources.rows import RESOURCE_COLUMNS, RESOURCES, decode_resource, tenant_of
from agentvm.storage.sql.resources.words import WEIGHTS, query
from agentvm.storage.sql.search_index import AFTER_RESOURCE, RESOURCE_HITS, SKIP_RESOURCES

_by_name = msgspec.json.Decoder(tuple[str, str])
_by_rank = msgspec.json.Decoder(tuple[Annotated[int, msgspec.Meta(ge=1, le=2**53)], str])
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


def search(connection: Connection, tenant_id: TenantId, wanted: Search) -> Hits:
    """`InvalidInput` for an `after` that is no `next`. A text of spaces is none; one without any word finds nothing."""
    values: dict[str, Any] = {"asks": tenant_id, "limit": wanted.limit + 1}
    narrow = _narrow(connection, wanted, values)
    if wanted.text is None or not wanted.text.strip():
        found, total = _list(connection, tenant_id, wanted, narrow, values)
        places = [_encode(each) for each in found]
    else:
        before, resource_id = (0, "") if wanted.after is None else _place(wanted.after, _by_rank)
        values["before"], values["id"] = before, resource_id
        ranked, total = _rank(connection, tenant_id, wanted, narrow, values)
        found = [("", resource_id) for resource_id in ranked]
        places = [_encode((before + number, resource_id)) for number, resource_id in enumerate(ranked, 1)]
    page = [resource_id for _, resource_id in found[: wanted.limit]]
    goes_on = len(found) > len(page) > 0
    return Hits(
        items=_items(connection, page, with_content=wanted.with_content),
        total=total,
        next=base64.urlsafe_b64encode(places[len(page) - 1]).decode() if goes_on else None,
    )


def _narrow(connection: Connection, wanted: Search, values: dict[str, Any]) -> str:
    """The SQL conditions of a search; their values are added to `values`."""
    terms = []
    if wanted.type is not None:
        values["type"] = wanted.type
        terms.append("r.type = :type")
    if wanted.tag is not None:
        values["tag"] = wanted.tag
        terms.append("r.resource_key IN (SELECT resource_key FROM resource_words WHERE word = :tag)")
    if wanted.owner is not None:
        values["owner"] = tenant_of(connection, wanted.owner)
        terms.append("r.tenant_id = :owner")
    if wanted.visibility is not None:
        values["visibility"] = wanted.visibility
        terms.append("r.visibility = :visibility")
    if wanted.depends_on is not None:
        values["depends_on"] = wanted.depends_on
        terms.append(_DEPENDS)
    return "".join(f" AND {term}" for term in terms)


def _list(
    connection: Connection, tenant_id: TenantId, wanted: Search, narrow: str, values: dict[str, Any]
) -> tuple[list[tuple[str, str]], int]:
    """By name. Own ones and those of others come from an index each, already in order."""
    sides = {"own": (_OWN,), "public": (_OPEN,), "all": (_OWN, _OPEN)}[wanted.scope]
    beyond = ""
    if wanted.after is not None:
        values["name"], values["id"] = _place(wanted.after, _by_name)
        beyond = " AND (r.name, r.resource_id) > (:name, :id)"
    total = 0
    found: list[Any] = []
    for side in sides:
        total += connection.fetch(f"SELECT count(*) FROM resources AS r WHERE {side}{narrow}", values)[0][0]
        page = f"WHERE {side}{narrow}{beyond} ORDER BY r.name, r.resource_id LIMIT :limit"
        found += connection.fetch(f"SELECT r.name, r.resource_id FROM resources AS r {page}", values)
    return sorted(found)[: wanted.limit + 1], total


def _rank(
    connection: Connection, tenant_id: TenantId, wanted: Search, narrow: str, values: dict[str, Any]
) -> tuple[list[str], int]:
    """The best first. The index knows who may find what; the rows are asked again, because they decide."""
    values["query"] = query(wanted.text or "", tenant_id, wanted.scope)
    if values["query"] is None:
        return [], 0
    side = {"own": _OWN, "public": _OPEN, "all": f"({_OWN} OR {_OPEN})"}[wanted.scope]
    # Where the last one was; if it is gone, so many as came before it.
    beyond, skip = ("true", "0") if wanted.after is None else (AFTER_RESOURCE, SKIP_RESOURCES)
    query_text = RESOURCE_HITS.format(weights=WEIGHTS, where=f"{side}{narrow}", beyond=beyond, skip=skip)
    rows = connection.fetch(query_text, values)
    return [resource_id for _, resource_id in rows if resource_id is not None], rows[0][0]


def _items(connection: Connection, page: list[str], *, with_content: bool) -> tuple[Hit, ...]:
    """The hits of the page that still exist, in its order."""
    named = (_encode(page).decode(),)
    contents: dict[str, bytes] = dict(connection.fetch(_CONTENTS, named)) if with_content else {}
    found = {
        row[0]: Hit(resource=decode_resource(row[:-1]), uses=row[-1], content=contents.get(row[0]))
        for row in connection.fetch(_ITEMS, named)
    }
    return tuple(found[each] for each in page if each in found)


def _place(after: str, decoder: msgspec.json.Decoder[Any]) -> tuple[Any, str]:
    try:
        where, resource_id = decoder.decode(base64.b64decode(after.encode(), altchars=b"-_", validate=True))
    except (binascii.Error, msgspec.DecodeError, UnicodeError):
        raise InvalidInput(
            "This is no place where a search goes on: `cursor` is the `nextCursor` of the page before, as it was"
        ) from None
    return where, resource_id
