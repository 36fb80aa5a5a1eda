"""Which schemas providers enforce, and what a model is told of the others."""

import msgspec
import pytest

from agentvm.drivers.anthropic_body import messages_body
from agentvm.drivers.base import Prompt, ToolSpec, UserEntry
from agentvm.drivers.chat_body import chat_body
from agentvm.drivers.failures import Failures
from agentvm.drivers.local import local_body
from agentvm.drivers.output_schema import Schema, enforced_schema, requires_all
from agentvm.drivers.weighing import most_input
from agentvm.model.turn import OutputFormat

FAILURES = Failures(provider="x", remedy_key="", remedy_reach="")
PERSON: Schema = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "minLength": 1},
        "born": {"type": "string", "format": "date"},
        "tags": {"type": "array", "items": {"enum": ["a", "b"]}, "maxItems": 3},
        "home": {"anyOf": [{"$ref": "#/$defs/place"}, {"type": "null"}]},
    },
    "required": ["name", "born", "tags", "home"],
    "$defs": {"place": {"type": "object", "properties": {"zip": {"type": "integer", "minimum": 1}}, "required": ["zip"]}},
}
NODE: Schema = {"type": "object", "properties": {"child": {"$ref": "#/$defs/n"}}, "$defs": {"n": {"$ref": "#/$defs/n"}}}
DEEP: Schema = {"type": "object", "properties": {"x": {"type": "string"}}}
for _ in range(12):
    DEEP = {"type": "object", "properties": {"x": DEEP}}


def prompt(schema: Schema, **about: object) -> Prompt:
    form = OutputFormat(name="answer", schema=schema)
    said = Prompt(model="m", conversation=(UserEntry(content="hi"),), max_tokens=9, system="Be brief.", output=form)
    return msgspec.structs.replace(said, **about)


def test_bounds_are_left_out_and_objects_are_closed() -> None:
    reduced = enforced_schema(PERSON)
    assert reduced is not None
    assert reduced["properties"] == {
        "name": {"type": "string"},
        "born": {"type": "string", "format": "date"},
        "tags": {"type": "array", "items": {"enum": ["a", "b"]}},
        "home": {"anyOf": [{"$ref": "#/$defs/place"}, {"type": "null"}]},
    }
    assert reduced["additionalProperties"] is False
    place = {"type": "object", "properties": {"zip": {"type": "integer"}}, "required": ["zip"], "additionalProperties": False}
    assert reduced["$defs"] == {"place": place}
    assert requires_all(reduced)
    assert not requires_all({**reduced, "required": ["name"]})


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "array", "items": {"type": "string"}},
        {"type": "object"},
        {"type": "object", "properties": {"x": {}}},
        {"type": "object", "properties": {"x": {"not": {"type": "string"}}}},
        {"type": "object", "properties": {"x": {"type": "string"}}, "additionalProperties": {"type": "string"}},
        {"type": "object", "properties": {"x": {"type": ["string", "null"]}}},
        {"type": "object", "properties": {"x": True}},
        {},
        NODE,
        DEEP,
    ],
)
def test_a_schema_that_providers_cannot_enforce_is_told_to_the_model(schema: Schema) -> None:
    assert enforced_schema(schema) is None
    for body in (messages_body(prompt(schema), FAILURES), chat_body(prompt(schema), FAILURES)):
        assert "output_config" not in body
        assert "response_format" not in body
        assert "Be brief." in str(body)
        assert "JSON Schema" in str(body)


def test_each_protocol_has_its_own_member() -> None:
    messages = messages_body(prompt(PERSON), FAILURES)
    assert messages["output_config"] == {"format": {"type": "json_schema", "schema": enforced_schema(PERSON)}}
    assert "JSON Schema" not in str(messages["system"])
    form = {"name": "answer", "schema": enforced_schema(PERSON), "strict": True}
    assert chat_body(prompt(PERSON), FAILURES)["response_format"] == {"type": "json_schema", "json_schema": form}


def test_a_provider_that_has_refused_is_not_asked_again() -> None:
    assert "output_config" not in messages_body(prompt(PERSON, constrains=False), FAILURES)
    assert "response_format" not in chat_body(prompt(PERSON, constrains=False), FAILURES)


def test_the_embedded_model_has_a_grammar_for_the_schema_or_for_tools() -> None:
    look = ToolSpec(name="look", description="", input_schema={"type": "object"})
    assert "response_format" in local_body(prompt(PERSON, model="qwen"), "none")
    assert "response_format" not in local_body(prompt(PERSON, model="qwen", tools=(look,)), "template")
    assert "response_format" in local_body(prompt(PERSON, model="smollm2-135m", tools=(look,)), "none")
    choice: Schema = {"enum": ["yes", "no"]}
    bound = local_body(prompt(choice, model="qwen"), "none")["response_format"]
    assert bound == {"type": "json_schema", "json_schema": {"name": "answer", "schema": choice, "strict": True}}
    assert "response_format" not in local_body(prompt({"not": choice}, model="qwen"), "none")


def test_the_schema_is_reserved_for() -> None:
    plain = msgspec.structs.replace(prompt(PERSON), output=None)
    more = most_input(prompt(PERSON), driver="openai", window=9_000) - most_input(plain, driver="openai", window=9_000)
    assert more > 2 * len(msgspec.json.encode(PERSON))


def closed(required: tuple[str, ...], **members: Schema) -> Schema:
    return {"type": "object", "properties": members, "required": list(required), "additionalProperties": False}


TEXT: Schema = {"type": "string"}
FITTING = ToolSpec(name="fitting", description="", input_schema=closed(("a",), a=TEXT))
PARTLY = ToolSpec(name="partly", description="", input_schema=closed(("a",), a=TEXT, b={"anyOf": [TEXT, {"type": "null"}]}))
UNFIT = (
    ToolSpec(name="open", description="", input_schema={"type": "object", "properties": {"a": TEXT}, "required": ["a"]}),
    ToolSpec(name="bound", description="", input_schema=closed(("a",), a={"type": "string", "minLength": 1})),
    ToolSpec(name="any", description="", input_schema={"type": "object"}),
)


def with_tools(*tools: ToolSpec, **about: object) -> Prompt:
    return msgspec.structs.replace(prompt(PERSON), tools=tools, **about)


def strict_in(body: dict[str, object]) -> list[str]:
    """The tools that are strict; of each the schema is as its author wrote it."""
    tools = body["tools"]
    assert isinstance(tools, list)
    asked = [tool.get("function", tool) for tool in tools]
    own = {tool.name: tool.input_schema for tool in (FITTING, PARTLY, *UNFIT)}
    assert all(tool.get("input_schema", tool.get("parameters")) == own[tool["name"].split("-")[0]] for tool in asked)
    return [tool["name"] for tool in asked if "strict" in tool and tool["strict"] is True]


def test_the_input_of_a_tool_is_enforced_where_its_whole_schema_can_be() -> None:
    asked = with_tools(FITTING, PARTLY, *UNFIT)
    assert strict_in(messages_body(asked, FAILURES)) == ["fitting", "partly"]
    # OpenAI wants every member; the other servers of its protocol are not known to enforce the input of tools.
    assert strict_in(chat_body(asked, FAILURES, limit="max_completion_tokens")) == ["fitting"]
    assert strict_in(chat_body(asked, FAILURES)) == []


def test_the_input_of_tools_is_not_enforced_after_a_refusal() -> None:
    asked = with_tools(FITTING, constrains=False)
    assert strict_in(messages_body(asked, FAILURES)) == []
    assert strict_in(chat_body(asked, FAILURES, limit="max_completion_tokens")) == []


@pytest.mark.parametrize(("tool", "most"), [(FITTING, 20), (PARTLY, 15)])
def test_no_more_is_enforced_than_anthropic_takes(tool: ToolSpec, most: int) -> None:
    copies = [msgspec.structs.replace(tool, name=f"{tool.name}-{number}") for number in range(30)]
    # The schema of the answer has one `anyOf`, which counts as well.
    assert strict_in(messages_body(with_tools(*copies), FAILURES)) == [copy.name for copy in copies[:most]]
