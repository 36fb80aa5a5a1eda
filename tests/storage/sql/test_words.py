import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.examples import examples

from agentvm.storage.sql.words import INDEXED_CHARACTERS, WORD_CHARACTERS, places, terms, terms_by_unicode, words


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ""),
        ("  !? \n", ""),
        ("Hello, World", "hello world"),
        ("CAFÉ Straße", "cafe strasse"),
        ("read_file docs.intro", "read file docs intro"),
        ("北京烤鸭", "北 京 烤 鸭"),
        ("it’s", "it's"),
        ("a\ud800b \x00", "a b"),
    ],
)
def test_a_text_is_cut_into_words(text: str, expected: str) -> None:
    assert words(text) == expected


def test_a_long_text_is_searched_by_its_beginning() -> None:
    text = "a " * INDEXED_CHARACTERS
    assert len(words(text)) <= INDEXED_CHARACTERS


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        ("Don't stop", ["don", "t", "stop"]),
        ("用Python写代码", ["用", "python", "写", "代", "码"]),
        ("ＡＢＣ １２", ["abc", "12"]),
        ("x" * 200, ["x" * WORD_CHARACTERS]),
    ],
)
def test_a_term_is_cut_no_further_by_the_index(text: str, expected: list[str]) -> None:
    assert terms(text) == expected


def test_words_are_found_again_where_they_stand_in_the_text() -> None:
    text = "İstanbul: 上海_Weather, don’t"
    assert [text[start:end] for start, end, _ in places(text)] == ["İstanbul", "上", "海", "Weather", "don’t"]
    assert [found for _, _, found in places(text)][-1] == ["don", "t"]


TEXTS = st.one_of(
    st.text(max_size=40),
    st.text(st.characters(max_codepoint=127), max_size=40),
    # What the quick way is for, and all that could trip it.
    st.text("aZ09 _.,:;'’-\n\t天气。，；：、！“”（）é́️‍ー아ا３：Ａ", max_size=30),
    st.text("a1，；：.天 ", max_size=12),
)


@settings(max_examples=examples(100, 50_000))
@given(TEXTS)
def test_the_quick_way_cuts_as_unicode_does(text: str) -> None:
    assert terms(text) == [term[:WORD_CHARACTERS] for term in terms_by_unicode(text)]
