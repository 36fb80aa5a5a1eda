import pytest

from agentvm.storage.engines.postgres.connection import PostgresConnection
from agentvm.storage.engines.postgres.database import PostgresDatabase
from agentvm.storage.engines.postgres.search import OVERLAP_WORDS_MAX, PART_WORDS_MAX, PLACES_MAX, vectors


def test_a_vector_says_where_its_words_stand_and_what_they_weigh() -> None:
    assert list(vectors([(["a", "b", "a"], "")])) == ["'a':1,3 'b':2"]
    assert list(vectors([(["name"], "A"), (["it's", "name"], "D")])) == ["'name':1A,5D 'it''s':4D"]
    assert list(vectors([([], "A")])) == []


def test_a_long_text_has_parts_that_overlap() -> None:
    words = [f"w{number}" for number in range(2 * PART_WORDS_MAX)]
    first, second, third = vectors([(words, "")])
    assert f"'w{PART_WORDS_MAX - 1}':{PART_WORDS_MAX}" in first
    assert second.startswith(f"'w{PART_WORDS_MAX - OVERLAP_WORDS_MAX}':1 ")
    assert f"'w{2 * PART_WORDS_MAX - 1}'" in third


def test_a_word_that_is_everywhere_has_a_bounded_number_of_places() -> None:
    (vector,) = vectors([(["same"] * 1_000, "")])
    assert vector.count(",") == PLACES_MAX - 1


@pytest.mark.parametrize("word", ["it's", "back\\slash", "a:b", "x" * 5_000, "<->", "('"])
async def test_any_word_can_be_kept(database: PostgresDatabase, word: str) -> None:
    def work(connection: PostgresConnection) -> None:
        connection.search.add_messages([(1, word)])
        connection.search.drop_message(1)

    await database.write(work)
