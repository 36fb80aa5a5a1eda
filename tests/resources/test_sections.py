import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentvm.resources.sections import section, slug

TEXT = """# Sales
Intro

## Tone of voice!
Be kind.

### Detail
More.

## 语气 与 风格
简洁。

```md
## Not a heading
```

## Tone of voice!
Again.

# C#
Sharp
"""


@pytest.mark.parametrize(
    ("heading", "expected"),
    [
        ("Tone of voice!", "tone-of-voice"),
        ("  A  b ", "a--b"),
        ("语气 与 风格", "语气-与-风格"),
        ("snake_case-and.dots", "snake_case-anddots"),
        ("Straße & Ünïcode", "straße--ünïcode"),
    ],
)
def test_slugs_are_made_as_on_github(heading: str, expected: str) -> None:
    assert slug(heading) == expected


def test_a_section_goes_through_the_next_heading_that_is_not_below_it() -> None:
    assert section(TEXT, "tone-of-voice") == "Be kind.\n\n### Detail\nMore."
    assert section(TEXT, "detail") == "More."
    assert section(TEXT, "c") == "Sharp"


def test_chinese_headings_and_fenced_code_are_understood() -> None:
    assert section(TEXT, "语气-与-风格") == "简洁。\n\n```md\n## Not a heading\n```"
    assert section(TEXT, "not-a-heading") is None


def test_the_second_of_the_same_name_has_a_number() -> None:
    assert section(TEXT, "tone-of-voice-1") == "Again."


def test_letters_may_be_large_and_closing_marks_are_not_part_of_a_heading() -> None:
    assert section("## Hello ##\nx", "HELLO") == "x"
    assert section("#nothing\nx", "nothing") is None
    assert section("#\nx", "") == "x"
    assert section("# A\r\nx\r\n# B\r\ny", "a") == "x"


@given(st.text(alphabet="# \t\n`~ab-语", max_size=60), st.text(max_size=5))
def test_any_text_has_a_section_or_has_none(text: str, wanted: str) -> None:
    found = section(text, wanted)
    assert found is None or found in text


def test_lines_of_any_length_take_linear_time() -> None:
    begin = time.process_time()
    section("# " + " " * 500_000 + "x" + " #" * 200_000 + "\n" + "`" * 500_000, "x")
    assert time.process_time() - begin < 10
