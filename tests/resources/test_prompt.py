import time

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.resources.library import Library

from agentvm.errors.resource import PromptUnresolved, ResourceInvalid, ResourceNotFound, ResourceTooLarge
from agentvm.resources.kind import accept
from agentvm.resources.kinds import KINDS

PROMPTS = KINDS["prompts"]


def rendered(content: dict[str, object], fragment: str | None = None, /, **args: object) -> object:
    library = Library()
    return library.render(library.put("prompts", "p", content), fragment, **args)


def test_variables_are_replaced_by_arguments() -> None:
    assert rendered({"text": "Hello {{ name }}, {{name}}!"}, name="Ann") == "Hello Ann, Ann!"


def test_dots_look_into_objects() -> None:
    assert rendered({"text": "{{user.name.first}}"}, user={"name": {"first": "Ann"}}) == "Ann"
    with pytest.raises(PromptUnresolved, match=r"user\.name"):
        rendered({"text": "{{user.name}}"}, user="Ann")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("a", "a"),
        (1, "1"),
        (1.5, "1.5"),
        (True, "true"),
        (None, "null"),
        ([1, "é"], '[1,"é"]'),
        ({"b": 1, "a": {}}, '{"b":1,"a":{}}'),
    ],
)
def test_texts_go_in_as_they_are_and_the_rest_as_compact_json(value: object, text: str) -> None:
    assert rendered({"text": "<{{x}}>"}, x=value) == f"<{text}>"


def test_defaults_of_the_schema_stand_in_for_arguments() -> None:
    schema = {
        "properties": {
            "name": {"type": "string", "default": "you"},
            "user": {"default": {"city": "Ulm", "name": "outer"}, "properties": {"name": {"default": "inner"}}},
        },
        "required": ["name"],
    }
    content: dict[str, object] = {"text": "{{name}} {{user.name}} {{user.city}}", "variables": schema}
    assert rendered(content) == "you inner Ulm"
    assert rendered(content, name="Ann", user={"name": "Bo"}) == "Ann Bo Ulm"


def test_arguments_that_do_not_fit_are_named_one_by_one() -> None:
    schema = {"properties": {"age": {"type": "integer"}, "tone": {"enum": ["warm", "dry"]}}, "additionalProperties": False}
    with pytest.raises(ResourceInvalid) as caught:
        rendered({"text": "", "variables": schema}, age="old", tone="loud", more=1)
    assert "The args do not fit resource://prompts/p@1.0.0" in str(caught.value)
    assert 'age: "old" is not of type "integer"' in str(caught.value)
    assert "'more' was unexpected" in str(caught.value)
    assert set(caught.value.details["args"]) == {"age", "tone", ""}  # type: ignore[call-overload]


def test_arguments_that_nobody_named_are_let_be() -> None:
    assert rendered({"text": "x", "variables": {"properties": {"a": {}}}}, other=1) == "x"


def test_all_variables_of_the_whole_tree_without_a_value_are_named() -> None:
    library = Library()
    library.put("prompts", "inner", {"text": "{{b}} {{d}}", "variables": {"required": ["c"]}})
    node = library.put("prompts", "outer", {"text": "{{a}} {{> resource://prompts/inner}} {{e.f}} {{a}}"})
    with pytest.raises(PromptUnresolved, match=r"resource://prompts/outer@1\.0\.0") as caught:
        library.render(node, d=1)
    assert caught.value.details["unresolved"] == ["a", "c", "b", "e.f"]


def test_an_included_prompt_sees_the_same_arguments_and_its_own_defaults() -> None:
    library = Library()
    schema = {"properties": {"tone": {"default": "warm"}, "name": {"type": "string"}}, "additionalProperties": False}
    library.put("prompts", "inner", {"text": "[{{name}} {{tone}}]", "variables": schema})
    content = {
        "text": "{{> resource://prompts/inner@^1}} {{tone}} {{only-here}}",
        "variables": {"properties": {"tone": {"default": "dry"}}},
    }
    node = library.put("prompts", "outer", content)
    assert library.render(node, **{"name": "Ann", "only-here": 1}) == "[Ann warm] dry 1"
    with pytest.raises(ResourceInvalid, match="prompts/inner@1"):
        library.render(node, **{"name": 3, "only-here": 1})


def test_arguments_cannot_bring_in_anything_but_themselves() -> None:
    library = Library()
    library.put("prompts", "secret", {"text": "SECRET"})
    library.put("prompts", "inner", {"text": "<{{x}}>"})
    node = library.put("prompts", "p", {"text": "{{x}} {{> resource://prompts/inner}} {{> resource://prompts/secret}}"})
    for evil in ("{{y}}", "{{> resource://prompts/secret}}", r"\{{y", "}}{{x}}", "# heading"):
        assert library.render(node, x=evil, y="WRONG") == f"{evil} <{evil}> SECRET"


@given(st.text(alphabet="{}\\>#xy \n") | st.text())
def test_an_argument_stands_in_the_result_letter_by_letter(value: str) -> None:
    assert rendered({"text": "a{{x}}b"}, x=value, y="no") == f"a{value}b"


@given(st.text().filter(lambda text: "{{" not in text))
def test_text_without_braces_renders_to_itself(text: str) -> None:
    assert rendered({"text": text}, x="no") == text


@given(
    st.text(alphabet="{}\\> \nab.#", max_size=40) | st.text(),
    st.none() | st.text(max_size=4),
    st.dictionaries(st.text(), st.text()),
)
@example("{{a}}", None, {})
def test_any_text_is_rendered_or_refused_for_a_reason_that_is_documented(
    text: str, fragment: str | None, args: dict[str, object]
) -> None:
    try:
        assert isinstance(rendered({"text": text}, fragment, **args), str)
    except (ResourceInvalid, PromptUnresolved, ResourceNotFound, ResourceTooLarge):
        pass


def test_plain_text_is_left_alone() -> None:
    text = "{{x}} {{> resource://prompts/gone}} {{#if}} \\{{"
    assert rendered({"text": text, "format": "plain"}, x=1) == text


def test_a_fragment_is_a_section_rendered_for_itself() -> None:
    content: dict[str, object] = {"text": "# A\n{{nowhere}}\n# 问候\nHello {{name}}\n## Sub\nx\n# B\n"}
    assert rendered(content, "问候", name="Ann") == "Hello Ann\n## Sub\nx"
    with pytest.raises(ResourceNotFound, match=r"resource://prompts/p@1\.0\.0#gone"):
        rendered(content, "gone")


def test_sections_and_documents_are_included_by_fragment() -> None:
    library = Library()
    library.put("prompts", "style", {"text": "# Tone\nBe {{tone}}.\n# Other\n{{x}}"})
    library.put("knowledge", "docs", {"documents": [{"id": "faq", "text": "{{as it is}}"}]})
    node = library.put("prompts", "p", {"text": "{{> resource://prompts/style#tone}} {{> resource://knowledge/docs#faq}}"})
    assert library.render(node, tone="kind") == "Be kind. {{as it is}}"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{{> resource://tools/x}}", "includes.0 cannot refer to tools"),
        ("{{> resource://prompts/x}}{{> resource://nonsense/x}}", "'resource://nonsense/x' is not a valid resource URI"),
        ("{{> other}}", "includes.0 must be a URI"),
        ("{{> resource://knowledge/x}}", "must name a document: resource://knowledge/x#its-id"),
        ("{{#if x}}", "text, line 1"),
    ],
)
def test_a_reference_or_tag_that_cannot_be_is_refused(text: str, why: str) -> None:
    with pytest.raises(ResourceInvalid) as caught:
        accept(PROMPTS, {"text": text})
    assert why in str(caught.value)


def test_a_prompt_of_too_many_parts_is_refused_when_it_is_published() -> None:
    with pytest.raises(ResourceInvalid, match="more than 100000"):
        accept(PROMPTS, {"text": "{{x}}" * 100_001})


def test_the_schema_must_be_one_of_an_object() -> None:
    with pytest.raises(ResourceInvalid, match="variables must be the schema of an object"):
        accept(PROMPTS, {"text": "", "variables": {"type": "array"}})


def test_references_are_listed_once_each_with_where_they_stand() -> None:
    content = accept(PROMPTS, {"text": "{{> resource://prompts/a}}{{> resource://prompts/b#c }}{{>resource://prompts/a}}"})
    assert PROMPTS.references(content) == {"includes.0": "resource://prompts/a", "includes.1": "resource://prompts/b#c"}
    assert PROMPTS.references(accept(PROMPTS, {"text": "{{> x}}", "format": "plain"})) == {}
    assert PROMPTS.text(content) == content.text  # type: ignore[attr-defined]


@pytest.mark.parametrize("leaf", ["x" * 10_000, ""])
def test_prompts_that_include_each_other_many_times_are_refused_early(leaf: str) -> None:
    library = Library()
    node = library.put("prompts", "p0", {"text": leaf})
    for level in range(12):
        node = library.put("prompts", f"p{level + 1}", {"text": f"{{{{> resource://prompts/p{level}}}}}" * 10})
    begin = time.process_time()
    with pytest.raises(ResourceTooLarge):
        library.render(node)
    assert time.process_time() - begin < 10


def test_variables_that_stand_for_nothing_are_counted_too() -> None:
    library = Library()
    library.put("prompts", "wide", {"text": "{{x}}" * 50_000})
    node = library.put("prompts", "p", {"text": "{{> resource://prompts/wide}}" * 1_000})
    with pytest.raises(ResourceTooLarge, match="more than 100000"):
        library.render(node, x="")


def test_a_large_argument_counts_as_often_as_it_stands() -> None:
    with pytest.raises(ResourceTooLarge, match="comes to more than"):
        rendered({"text": "{{x}}" * 100}, x="语" * 50_000)


def test_arguments_that_are_no_json_are_refused() -> None:
    deep: object = []
    for _ in range(10_000):
        deep = [deep]
    for value in (deep, float("nan"), "\ud800", object()):
        with pytest.raises(ResourceInvalid):
            rendered({"text": "{{x}}"}, x=value)
