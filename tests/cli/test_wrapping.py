import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentvm.cli.wrapping import Wrapper, width_of


def wrapped(text: str, width: int, *, hanging: str = "") -> list[str]:
    wrapper = Wrapper(lambda: width)
    wrapper.begin("", hanging)
    wrapper.put(text)
    wrapper.complete()
    return wrapper.take().split("\n")


@pytest.mark.parametrize(
    ("text", "columns"), [("abc", 3), ("中文", 4), ("e\u0301", 1), ("👨\u200d👩\u200d👧", 2), ("", 0), ("é", 1)]
)
def test_columns_are_those_of_a_terminal(text: str, columns: int) -> None:
    assert width_of(text) == columns


def test_words_stay_whole_and_lines_within_the_width() -> None:
    assert wrapped("the quick brown fox", 9) == ["the quick", "brown fox"]
    assert wrapped("don’t stop", 6) == ["don’t", "stop"]


def test_chinese_breaks_between_characters_but_no_line_begins_with_a_full_stop() -> None:
    assert wrapped("今天天气很好。", 8) == ["今天天气", "很好。"]
    assert wrapped("今天天气好。", 10) == ["今天天气", "好。"]
    assert wrapped("用Python写", 8) == ["用Python", "写"]
    assert wrapped("一二（三）", 6) == ["一二", "（三）"]


def test_later_lines_hang() -> None:
    assert wrapped("one two three", 9, hanging="  ") == ["one two", "  three"]


def test_a_hanging_indent_never_takes_more_than_half_of_the_line() -> None:
    assert wrapped("one two three", 9, hanging=" " * 8) == ["one two", "three"]


def test_a_word_longer_than_a_line_is_left_to_the_terminal() -> None:
    assert wrapped("see https://example.test/abc now", 10) == ["see", "https://example.test/abc now"]
    assert wrapped("https://example.test/abc nevermind", 10) == ["https://example.test/abc", "nevermind"]


def test_a_long_word_is_written_as_it_comes() -> None:
    wrapper = Wrapper(lambda: 10)
    wrapper.put("a" * 11)
    assert wrapper.take() == "a" * 11
    wrapper.put("a")
    assert wrapper.take() == "a"


def test_a_word_is_written_when_it_is_complete() -> None:
    wrapper = Wrapper(lambda: 10)
    wrapper.put("ab")
    assert wrapper.take() == ""
    assert not wrapper.at_line_start
    wrapper.put(" ")
    assert wrapper.take() == "ab"
    wrapper.new_line()
    assert wrapper.take() == "\n"
    assert wrapper.at_line_start


def test_neighbours_of_one_style_share_its_codes() -> None:
    wrapper = Wrapper(lambda: 20)
    wrapper.put("a ")
    wrapper.put("b c", "1")
    wrapper.put(" d")
    wrapper.complete()
    assert wrapper.take() == "a \x1b[1mb c\x1b[0m d"


def test_a_resized_window_counts_from_the_next_line_on() -> None:
    width = 20
    wrapper = Wrapper(lambda: width)
    wrapper.put("aaa ")
    width = 4
    wrapper.new_line()
    wrapper.put("bbb bbb ")
    assert wrapper.take() == "aaa\nbbb\nbbb"


@given(st.lists(st.sampled_from(["a", "abcd", "中文字", "好。", "（中）", "e\u0301e\u0301", "用Py写"])), st.integers(8, 20))
def test_nothing_is_lost_and_every_line_fits(words: list[str], width: int) -> None:
    lines = wrapped(" ".join(words), width)
    assert re.sub(r"\s", "", "".join(lines)) == "".join(words)
    assert all(width_of(line) <= width for line in lines)
