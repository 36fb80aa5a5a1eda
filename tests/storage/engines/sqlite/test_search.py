from agentvm.storage.engines.sqlite.connection import SqliteConnection
from agentvm.storage.engines.sqlite.database import SqliteDatabase
from agentvm.storage.engines.sqlite.search import match_messages, match_resources
from agentvm.storage.sql.search_index import IndexName, SearchPiece

PIECES = (SearchPiece(("deploy",), True), SearchPiece(("上", "海"), False))


def test_a_question_names_the_containers_it_is_about_in_every_word() -> None:
    assert match_messages(PIECES, ["k1", "k2"]) == '("k1deploy" * OR "k2deploy" *) AND ("k1上 k1海" OR "k2上 k2海")'


def test_a_question_about_resources_names_who_may_find_them() -> None:
    asked = match_resources(PIECES, ["mine", "public"])
    assert asked == '{scope} : ("mine" OR "public") AND {name tags description text} : ("deploy" * AND "上 海")'


async def test_words_are_found_until_they_are_dropped_and_the_index_is_merged(database: SqliteDatabase) -> None:
    def count(connection: SqliteConnection, index: str, word: str) -> int:
        return int(connection.fetch(f"SELECT count(*) FROM {index} WHERE {index} MATCH ?", (word,))[0][0])

    def work(connection: SqliteConnection) -> list[int]:
        counts = []
        search = connection.search
        search.add_messages([(7, "heron bittern")])
        search.put_resource(3, ("scope", "name", "tag", "description", "heron"))
        counts.append(count(connection, "message_fts", "heron"))
        counts.append(count(connection, "resource_fts", "heron"))
        search.put_resource(3, ("scope", "name", "tag", "description", "bittern"))
        counts.append(count(connection, "resource_fts", "heron"))
        search.drop_message(7)
        search.put_resource(3, None)
        counts.append(count(connection, "message_fts", "heron"))
        counts.append(count(connection, "resource_fts", "bittern"))
        return counts

    assert await database.write(work) == [1, 1, 0, 0, 0]
    indexes: tuple[IndexName, ...] = ("messages", "resources")
    for index in indexes:
        pages = -16
        while await database.write(lambda connection, index=index, pages=pages: connection.search.merge(index, pages)):  # type: ignore[misc]
            pages = 16
