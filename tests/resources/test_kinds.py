from agentvm.model.resource import TYPES, parse_type
from agentvm.resources.kinds import KINDS, describe_types
from agentvm.resources.schema import check_schema


def test_there_is_a_kind_for_every_type() -> None:
    assert tuple(KINDS) == TYPES
    assert [kind.type for kind in KINDS.values()] == list(TYPES)


def test_every_type_is_described_with_a_schema_in_names_of_the_wire() -> None:
    described = describe_types()
    assert [one.type for one in described] == list(TYPES)
    for one in described:
        assert parse_type(one.singular) == one.type
        assert one.description
        check_schema("schema", one.schema)
    assert "inputSchema" in str(described[1].schema)
    assert "input_schema" not in str(described[1].schema)
