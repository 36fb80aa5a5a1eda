from time import process_time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentvm.knowledge.chunk import Chunk, chunks

TEXT = """# Tea

Green tea is brewed at 80 degrees. Black tea at 95.

## Prices

A pot costs 4 euros.

```
# no heading
```

# 退货

七天之内可以退货。超过七天不能退货！
"""


def cut(text: str, size: int = 800, overlap: int = 0) -> list[tuple[str, str | None]]:
    return [(text[one.start : one.end], one.heading) for one in chunks(text, size, overlap)]


def test_a_text_is_cut_along_its_headings_which_each_passage_keeps() -> None:
    (tea, under), (prices, below), (returns, chinese) = cut(TEXT)
    assert tea.startswith("# Tea\n\nGreen")
    assert (under, below, chinese) == ("Tea", "Tea › Prices", "退货")
    assert "# no heading" in prices
    assert returns.endswith("不能退货！")


def test_long_sections_are_cut_at_sentences_chinese_ones_too_and_overlap() -> None:
    text = "这是第一句话，说明退货的规定。" * 20
    parts = cut(text, 100, 30)
    assert all(len(part) <= 100 and part.endswith("。") for part, _ in parts)
    english = "One sentence of some words here. " * 40
    parts = cut(english, 100, 20)
    assert all(len(part) <= 100 and part.endswith(".") for part, _ in parts)
    assert len(parts) > 10


@given(
    st.text(st.sampled_from("ab 。！.\n#茶`"), max_size=400),
    st.integers(1, 60),
    st.integers(0, 59),
)
def test_every_passage_fits_and_no_word_is_lost(text: str, size: int, overlap: int) -> None:
    made = list(chunks(text, size, min(overlap, size - 1)))
    covered = set[int]()
    for one in made:
        assert isinstance(one, Chunk)
        assert 0 <= one.start < one.end <= len(text)
        assert one.end - one.start <= size
        covered.update(range(one.start, one.end))
    assert all(letter.isspace() for place, letter in enumerate(text) if place not in covered)


def test_texts_of_nothing_have_no_passages() -> None:
    assert cut("") == cut(" \n\n ") == []
    assert cut("# Only a heading") == [("# Only a heading", "Only a heading")]


@pytest.mark.parametrize(
    "text",
    [
        "```a\n" * 60_000,
        "# a" + " " * 300_000 + "b",
        "." * 300_000,
        "```\n# a\n```\n" * 30_000,
        f"# {'a' * 300_000}\n" + "## b\nc\n" * 3_000,
    ],
    ids=["blocks that never end", "spaces in a heading", "dots", "headings in blocks", "a long heading"],
)
def test_the_time_of_cutting_grows_with_the_text_and_not_faster(text: str) -> None:
    begun = process_time()
    assert sum(1 for _ in chunks(text, 100_000, 50_000))
    assert process_time() - begun < 5, "in proportion it is a fraction of a second, and otherwise minutes"
