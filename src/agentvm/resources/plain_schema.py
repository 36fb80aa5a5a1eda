"""Plain schema — values that fit a schema beyond doubt, found without the library for schemas, whose import takes 26 ms.

Most tools have an object of texts and numbers as their input. Other schemas are left to the library.
"""

from collections.abc import Mapping

_ANNOTATIONS = frozenset({"title", "description", "default", "examples", "$comment"})
_KEYWORDS = _ANNOTATIONS | {
    "type", "enum", "properties", "required", "additionalProperties", "items",
    "minimum", "maximum", "minLength", "maxLength", "minItems", "maxItems",
}  # fmt: skip


def fits_plainly(schema: object, value: object) -> bool:
    """Returns whether a value fits; False means that it is not known yet."""
    if schema is True:
        return True
    if not isinstance(schema, Mapping) or not _KEYWORDS.issuperset(schema) or not _has_type(schema.get("type"), value):
        return False
    if "enum" in schema and not (isinstance(value, str) and isinstance(schema["enum"], list) and value in schema["enum"]):
        return False
    if isinstance(value, Mapping):
        return _fits_object(schema, value)
    if isinstance(value, list):
        return _is_within(schema, "Items", len(value)) and (
            "items" not in schema or all(fits_plainly(schema["items"], item) for item in value)
        )
    if isinstance(value, str):
        return _is_within(schema, "Length", len(value))
    # A truth value is a number to Python alone.
    return isinstance(value, bool) or not isinstance(value, int | float) or _is_within(schema, "imum", value)


def _has_type(kind: object, value: object) -> bool:
    match kind:
        case None:
            return True
        case "string":
            return isinstance(value, str)
        case "integer":
            return isinstance(value, int) and not isinstance(value, bool)
        case "number":
            return isinstance(value, int | float) and not isinstance(value, bool)
        case "boolean":
            return isinstance(value, bool)
        case "null":
            return value is None
        case "array":
            return isinstance(value, list)
        case "object":
            return isinstance(value, Mapping)
        case list():
            return any(isinstance(name, str) and _has_type(name, value) for name in kind)
        case _:
            return False


def _is_within(schema: Mapping[str, object], unit: str, size: float) -> bool:
    least, most = schema.get(f"min{unit}", size), schema.get(f"max{unit}", size)
    return type(least) in (int, float) and type(most) in (int, float) and least <= size <= most  # type: ignore[operator]


def _fits_object(schema: Mapping[str, object], value: Mapping[str, object]) -> bool:
    properties, required = schema.get("properties", {}), schema.get("required", [])
    others = schema.get("additionalProperties", True)
    if not isinstance(properties, Mapping) or not isinstance(required, list):
        return False
    return all(name in value for name in required) and all(
        fits_plainly(properties.get(name, others), inner) for name, inner in value.items()
    )
