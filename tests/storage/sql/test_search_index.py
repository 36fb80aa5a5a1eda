from agentvm.storage.sql.search_index import SearchPiece


def test_the_words_of_a_piece_stand_beside_each_other() -> None:
    piece = SearchPiece(("it", "rains"), open_ended=False)
    assert piece.matches(["and", "it", "rains"], 1)
    assert not piece.matches(["it", "never", "rains"], 0)
    assert not piece.matches(["it"], 0)
    assert not piece.matches(["it", "rainstorms"], 0)


def test_the_last_word_of_an_open_piece_may_go_on() -> None:
    piece = SearchPiece(("it", "rain"), open_ended=True)
    assert piece.matches(["it", "rains"], 0)
    assert not piece.matches(["its", "rains"], 0)
