from agentvm.knowledge.question import PIECES_MAX, pieces_of


def words(question: str) -> list[tuple[str, ...]]:
    return [piece.words for piece in pieces_of(question)]


def test_words_count_but_not_those_of_every_text() -> None:
    assert words("What is the Refund policy?") == [("refund",), ("policy",)]
    assert words("what is the") == [("what",), ("is",), ("the",)], "nothing else is left"
    assert words("") == []


def test_chinese_is_looked_for_in_pairs_and_wide_letters_as_plain_ones() -> None:
    assert words("退货政策") == [("退", "货"), ("货", "政"), ("政", "策")]
    assert words("茶") == [("茶",)]
    assert words("ＶＩＰ 退货") == [("vip",), ("退", "货")]
    assert len(words(" ".join(f"w{number}" for number in range(500)))) == PIECES_MAX
