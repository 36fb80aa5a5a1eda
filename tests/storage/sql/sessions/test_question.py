from agentvm.storage.sql.sessions.question import PIECES_MAX, SearchPiece, match_of, pieces_of


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


def test_a_question_names_the_containers_it_is_about_in_every_word() -> None:
    assert match_of(pieces_of("deploy 上海"), ["k1", "k2"]) == '("k1deploy" * OR "k2deploy" *) AND ("k1上 k1海" OR "k2上 k2海")'
