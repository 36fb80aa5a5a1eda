import pytest

from agentvm.errors.resource import ResourceInvalid
from agentvm.resources.schema import check_schema, misfits
from agentvm.tools.openapi_schema import DEFINITIONS_MAX, References, converted

TREE = {"type": "object", "properties": {"children": {"type": "array", "items": {"$ref": "#/components/schemas/Tree"}}}}


def references(**schemas: object) -> References:
    return References({"components": {"schemas": schemas}, "list": [{"type": "string"}]})


def test_the_dialect_of_3_0_becomes_json_schema() -> None:
    schema = converted(
        {
            "type": "integer", "nullable": True, "minimum": 1, "exclusiveMinimum": True, "maximum": 9,
            "exclusiveMaximum": False, "enum": [1, 2], "example": 5, "x-internal": True, "discriminator": {},
        },
        references(),
    )  # fmt: skip
    assert schema == {"type": ["integer", "null"], "exclusiveMinimum": 1, "maximum": 9, "enum": [1, 2, None]}
    assert converted(True, references()) == {}
    assert converted(False, references()) == {"not": {}}


def test_a_schema_that_refers_to_itself_becomes_a_definition() -> None:
    refs = references(Tree=TREE)
    schema: dict[str, object] = {
        "type": "object",
        "properties": {"tree": converted({"$ref": "#/components/schemas/Tree"}, refs)},
    }
    schema["$defs"] = refs.definitions()
    check_schema("x", schema)
    assert misfits("x", schema, {"tree": {"children": [{"children": []}]}}) == []
    assert misfits("x", schema, {"tree": {"children": [{"children": 1}]}}) != []


def test_names_of_definitions_stay_apart() -> None:
    refs = References({"a": {"X-": {"type": "string"}}, "b": {"X_": {"type": "integer"}}})
    assert {refs.define("#/a/X-"), refs.define("#/b/X_"), refs.define("#/a/X-")} == {"#/$defs/X_", "#/$defs/X__"}
    assert refs.definitions() == {"X_": {"type": "string"}, "X__": {"type": "integer"}}


def test_references_are_followed_inside_the_document_with_a_bound() -> None:
    refs = references(A={"$ref": "#/components/schemas/B"}, B={"$ref": "#/components/schemas/A"})
    assert references().follow({"$ref": "#/list/0"}) == {"type": "string"}
    for wrong in (
        "https://evil.example/x", "file:///etc/passwd", "other.json#/x", "#", "#/nowhere", "#/list/1", "#/list/-1", 5,
        "#/components/schemas/A",
    ):  # fmt: skip
        with pytest.raises(ResourceInvalid):
            refs.follow({"$ref": wrong})
    with pytest.raises(ResourceInvalid):
        refs.follow("text")
    with pytest.raises(ResourceInvalid):
        converted("text", refs)


def test_a_long_chain_of_schemas_is_bounded_and_takes_no_stack() -> None:
    chain = {f"S{n}": {"properties": {"next": {"$ref": f"#/components/schemas/S{n + 1}"}}} for n in range(DEFINITIONS_MAX - 1)}
    refs = references(**chain, **{f"S{DEFINITIONS_MAX - 1}": {}})
    refs.define("#/components/schemas/S0")
    assert len(refs.definitions()) == DEFINITIONS_MAX
    longer = references(**chain, **{f"S{DEFINITIONS_MAX - 1}": {"$ref": "#/components/schemas/S"}}, S={})
    longer.define("#/components/schemas/S0")
    with pytest.raises(ResourceInvalid, match="more than"):
        longer.definitions()
