from agentvm.storage.engines.sqlite.database import SqliteDatabase
from agentvm.storage.sql.connection import Connection, snapshot, storable


def test_arguments_without_a_nul_are_passed_on_as_they_are() -> None:
    args = ("a", 1, None, b"\0")
    assert storable(args) is args


def test_a_nul_in_a_text_becomes_the_replacement_character() -> None:
    assert storable(("a\0b", b"\0", 1)) == ("a\ufffdb", b"\0", 1)
    assert storable({"title": "\0", "at": 2}) == {"title": "\ufffd", "at": 2}


async def test_the_queries_of_a_snapshot_see_one_state(database: SqliteDatabase) -> None:
    def look(connection: Connection) -> list[int]:
        with snapshot(connection):
            return [connection.fetch("SELECT count(*) FROM containers")[0][0] for _ in range(2)]

    assert await database.read(look) == [0, 0]
