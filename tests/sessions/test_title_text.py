import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentvm.cli.table import width
from agentvm.sessions.title_text import TITLE_MAX_COLUMNS, first_words, tidy


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("hi", "hi"),
        ("Fix the bug. Then deploy.", "Fix the bug. Then deploy"),
        ("Hello there, can you help me deploy my application?", "Hello there, can you help me deploy my…"),
        ("你好！我想问一下，怎么部署？谢谢", "你好！我想问一下，怎么部署？"),
        ("请帮我写一份关于上海天气的报告，包括温度和湿度，还有预报", "请帮我写一份关于上海天气的报告，包括温度和湿度…"),
        ("# Title\n```py\nx = 1\n```\nfix **this**", "Title fix this"),
        (" \n !? ", None),
        ("", None),
    ],
)
def test_a_title_is_the_first_words_cut_sensibly(text: str, title: str | None) -> None:
    assert first_words(text) == title


@given(st.text())
def test_whatever_is_said_a_title_is_one_short_line(text: str) -> None:
    title = first_words(text)
    assert title is None or (width(title) <= TITLE_MAX_COLUMNS + 2 and title.isprintable() and title.strip())


def test_what_a_model_says_is_tidied() -> None:
    assert tidy('Title: "Weather in Shanghai."\nBecause …') == "Weather in Shanghai"
    assert tidy("《上海天气》") == "上海天气"
    assert tidy(" \n") is None
