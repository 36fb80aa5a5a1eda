from agentvm.storage.engines.sqlite.connection import SqliteConnection
from agentvm.storage.engines.sqlite.database import SqliteDatabase
from agentvm.storage.sql import search_index


async def test_words_are_found_until_they_are_dropped_and_the_index_is_merged(database: SqliteDatabase) -> None:
    def count(connection: SqliteConnection, index: str, word: str) -> int:
        return int(connection.fetch(f"SELECT count(*) FROM {index} WHERE {index} MATCH ?", (word,))[0][0])

    def work(connection: SqliteConnection) -> list[int]:
        counts = []
        search_index.add_messages(connection, [(7, "heron bittern")])
        search_index.put_resource(connection, 3, ("scope", "name", "tag", "description", "heron"))
        counts.append(count(connection, search_index.MESSAGES, "heron"))
        counts.append(count(connection, search_index.RESOURCES, "heron"))
        search_index.put_resource(connection, 3, ("scope", "name", "tag", "description", "bittern"))
        counts.append(count(connection, search_index.RESOURCES, "heron"))
        search_index.drop_message(connection, 7)
        search_index.put_resource(connection, 3, None)
        counts.append(count(connection, search_index.MESSAGES, "heron"))
        counts.append(count(connection, search_index.RESOURCES, "bittern"))
        return counts

    assert await database.write(work) == [1, 1, 0, 0, 0]
    for index in (search_index.MESSAGES, search_index.RESOURCES):
        pages = -16
        while await database.write(lambda connection, index=index, pages=pages: search_index.merge(connection, index, pages)):  # type: ignore[misc]
            pages = 16
