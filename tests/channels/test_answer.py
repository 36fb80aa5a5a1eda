from hypothesis import given, settings
from hypothesis import strategies as st

from agentvm.channels.answer import Answer, split
from agentvm.gateways.turn_parts import CallMade, TextAdded, TurnEnded
from agentvm.gateways.words import EN


def size(text: str) -> int:
    return len(text.encode())


def test_words_of_two_messages_are_apart_and_an_end_is_told() -> None:
    answer = Answer(EN)
    for part in (TextAdded("Let me "), TextAdded("see."), CallMade("c", "t", {}), TextAdded("Done.")):
        answer.add(part)
    assert (answer.text, answer.is_open()) == ("Let me see.\n\nDone.", True)
    answer.add(TurnEnded("failed", "error", error=("timeout", "Too slow")))
    assert answer.text == "Let me see.\n\nDone.\n\nThe answer failed: Too slow (timeout)"
    silent = Answer(EN)
    silent.add(TurnEnded("completed", "end_turn"))
    assert silent.text == EN.nothing
    lost = Answer(EN)
    lost.finish()
    assert (lost.text, lost.is_open()) == (EN.nothing, False)


def test_a_block_of_code_that_is_cut_is_closed_and_opened_again() -> None:
    pieces = split("intro\n```\n" + "line\n" * 20 + "```\nend", 60, len)
    assert len(pieces) > 2
    assert all(piece.count("```") % 2 == 0 and len(piece) <= 60 for piece in pieces)


@settings(max_examples=30)
@given(st.text(st.sampled_from("ab \n😀好`"), max_size=300), st.text(st.sampled_from("ab \n"), max_size=100))
def test_pieces_fit_and_those_before_the_last_stay_when_the_text_grows(text: str, more: str) -> None:
    pieces, later = split(text, 40, size), split(text + more, 40, size)
    assert all(size(piece) <= 40 for piece in pieces)
    assert later[: len(pieces) - 1] == pieces[:-1]
    assert "".join("".join(pieces).replace("```", "").split()) == "".join(text.replace("```", "").split())
