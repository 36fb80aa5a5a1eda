from collections.abc import Sequence

from bench.knowledge_questions import PASSAGES, QUESTIONS
from tests.conformance.knowledge import published
from tests.conformance.store import ACME

from agentvm.knowledge.parse import ParsedDocument, ParsedPage
from agentvm.knowledge.passages import IndexForm, cut
from agentvm.knowledge.question import PIECES_MAX, characters_of, pieces_of
from agentvm.storage.engine import open_store
from agentvm.storage.sql.search_index import SearchPiece


def shown(pieces: Sequence[SearchPiece]) -> list[tuple[str, ...]]:
    return [piece.words for piece in pieces]


def words(question: str) -> list[tuple[str, ...]]:
    return shown(pieces_of(question))


def test_words_count_but_not_those_of_every_text() -> None:
    assert words("What is the Refund policy?") == [("refund",), ("polici",)]
    assert words("what is the") == [("what",), ("is",), ("the",)], "nothing else is left"
    assert words("") == []


def test_chinese_is_looked_for_in_pairs_and_wide_letters_as_plain_ones() -> None:
    assert words("退货政策") == [("退", "货"), ("货", "政"), ("政", "策")]
    assert words("茶") == [("茶",)]
    assert words("ＶＩＰ 退货") == [("vip",), ("退", "货")]
    assert len(words(" ".join(f"w{number}" for number in range(500)))) == PIECES_MAX


def test_an_english_word_is_looked_for_in_every_form() -> None:
    assert words("Returning, returned, RETURNS") == [("return",)]


def test_single_characters_are_left_for_when_nothing_else_is_found() -> None:
    assert shown(characters_of("茶贵吗, please?")) == [("茶",), ("贵",)]
    assert characters_of("tea") == ()


async def test_questions_of_people_find_the_passage_that_answers_them() -> None:
    chunks = [one for name, text in PASSAGES for one in cut(name, None, ParsedDocument((ParsedPage(None, text),)), IndexForm())]
    async with open_store(None) as store:
        _, version = await published(store, "set")
        built = await store.knowledge(ACME).build(version, str(IndexForm()), chunks, (), 1)
        assert built is not None
        for questions in QUESTIONS.values():
            first = 0
            for question, name in questions:
                found = [passage.document for _, passage in await store.knowledge(ACME).search(built, pieces_of(question), 3)]
                assert name in found, question
                first += found[0] == name
            # PostgreSQL's rank knows nothing of how rare a word is.
            assert first >= len(questions) - 2
