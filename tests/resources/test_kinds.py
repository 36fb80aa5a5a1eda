import pytest

from agentvm.model.resource import TYPES, ResourceType, parse_type
from agentvm.resources.kinds import KINDS, describe_types, why_idle
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


@pytest.mark.parametrize(
    ("kind", "content", "word"),
    [
        ("tools", {"runtime": "mcp", "entry": "https://x.test"}, "its tools are not known"),
        ("tools", {"runtime": "builtin", "entry": "hammer"}, "'hammer'"),
    ],
)
def test_what_does_nothing_here_has_a_reason(kind: ResourceType, content: dict[str, object], word: str) -> None:
    assert word in (why_idle(kind, content, ("clock",)) or "")


@pytest.mark.parametrize("kind", ["prompts", "agents"])
def test_prompts_agents_and_built_in_tools_act(kind: ResourceType) -> None:
    assert why_idle(kind, {}, ()) is None
    assert why_idle("tools", {"runtime": "builtin", "entry": "clock"}, ("clock",)) is None
