import pytest

from agentvm.storage.sql.sessions.plain_text import plain_text


@pytest.mark.parametrize(
    ("markdown", "words"),
    [
        ("## A **bold** and *soft* word", "A bold and soft word"),
        ("Use `snake_case_name` and 2*3*4", "Use snake_case_name and 2*3*4"),
        ("- [x] done\n* next\n> quoted", "done next quoted"),
        ("See [the page](https://x.example/a) and ![a cat](y.png)", "See the page and a cat"),
        ("```python\nprint(1)\n```\nafter", "print(1) after"),
        ("| a | b |\n|---|---|\n| 1 | 2 |", "a b 1 2"),
        ("a | b", "a | b"),
        ("\\*not bold\\*", "*not bold*"),
        ("会话的**每个事件**都有 `游标`", "会话的每个事件都有 游标"),
    ],
)
def test_the_marks_go_and_the_words_stay(markdown: str, words: str) -> None:
    assert " ".join(plain_text(markdown).split()) == words
