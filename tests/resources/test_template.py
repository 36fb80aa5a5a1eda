import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentvm.errors.resource import ResourceInvalid
from agentvm.resources.template import Include, TemplatePart, Variable, parse


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("", []),
        ("plain } }} { text", ["plain } }} { text"]),
        ("{{name}}", [Variable("name")]),
        ("a{{ name }}b", ["a", Variable("name"), "b"]),
        ("{{user.first-name}}", [Variable("user.first-name")]),
        ("{{名字}}", [Variable("名字")]),
        ("{{> resource://prompts/x@^1#part }}", [Include("resource://prompts/x@^1#part")]),
        ("{{>resource://prompts/x}}", [Include("resource://prompts/x")]),
        (r"\{{name}}", ["{{name}}"]),
        (r"a\{{b\{{c", ["a{{b{{c"]),
        (r"\\{{name}}", [r"\{{name}}"]),
        ("{{a}}{{b}}", [Variable("a"), Variable("b")]),
        ("{ {a} }", ["{ {a} }"]),
    ],
)
def test_a_text_is_read_as_its_parts(text: str, parts: list[TemplatePart]) -> None:
    assert parse(text) == parts


@pytest.mark.parametrize(
    "tag",
    ["{{}}", "{{ }}", "{{#each x}}", "{{/each}}", "{{{x}}}", "{{a b}}", "{{a..b}}", "{{.a}}", '{{"a": 1}}', "{{x", "{{x\n}}"],
)
def test_anything_else_in_braces_is_refused_with_its_line_and_the_remedy(tag: str) -> None:
    with pytest.raises(ResourceInvalid) as caught:
        parse(f"one\ntwo {tag}")
    assert "text, line 2: " in str(caught.value)
    assert r"for a literal {{, \{{" in str(caught.value)


def test_long_names_are_refused_with_a_short_message() -> None:
    with pytest.raises(ResourceInvalid) as caught:
        parse("{{" + "a" * 100_000 + "}}")
    assert len(str(caught.value)) < 500


@given(st.text(alphabet="{}\\> \nab.", max_size=40) | st.text())
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        parts = parse(text)
    except ResourceInvalid:
        return
    assert parts == ([text] if text else []) or "{{" in text


@pytest.mark.parametrize(
    "text", ["{{a}}" * 200_000, r"\{{" * 300_000, "{" * 1_000_000, "}}" * 500_000 + "{{", "\\" * 1_000_000]
)
def test_long_texts_take_linear_time(text: str) -> None:
    begin = time.process_time()
    try:
        parse(text)
    except ResourceInvalid:
        pass
    # Of CPU, so that a busy machine does not matter; what is quadratic takes minutes.
    assert time.process_time() - begin < 10
