"""OpenAPI schemas — references of a document, followed with a bound, and its dialect of JSON Schema in the standard form."""

import re
from collections.abc import Mapping

from agentvm.errors import shorten
from agentvm.errors.resource import ResourceInvalid

FOLLOWED_MAX = 32
DEFINITIONS_MAX = 200
_DROPPED = frozenset({"discriminator", "xml", "externalDocs", "example", "nullable", "readOnly", "writeOnly", "$schema", "$id"})
_SCHEMAS = frozenset({"items", "additionalProperties", "not", "contains", "propertyNames", "if", "then", "else"})
_LISTS = frozenset({"allOf", "anyOf", "oneOf", "prefixItems"})
_NAMED = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"})


class References:
    """The references of a document. Schemas that are referred to become definitions of the tool's own schema."""

    def __init__(self, document: Mapping[str, object]) -> None:
        self._document = document
        self._names: dict[str, str] = {}
        self._definitions: dict[str, object] = {}
        self._waiting: list[tuple[str, object]] = []

    def follow(self, value: object) -> Mapping[str, object]:
        """Returns the object that a value is, or refers to, through a bounded number of references."""
        for _ in range(FOLLOWED_MAX):
            if not isinstance(value, Mapping):
                raise ResourceInvalid("The document has another value where an object belongs")
            if "$ref" not in value:
                return value
            value = self._target(value["$ref"])
        raise ResourceInvalid(f"The document has a chain of more than {FOLLOWED_MAX} references")

    def _target(self, ref: object) -> object:
        if not isinstance(ref, str) or not ref.startswith("#/"):
            raise ResourceInvalid(f"The document refers to {shorten(str(ref))!r}; it may refer only into itself")
        value: object = self._document
        for step in ref.split("/")[1:]:
            name = step.replace("~1", "/").replace("~0", "~")
            if isinstance(value, Mapping) and name in value:
                value = value[name]
            elif isinstance(value, list) and name.isascii() and name.isdigit() and int(name[:9]) < len(value):
                value = value[int(name[:9])]
            else:
                raise ResourceInvalid(f"The document refers to {shorten(ref)!r}, which leads nowhere")
        return value

    def define(self, ref: object) -> str:
        """Returns the reference to the definition that a schema becomes."""
        target = self._target(ref)
        key = str(ref)
        if key not in self._names:
            if len(self._names) >= DEFINITIONS_MAX:
                raise ResourceInvalid(f"An operation refers to more than {DEFINITIONS_MAX} schemas")
            name = re.sub(r"[^A-Za-z0-9_]", "_", key.rpartition("/")[2])[:64] or "schema"
            while name in self._names.values():
                name += "_"
            self._names[key] = name
            # Converted later: a schema may refer to itself, and a chain of them may be long.
            self._waiting.append((name, target))
        return f"#/$defs/{self._names[key]}"

    def definitions(self) -> dict[str, object]:
        """Returns all definitions, with those that they refer to in turn."""
        while self._waiting:
            name, target = self._waiting.pop()
            self._definitions[name] = converted(target, self)
        return self._definitions


def converted(schema: object, references: References) -> dict[str, object]:
    """Returns a schema of OpenAPI 3.0 or 3.1 as JSON Schema; references lead to the definitions of the tool."""
    if isinstance(schema, bool):
        return {} if schema else {"not": {}}
    if not isinstance(schema, Mapping):
        raise ResourceInvalid("The document has another value where a schema belongs")
    if "$ref" in schema:
        return {"$ref": references.define(schema["$ref"])}
    result: dict[str, object] = {}
    for keyword, value in schema.items():
        if keyword in _DROPPED or keyword.startswith("x-"):
            continue
        if keyword in _SCHEMAS and isinstance(value, Mapping | bool):
            result[keyword] = value if isinstance(value, bool) else converted(value, references)
        elif keyword in _LISTS and isinstance(value, list):
            result[keyword] = [converted(part, references) for part in value]
        elif keyword in _NAMED and isinstance(value, Mapping):
            result[keyword] = {name: converted(part, references) for name, part in value.items()}
        else:
            result[keyword] = value
    return _of_3_1(result, nullable=schema.get("nullable") is True)


def _of_3_1(schema: dict[str, object], *, nullable: bool) -> dict[str, object]:
    """Rewrites the parts that 3.0 writes differently: null, and excluded limits."""
    for limit in ("Minimum", "Maximum"):
        excluded = schema.get(f"exclusive{limit}")
        if isinstance(excluded, bool):
            del schema[f"exclusive{limit}"]
            if excluded and limit.lower() in schema:
                schema[f"exclusive{limit}"] = schema.pop(limit.lower())
    if nullable and isinstance(schema.get("type"), str):
        schema["type"] = [schema["type"], "null"]
        values = schema.get("enum")
        if isinstance(values, list) and None not in values:
            schema["enum"] = [*values, None]
    return schema
