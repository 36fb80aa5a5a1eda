import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentvm.cli.markdown import Markdown

PIECES = st.lists(
    st.sampled_from(
        ["# ", "**", "*", "_", "`", "```", "```py\n", "~~~\n", "- ", "1. ", "> ", "[a](b)", "[", "](", ")", "---", "|", "\n",
         "\n\n", " ", "\t", "word", "中文", "。", "\\", "e\u0301", "x" * 30]
    ),
    max_size=40,
)  # fmt: skip


def rendered(text: str, *, width: int = 30, styled: bool = True) -> str:
    markdown = Markdown(lambda: width, styled=styled)
    return markdown.feed(text) + markdown.finish()


def visible(text: str) -> str:
    return re.sub(r"\x1b\[[\d;]*m", "", text)


@pytest.mark.parametrize(
    ("text", "looks"),
    [
        ("# Title\ntext", "\x1b[1mTitle\x1b[0m\ntext"),
        ("#hashtag", "#hashtag"),
        ("- one\n* two\n+ three", "• one\n• two\n• three"),
        ("-5 degrees", "-5 degrees"),
        ("1. one\n2) two", "1. one\n2) two"),
        ("2024 was", "2024 was"),
        ("a\n---\nb", f"a\n\x1b[2m{'─' * 30}\x1b[0m\nb"),
        ("--", "--"),
        ("**bold** start", "\x1b[1mbold\x1b[0m start"),
        ("* **bold** item", "• \x1b[1mbold\x1b[0m item"),
        ("> said\n> - so", "\x1b[2m│ \x1b[0msaid\n\x1b[2m│ \x1b[0m• so"),
        ("```sh\nls  *.py\n```\nend", "\x1b[2m```sh\x1b[0m\n\x1b[36mls  *.py\x1b[0m\n\x1b[2m```\x1b[0m\nend"),
        ("~~~\n```\n~~~", "\x1b[2m~~~\x1b[0m\n\x1b[36m```\x1b[0m\n\x1b[2m~~~\x1b[0m"),
        ("```not a fence``` text", "\x1b[36mnot a fence\x1b[0m text"),
        ("| **a** | b |\n|---|---|", "| **a** | b |\n|---|---|"),
        ("", ""),
        ("\n\n", "\n\n"),
    ],
)
def test_blocks_look_like_what_they_are(text: str, looks: str) -> None:
    assert rendered(text) == looks


def test_code_is_verbatim_and_not_wrapped() -> None:
    code = "\tif **a** and some_name_that_is_long == other_name:  # as it was"
    assert visible(rendered(f"```\n{code}\n```")) == f"```\n{code}\n```"


def test_items_and_quotes_wrap_below_their_text() -> None:
    assert rendered("- one two three four", width=12) == "• one two\n  three four"
    assert rendered("10. one two three", width=12) == "10. one two\n    three"
    assert visible(rendered("> one two three", width=10)) == "│ one two\n│ three"
    assert rendered("  - one two three", width=12) == "  • one two\n    three"


def test_without_styles_the_markup_within_lines_stays() -> None:
    text = "# Title\n**bold** `code` [a](b) \\*"
    assert rendered(text, styled=False) == text


def test_an_answer_that_ends_within_code_leaves_the_next_one_alone() -> None:
    markdown = Markdown(lambda: 30, styled=True)
    assert visible(markdown.feed("```\ncode") + markdown.finish()) == "```\ncode"
    assert markdown.feed("**b** ") + markdown.finish() == "\x1b[1mb\x1b[0m"


@pytest.mark.parametrize(("text", "whole"), [("", True), ("*", False), ("a", False), ("*a*\n", True), ("a\n\n", True)])
def test_it_knows_whether_a_line_has_begun(text: str, whole: bool) -> None:
    markdown = Markdown(lambda: 30, styled=True)
    markdown.feed(text)
    assert markdown.at_line_start is whole


def test_after_the_end_of_a_text_the_next_one_has_the_whole_width() -> None:
    markdown = Markdown(lambda: 12, styled=True)
    assert markdown.feed("one two") + markdown.finish() == "one two"
    assert markdown.feed("three four") + markdown.finish() == "three four"


def test_a_word_is_shown_before_its_line_ends() -> None:
    markdown = Markdown(lambda: 30, styled=True)
    assert markdown.feed("Hello wor") == "Hello"
    assert markdown.feed("ld, ") == " world,"


@given(PIECES, st.lists(st.integers(1, 7), min_size=1, max_size=20), st.booleans(), st.integers(5, 40))
def test_the_cutting_into_deltas_does_not_show(pieces: list[str], cuts: list[int], styled: bool, width: int) -> None:
    text = "".join(pieces)
    markdown = Markdown(lambda: width, styled=styled)
    shown, start, turn = "", 0, 0
    while start < len(text):
        end = start + cuts[turn % len(cuts)]
        shown += markdown.feed(text[start:end])
        start, turn = end, turn + 1
    assert visible(shown + markdown.finish()) == visible(rendered(text, width=width, styled=styled))


@given(PIECES)
def test_without_styles_no_word_is_lost(pieces: list[str]) -> None:
    words = re.findall(r"word|中文", "".join(pieces))
    assert re.findall(r"word|中文", re.sub(r"\s", "", rendered("".join(pieces), styled=False, width=200))) == words
