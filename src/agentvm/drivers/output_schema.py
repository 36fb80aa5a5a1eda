"""Output schema — the schema of an answer in the form that providers enforce, and the words for a model of the others. Pure.

Providers enforce a part of JSON Schema. The answer is compared with the whole schema later, and so is the input of a tool,
which is enforced only if its schema is entirely within that part: the tool accepts the same as before.
"""

import re
from collections.abc import Mapping, Sequence

import msgspec

from agentvm.drivers.base import Prompt, ToolSpec
from agentvm.errors import ProviderBadRequest
from agentvm.model.turn import OutputFormat
from agentvm.model.usage import estimate_tokens

Schema = dict[str, object]

DEPTH_MAX = 10
"""Levels of objects and lists that providers take."""
INSTRUCTION_TOKENS = 60
STRICT_TOOLS_MAX = 20
STRICT_OPTIONAL_MAX = 24
STRICT_CHOICES_MAX = 16
"""Tools whose input Anthropic enforces in one request, and members that are optional or have `anyOf` in all of its schemas."""

_REFUSED = re.compile(r"(?i)response_format|output_config|output_format|schema|grammar|strict")
_KEPT = ("title", "description", "enum", "const", "required", "$ref")
_TYPES = frozenset({"object", "array", "string", "integer", "number", "boolean", "null"})
_FORMATS = frozenset({"date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"})
_UNENFORCED = frozenset(
    {"not", "if", "then", "else", "patternProperties", "prefixItems", "dependentSchemas", "dependentRequired", "propertyNames"}
    | {"contains", "unevaluatedProperties", "unevaluatedItems", "$dynamicRef", "$anchor", "$id", "definitions"}
)
"""Keywords that change the shape of the answer and that no provider enforces."""


class _Inexpressible(Exception):
    """The schema has a part that providers do not enforce."""


def enforced_schema(schema: Mapping[str, object]) -> Schema | None:
    """Returns a schema whose every value has the shape of the given one; None if providers could not enforce one.

    Objects take no members that they do not name. Bounds of numbers and lengths are left out.
    """
    return enforced_part(schema) if schema.get("type") == "object" else None


def enforced_part(schema: Mapping[str, object]) -> Schema | None:
    """Like `enforced_schema`, also for a value that is no object, which stands within one."""
    try:
        return _reduce(schema, DEPTH_MAX)
    except _Inexpressible:
        return None


def requires_all(schema: object) -> bool:
    """Returns whether each object of an enforced schema requires all of its members, which OpenAI's strict mode wants."""
    return _loose_members(schema)[0] == 0


def is_enforced(tool: ToolSpec) -> bool:
    """Returns whether a provider that enforces the input of the tool lets the model send all that the tool accepts."""
    return enforced_schema(tool.input_schema) == tool.input_schema


def strict_tools(tools: Sequence[ToolSpec], answer: Schema | None) -> set[str]:
    """Returns the names of the tools whose input Anthropic is asked to enforce: the first that fit its limits.

    `answer` is the enforced schema of the answer, which counts as well.
    """
    names: set[str] = set()
    optional, choices = _loose_members(answer)
    for tool in tools:
        if len(names) < STRICT_TOOLS_MAX and is_enforced(tool):
            more = _loose_members(tool.input_schema)
            if optional + more[0] <= STRICT_OPTIONAL_MAX and choices + more[1] <= STRICT_CHOICES_MAX:
                names.add(tool.name)
                optional, choices = optional + more[0], choices + more[1]
    return names


def _loose_members(schema: object) -> tuple[int, int]:
    """Returns how many members of an enforced schema are optional, and how many parts have `anyOf`."""
    if not isinstance(schema, Mapping):
        return 0, 0
    members, choices = _named(schema.get("properties")), _listed(schema.get("anyOf"))
    inner = (*members.values(), *choices, schema.get("items"), *_named(schema.get("$defs")).values())
    counts = [_loose_members(part) for part in inner]
    optional = len(set(members) - set(_listed(schema.get("required"))))
    return optional + sum(count[0] for count in counts), bool(choices) + sum(count[1] for count in counts)


def output_instruction(form: OutputFormat) -> str:
    """Returns the words that tell a model the form of its answer."""
    schema = msgspec.json.encode(form.schema).decode()
    return (
        f"Your final answer must be one JSON value, {form.name}, that fits this JSON Schema. Write only the JSON: "
        f"no other words, no code fence.\n{schema}"
    )


def system_with_schema(prompt: Prompt) -> str | None:
    """Returns the system prompt, with the form of the answer."""
    if prompt.output is None:
        return prompt.system
    return "\n\n".join(filter(None, (prompt.system, output_instruction(prompt.output))))


def output_tokens(form: OutputFormat | None) -> int:
    """Returns about how many tokens the form of an answer adds to a prompt."""
    return 0 if form is None else INSTRUCTION_TOKENS + estimate_tokens(msgspec.json.encode(form.schema).decode())


def refuses_output(error: ProviderBadRequest) -> bool:
    """Returns whether the provider refuses to enforce a schema; that of an answer can then be added to the prompt."""
    return _REFUSED.search(f"{error.provider_message} {error.param}") is not None


def _reduce(schema: object, depth: int) -> Schema:
    if not isinstance(schema, Mapping) or depth == 0 or not _UNENFORCED.isdisjoint(schema):
        raise _Inexpressible
    reduced: Schema = {name: schema[name] for name in _KEPT if name in schema}
    if "$ref" in schema:
        # A schema that contains itself has no bound.
        if "$defs" in schema or not str(schema["$ref"]).startswith("#/$defs/"):
            raise _Inexpressible
        return {"$ref": schema["$ref"]}
    if "$defs" in schema:
        reduced["$defs"] = {name: _reduce_definition(part, depth - 1) for name, part in _named(schema["$defs"]).items()}
    choices = _listed(schema.get("anyOf", schema.get("oneOf")))
    if choices:
        reduced["anyOf"] = [_reduce(choice, depth - 1) for choice in choices]
    kind = schema.get("type")
    has_shape = choices or "enum" in schema or "const" in schema or (isinstance(kind, str) and kind in _TYPES)
    if "allOf" in schema or not has_shape or isinstance(kind, list):
        raise _Inexpressible
    if "type" in schema:
        reduced["type"] = schema["type"]
    if schema.get("type") == "string" and schema.get("format") in _FORMATS:
        reduced["format"] = schema["format"]
    if schema.get("type") == "array":
        reduced["items"] = _reduce(schema.get("items"), depth - 1)
    if schema.get("type") == "object":
        reduced |= _members(schema, depth)
    return reduced


def _members(schema: Mapping[str, object], depth: int) -> Schema:
    properties = _named(schema.get("properties"))
    if not properties or schema.get("additionalProperties") not in (None, False):
        # Any members: a closed object would be an empty one.
        raise _Inexpressible
    reduced = {name: _reduce(part, depth - 1) for name, part in properties.items()}
    return {"properties": reduced, "additionalProperties": False}


def _reduce_definition(part: object, depth: int) -> Schema:
    if '"$ref"' in msgspec.json.encode(part).decode():
        raise _Inexpressible
    return _reduce(part, depth)


def _named(value: object) -> dict[str, object]:
    return dict(value) if isinstance(value, Mapping) else {}


def _listed(value: object) -> list[object]:
    return list(value) if isinstance(value, list | tuple) else []
