from agentvm.storage.engines.sqlite.connection import SqliteConnection
from agentvm.storage.engines.sqlite.database import open_database
from agentvm.storage.sql.knowledge import _CHUNKS, _VECTORS


async def test_the_passages_that_were_found_are_read_by_their_keys_and_no_others() -> None:
    def plans(connection: SqliteConnection) -> list[str]:
        queries = ((_CHUNKS, 4), (_VECTORS, 5))
        return [row[-1] for query, count in queries for row in connection.fetch(f"EXPLAIN QUERY PLAN {query}", (None,) * count)]

    async with open_database(None) as database:
        reading = [step for step in await database.read(plans) if " c " in step]
    assert reading == ["SEARCH c USING INTEGER PRIMARY KEY (rowid=?)"] * 2
