"""Whether a search stays quick among many; what it finds is in the conformance suite."""

from itertools import product

import anyio
import apsw
from tests.conformance.resources import found, publication, put, resource_id
from tests.conformance.store import ACME, RIVAL

from agentvm.storage.engines.sqlite.connection import SqliteConnection
from agentvm.storage.engines.sqlite.database import SqliteDatabase, Work
from agentvm.storage.resources import Search
from agentvm.storage.sql.store import Store

MANY = 3000


def fill(connection: SqliteConnection) -> None:
    """Many resources of many tenants, a third of them public, without taking the time to publish each."""
    connection.execute(
        """
        INSERT INTO resources (resource_id, tenant_id, type, name, visibility, tags, created_at, updated_at)
        WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?)
        SELECT 'res' || i, 't' || i % 10, 'prompts', 'name-' || i, iif(i % 3, 'private', 'public'), x'5b5d', 1, 1 FROM n
        """,
        (MANY,),
    )
    connection.execute("INSERT INTO resource_blobs (digest, body) VALUES ('d', x'00') ON CONFLICT DO NOTHING")
    connection.execute(
        """
        INSERT INTO resource_versions (version_id, resource_key, version, rank, digest, content, size, words, is_open,
                                       created_by, created_at)
        SELECT 'v' || resource_key, resource_key, '1.0.0', '1.0.0', 'x', 'd', 1, 'pear', 1, 'u', 1
        FROM resources WHERE resource_id LIKE 'res%' AND resource_id NOT LIKE 'res %'
        """
    )
    connection.execute(
        "UPDATE resources SET latest_key = (SELECT version_key FROM resource_versions AS v "
        "WHERE v.resource_key = resources.resource_key)"
    )


def steps_of(statements: set[str]) -> Work[list[tuple[str, str]]]:
    def work(connection: SqliteConnection) -> list[tuple[str, str]]:
        connection.raw.exec_trace = None
        found = []
        for sql in statements:
            names = dict.fromkeys(("asks", "limit", "type", "tag", "owner", "visibility", "depends_on", "name", "id"))
            values = {**names, "match": None, "weight": None} if ":" in sql else (None,)
            found += [(sql, detail) for *_, detail in connection.fetch(f"EXPLAIN QUERY PLAN {sql}", values)]
        return found

    return work


async def trace(database: SqliteDatabase, store: Store, searches: list[Search]) -> list[tuple[str, str]]:
    statements: set[str] = set()

    def note(cursor: apsw.Cursor, sql: str, bindings: object) -> bool:
        statements.add(sql)
        return True

    def listen(connection: SqliteConnection) -> None:
        connection.raw.exec_trace = note

    # The readers are two, and each must listen.
    async with anyio.create_task_group() as tasks:
        for _ in range(8):
            tasks.start_soon(database.read, listen)
    for search in searches:
        await store.resources(ACME).search(search)
    return await database.write(steps_of(statements))


async def test_no_search_looks_at_every_resource(database: SqliteDatabase, store: Store) -> None:
    with anyio.fail_after(60):
        await put(store, *(publication(f"own-{number}", text="pear", tags=("t",)) for number in range(3)))
        await put(store, publication("theirs", of=RIVAL, visibility="public", text="pear"), tenant=RIVAL)
        await database.write(fill)
        narrowed: list[dict[str, object]] = [
            {},
            {"type": "prompts"},
            {"tag": "t"},
            {"owner": "rival"},
            {"visibility": "public"},
            {"depends_on": resource_id("own-1")},
        ]
        scopes: list[dict[str, object]] = [{"scope": scope} for scope in ("own", "public", "all")]
        texts: list[dict[str, object]] = [{}, {"text": "pear"}]
        searches = [Search(**one, **two, **three) for one, two, three in product(narrowed, scopes, texts)]  # type: ignore[arg-type]
        after = (await store.resources(ACME).search(Search(limit=1))).next
        plans = await trace(database, store, [*searches, Search(after=after), Search(after=after, type="prompts")])
    assert len(plans) > 20
    # A page is at most a hundred values, an index of words is asked for words, and what was found may be read again.
    small = (
        "json_each",
        "resource_fts VIRTUAL TABLE",
        "hits",
        "(subquery",
        "SCAN CONSTANT ROW",
        "SCAN t",
        "SCAN counted",
        "SCAN page",
    )
    assert [(sql, step) for sql, step in plans if step.startswith("SCAN") and not any(name in step for name in small)] == []


async def test_a_page_of_a_list_is_not_sorted(database: SqliteDatabase, store: Store) -> None:
    with anyio.fail_after(60):
        await database.write(fill)
        plans = await trace(database, store, [Search(), Search(type="prompts"), Search(scope="own"), Search(scope="public")])
    assert [(sql, step) for sql, step in plans if "TEMP B-TREE FOR ORDER BY" in step] == []


async def test_what_others_keep_to_themselves_is_not_looked_at(database: SqliteDatabase, store: Store) -> None:
    """The index itself knows who may find what; otherwise a search would take as long as all tenants have hits."""
    with anyio.fail_after(60):
        for number in range(20):
            await put(store, publication(f"kept-{number}", of=RIVAL, text="pear"), tenant=RIVAL)
        await put(store, publication("mine", text="pear"))
        assert await found(store, text="pear") == ["mine"]

        def matches(connection: SqliteConnection) -> object:
            return connection.fetch("SELECT count(*) FROM resource_fts WHERE resource_fts MATCH 'pear'")[0][0]

        assert await database.read(matches) == 21
