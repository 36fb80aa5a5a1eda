import re
from collections.abc import Sequence
from html import unescape

from hypothesis import given
from hypothesis import strategies as st

from agentvm.storage.sql.search_index import SearchPiece
from agentvm.storage.sql.sessions.question import pieces_of
from agentvm.storage.sql.sessions.snippet import CUT_CHARACTERS, SHOWN_CHARACTERS, snippet, spans


def test_what_was_asked_for_is_marked() -> None:
    assert snippet("We deployed it.", pieces_of("deploy")) == "We <mark>deployed</mark> it."
    assert snippet("今天上海天气好", pieces_of("上海 天气")) == "今天<mark>上海天气</mark>好"
    assert snippet("a Café – CAFE", pieces_of("cafe")) == "a <mark>Café</mark> – <mark>CAFE</mark>"


def test_a_long_text_is_shown_where_most_of_the_question_is() -> None:
    text = f"one {'x ' * 300}one two three {'y ' * 300}"
    shown = snippet(text, pieces_of("one two three"))
    assert shown.startswith("… ")
    assert shown.endswith(" …")
    assert "<mark>one</mark> <mark>two</mark> <mark>three</mark>" in shown
    assert len(re.sub("</?mark>", "", shown)) <= SHOWN_CHARACTERS + 4


def test_of_a_very_long_text_only_a_part_is_cut_into_words() -> None:
    text = f"{'a word and another ' * 4_000}the heron eats fish {'and so on ' * 1_000}"
    shown = snippet(text, pieces_of("heron fish"))
    assert "the <mark>heron</mark> eats <mark>fish</mark> and so on" in shown
    assert (shown[:2], shown[-2:]) == ("… ", " …")
    looked_at: list[int] = []

    class Counting(SearchPiece):
        def matches(self, said: Sequence[str], start: int) -> bool:
            looked_at.append(start)
            return False

    snippet(text, [Counting(("heron",), open_ended=True)])
    assert len(looked_at) < CUT_CHARACTERS


def test_a_long_text_without_those_very_letters_is_shown_from_its_beginning() -> None:
    text = f"Café {'x ' * CUT_CHARACTERS} Café"
    assert snippet(text, pieces_of("cafe")).startswith("<mark>Café</mark> x x")
    assert snippet(f"{'x ' * CUT_CHARACTERS} Café", pieces_of("cafe")).startswith("x x")


def test_nothing_of_the_text_is_obeyed_by_a_browser() -> None:
    shown = snippet('<mark onclick="x">&amp; needle\n\x1b[31m</mark>', pieces_of("needle"))
    assert shown == "&lt;mark onclick=&quot;x&quot;&gt;&amp;amp; <mark>needle</mark>  [31m&lt;/mark&gt;"


@given(st.text(), st.text(max_size=20))
def test_whatever_the_text_only_the_marks_are_markup(text: str, asked: str) -> None:
    shown = snippet(text, pieces_of(asked))
    inside = re.sub("</?mark>", "", shown)
    assert "<" not in inside
    assert shown.count("<mark>") == shown.count("</mark>")
    plain = "".join(character if character.isprintable() else " " for character in text)
    assert unescape(inside).strip("… ") in plain
    assert all(start < end <= len(text) for start, end in spans(text, pieces_of(asked)))
