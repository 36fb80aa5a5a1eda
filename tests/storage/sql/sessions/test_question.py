from agentvm.storage.sql.search_index import SearchPiece
from agentvm.storage.sql.sessions.question import PIECES_MAX, pieces_of


def test_what_is_typed_is_cut_into_pieces_that_stand_together() -> None:
    assert pieces_of("Deploy 上海天气 it's") == (
        SearchPiece(("deploy",), True),
        SearchPiece(("上", "海", "天", "气"), False),
        SearchPiece(("it", "s"), False),
    )
    assert pieces_of(" !? ") == ()
    assert len(pieces_of("same " * 100)) == 1
    assert len(pieces_of(" ".join(f"w{number}" for number in range(100)))) == PIECES_MAX


def test_only_a_word_of_some_length_may_go_on() -> None:
    deploy, of = pieces_of("deploy of")
    assert deploy.matches(["we", "deployed"], 1)
    assert not deploy.matches(["we", "deplo"], 1)
    assert not of.matches(["offer"], 0)
    assert of.matches(["of"], 0)
    assert not pieces_of("上海")[0].matches(["上"], 0)
