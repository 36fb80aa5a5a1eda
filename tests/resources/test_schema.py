import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from copy import copy

import pytest

from agentvm.errors.resource import ResourceInvalid
from agentvm.resources.schema import MISFITS_MAX, check_schema, misfits

QUICK = 10.0
"""Seconds; each of these takes milliseconds, and what they guard against takes hours."""


@contextmanager
def quickly() -> Iterator[None]:
    begin = time.process_time()
    yield
    assert time.process_time() - begin < QUICK


def deep(levels: int) -> dict[str, object]:
    schema: dict[str, object] = {}
    for _ in range(levels):
        schema = {"properties": {"a": schema}}
    return schema


def chain(links: int) -> dict[str, object]:
    # The last first, so that no part has a long way left when it is come to.
    defs = {f"a{i}": {"$ref": f"#/$defs/a{i + 1}"} for i in reversed(range(links))}
    return {"$defs": {f"a{links}": {}, **defs}}


def doubling(levels: int, keyword: str = "allOf") -> dict[str, object]:
    defs: dict[str, object] = {f"a{i}": {keyword: [{"$ref": f"#/$defs/a{i + 1}"}] * 2} for i in range(levels)}
    return {"$ref": "#/$defs/a0", "$defs": {**defs, f"a{levels}": {"type": "object"}}}


TREE: dict[str, object] = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "children": {"type": "array", "items": {"$ref": "#"}}},
    "required": ["name"],
}


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        ({"type": "objct"}, "s.type is not a valid JSON Schema"),
        ({"properties": {"a": {"type": 3}}}, "s.properties.a.type is not a valid JSON Schema"),
        ({"pattern": "("}, "s.pattern is not a valid JSON Schema"),
        ({"pattern": "(?=a)b"}, "lookaround, back-references"),
        ({"pattern": "((a{1,1000}){1,1000}){1,1000}"}, "s.pattern is not a valid JSON Schema"),
        ({"pattern": "a" * 2_000}, "pattern of 2000 characters"),
        ({"patternProperties": {"a" * 2_000: {}}}, "pattern of 2000 characters"),
        ({"allOf": [{"pattern": f"a{i}"} for i in range(200)]}, "more than 100 patterns"),
        ({"$ref": "http://example.org/schema"}, "must lead to a part of the schema itself"),
        ({"$ref": "file:///etc/passwd"}, "must lead to a part of the schema itself"),
        ({"items": {"$ref": "other.json#/a"}}, "s.items.$ref"),
        ({"$ref": "#/$defs/gone"}, "leads nowhere"),
        ({"$ref": "#/allOf/9" + "9" * 100, "allOf": [{}]}, "leads nowhere"),
        ({"$ref": "#anchor"}, "must lead to a part of the schema itself"),
        ({"$ref": 1}, "must lead to a part of the schema itself"),
        ({"$dynamicRef": "#x"}, "$dynamicRef is not supported"),
        ({"$defs": {"a": {"$anchor": "x"}}}, "$anchor is not supported"),
        ({"$defs": {"a": {"$id": "http://example.org/"}}}, "only stand at the top"),
        ({"$schema": "http://example.org/dialect"}, "is not a valid JSON Schema"),
        ({"$ref": "#"}, "leads back to itself"),
        ({"allOf": [{"$ref": "#"}]}, "leads back to itself"),
        (
            {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"not": {"$ref": "#/$defs/a"}}}},
            "leads back to itself",
        ),
        (deep(60), "nested more than 64 levels"),
        (deep(50_000), "nested more than 64 levels"),
        ({"description": "x" * 300_000}, "a schema may have"),
        ({"$schema": "http://json-schema.org/draft-04/schema#"}, "draft 4 is not supported"),
        ({"$ref": "#/x/y", "x": {"$id": "http://example.org/", "y": {}}}, "leads nowhere"),
        (chain(5_000), "a chain of more than 64 parts"),
        ({"minimum": float("nan")}, "the number nan"),
    ],
)
def test_a_schema_that_is_broken_or_a_bomb_is_refused_quickly(schema: dict[str, object], why: str) -> None:
    with quickly(), pytest.raises(ResourceInvalid) as caught:
        check_schema("s", schema)
    assert why in str(caught.value)
    assert len(str(caught.value)) < 1_000


@pytest.mark.parametrize(
    "schema",
    [
        {},
        TREE,
        deep(20),
        {
            "$schema": "http://json-schema.org/draft-07/schema#",
            "definitions": {"a": {}},
            "items": [{"$ref": "#/definitions/a"}],
        },
        {"enum": [{"$ref": "http://example.org/"}], "const": {"$ref": 1}, "default": {"$anchor": "data, not a schema"}},
        {"properties": {"$ref": {"type": "string"}, "$anchor": {}}},
        {"pattern": r"^[a-zA-Z0-9_-]{1,64}$", "format": "email"},
        {"$ref": "#/$defs/a~1b", "$defs": {"a/b": {}}},
        {"dependencies": {"a": ["b"]}, "$schema": "http://json-schema.org/draft-07/schema#"},
    ],
)
def test_an_ordinary_schema_is_accepted(schema: dict[str, object]) -> None:
    check_schema("s", schema)


def test_arguments_are_objects() -> None:
    check_schema("s", {"properties": {}}, of_object=True)
    with pytest.raises(ResourceInvalid, match="must be the schema of an object"):
        check_schema("s", {"type": "string"}, of_object=True)


def test_each_misfit_is_told_with_its_place() -> None:
    schema = {"properties": {"a": {"type": "integer"}, "b": {"items": {"minimum": 3}}}, "required": ["c"]}
    assert sorted(str(one) for one in misfits("s", schema, {"a": "x", "b": [4, 1]})) == [
        '"c" is a required property',
        'a: "x" is not of type "integer"',
        "b.1: 1 is less than the minimum of 3",
    ]
    assert [one.missing for one in misfits("s", schema, {})] == ["c"]
    assert misfits("s", schema, {"c": None}) == []


def test_a_schema_of_trees_judges_trees() -> None:
    tree: dict[str, object] = {"name": "leaf"}
    for _ in range(20):
        tree = {"name": "branch", "children": [tree, {"name": "twig"}]}
    assert misfits("s", TREE, tree) == []
    assert str(misfits("s", TREE, {"name": "a", "children": [{}]})[0]) == 'children.0: "name" is a required property'


@pytest.mark.parametrize("keyword", ["allOf", "anyOf", "oneOf"])
def test_references_that_multiply_are_counted_before_they_are_followed(keyword: str) -> None:
    with quickly(), pytest.raises(ResourceInvalid, match="would take too long"):
        misfits("s", doubling(25, keyword), {})
    assert misfits("s", doubling(5), {}) == []


def test_a_schema_that_multiplies_with_the_depth_of_the_value_is_counted_too() -> None:
    child = {"properties": {"a": {"$ref": "#"}}}
    value: dict[str, object] = {}
    for _ in range(40):
        value = {"a": value}
    with quickly(), pytest.raises(ResourceInvalid, match="would take too long"):
        misfits("s", {"allOf": [child, dict(child)]}, value)


@pytest.mark.parametrize("keyword", ["allOf", "anyOf", "oneOf"])
def test_what_is_unevaluated_is_looked_for_only_so_often(keyword: str) -> None:
    def strict(levels: int) -> dict[str, object]:
        schema: dict[str, object] = {"properties": {"a": {}}}
        for _ in range(levels):
            schema = {"unevaluatedProperties": False, keyword: [schema]}
        return schema

    with quickly():
        assert misfits("s", strict(3), {"a": 1}) == []
        assert misfits("s", strict(3), {"b": 1})
        with pytest.raises(ResourceInvalid, match="would take too long"):
            misfits("s", strict(25), {"a": 1})


MANY_NAMES = [f"k{number}" for number in range(5_000)]


@pytest.mark.parametrize(
    ("each", "value"),
    [
        ({"enum": [[number] for number in range(5_000)]}, ["x"]),
        ({"required": MANY_NAMES}, {}),
        ({"dependentRequired": {"x": MANY_NAMES}}, {"x": 1}),
        ({"properties": {name: {} for name in MANY_NAMES}}, {}),
    ],
    ids=lambda part: str(part)[:20],
)
def test_what_a_schema_lists_is_counted_for_each_value_it_is_compared_with(each: dict[str, object], value: object) -> None:
    with quickly():
        assert len(misfits("s", {"items": each}, [value] * 2)) < 20 + 1
        with pytest.raises(ResourceInvalid, match="would take too long"):
            misfits("s", {"items": each}, [copy(value) for _ in range(5_000)])


def test_a_long_list_compared_with_many_choices_is_refused_before_it_is_counted_out() -> None:
    schema: dict[str, object] = {"items": {"oneOf": [{"properties": {"a": {}}}] * 3_000}}
    with quickly(), pytest.raises(ResourceInvalid, match="would take too long"):
        misfits("s", schema, [{} for _ in range(3_000)])


def test_many_misfits_and_large_values_end_soon() -> None:
    with quickly():
        assert len(misfits("s", {"items": {"type": "string"}}, [1] * 10_000)) == MISFITS_MAX
        message = str(misfits("s", {"type": "integer"}, "x" * 1_000_000)[0])
        assert len(message) < 500


def test_a_pattern_that_would_backtrack_takes_linear_time() -> None:
    with quickly():
        assert misfits("s", {"pattern": "^(a+)+$"}, "a" * 50_000 + "b")


def test_the_library_is_not_loaded_before_a_schema_is_looked_at() -> None:
    code = "import sys, agentvm.resources.kinds; sys.exit('jsonschema_rs' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
