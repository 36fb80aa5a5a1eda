"""Validation — words an error of msgspec for the author of the JSON: the field, the expected value, the probable typo.

msgspec says "Expected `int` >= 1 - at `$.limit`"; the author reads "limit must be a whole number, at least 1". A message of
another form keeps the words of msgspec.
"""

import re
from functools import lru_cache

import msgspec
from msgspec import inspect

from agentvm.errors import shorten, suggest

_AT = re.compile(r"(?s)(?P<problem>.*) - at `(?:key in )?\$(?P<path>.*)`")
_STEP = re.compile(r"\.([^.\[]+)|\[(\d+|\.\.\.)\]")
_MISSING = re.compile(r"Object missing required field `(.+)`")
_UNKNOWN = re.compile(r"(?s)Object contains unknown field `(.*)`")
_TYPE = re.compile(r"Expected `([^`]+)`, got `([^`]+)`")
_BOUND = re.compile(r"Expected `([^`]+)` (of length )?(>=|<=|>|<) (\S+)")
_PATTERN = re.compile(r"(?s)Expected `str` matching regex (.+)")
_ENUM = re.compile(r"(?s)Invalid enum value (.+)")
_TYPES = {
    "str": "a string", "int": "a whole number", "float": "a number", "bool": "true or false", "array": "an array",
    "object": "an object", "null": "null", "bytes": "base64",
}  # fmt: skip
_BOUNDS = {">=": "at least", "<=": "at most", ">": "more than", "<": "less than"}


_NO_LINE_BREAK = r"(?!\\n)"
"""The end of patterns that let no line break follow, as a message quotes it."""


def explain(error: msgspec.ValidationError, kind: object) -> str:
    """Returns the first fault of a value that should have been a `kind`, as a sentence without a capital or a full stop."""
    at = _AT.fullmatch(str(error))
    problem, path = (at["problem"], at["path"]) if at else (str(error), "")
    steps = [name or index for name, index in _STEP.findall(path)]
    where = ".".join("*" if step == "..." else step for step in steps)
    if missing := _MISSING.fullmatch(problem):
        return f"{_within(where, missing[1])} is missing"
    if unknown := _UNKNOWN.fullmatch(problem):
        fields = _fields(_type_at(_type_of(kind), steps))
        hint = suggest(unknown[1], fields) if fields else "it takes none"
        return f"there is no field {_within(where, shorten(unknown[1]))}; {hint}"
    return _explain_value(problem, where, _type_at(_type_of(kind), steps))


def path_of(error: msgspec.ValidationError) -> str:
    """Returns the path of the invalid field: `tools.0`; that of an unknown field includes its name."""
    at = _AT.fullmatch(str(error))
    problem, path = (at["problem"], at["path"]) if at else (str(error), "")
    where = ".".join(name or index for name, index in _STEP.findall(path))
    unknown = _UNKNOWN.fullmatch(problem)
    return where if unknown is None else _within(where, shorten(unknown[1]))


def _explain_value(problem: str, where: str, kind: inspect.Type | None) -> str:
    name = where or "it"
    if mismatch := _TYPE.fullmatch(problem):
        actual = "a fraction" if mismatch[2] == "float" else _types(mismatch[2])
        return f"{name} must be {_types(mismatch[1])}, not {actual}"
    if bound := _BOUND.fullmatch(problem):
        limit = f"{_BOUNDS[bound[3]]} {bound[4]}"
        if bound[2]:
            return f"{name} must be {_types(bound[1])} of {limit} {'items' if bound[1] == 'array' else 'characters'}"
        return f"{name} must be {_types(bound[1])}, {limit}"
    if pattern := _PATTERN.fullmatch(problem):
        return f"{name} must match {pattern[1].replace(_NO_LINE_BREAK, '')}"
    if (enum := _ENUM.fullmatch(problem)) and (values := _values(kind)):
        return f"{name} must be one of {', '.join(values)}, not {shorten(enum[1])}"
    return f"{where}: {problem[:1].lower()}{problem[1:]}" if where else problem


def _within(where: str, field: str) -> str:
    return f"{where}.{field}" if where else field


def _types(names: str) -> str:
    return " or ".join(_TYPES.get(name, name) for name in names.split(" | "))


# Kinds are the classes of this program, and looking into one costs more than the rest of the sentence.
@lru_cache(maxsize=256)
def _type_of(kind: object) -> inspect.Type:
    return inspect.type_info(kind)


def _type_at(kind: inspect.Type, steps: list[str]) -> inspect.Type | None:
    """The type of the field that a path leads to."""
    current: inspect.Type | None = kind
    for step in steps:
        current = next((inner for option in _options(current) if (inner := _inner(option, step)) is not None), None)
    return current


def _inner(kind: inspect.Type, step: str) -> inspect.Type | None:
    if isinstance(kind, inspect.StructType):
        return next((field.type for field in kind.fields if field.encode_name == step), None)
    if isinstance(kind, inspect.VarTupleType | inspect.ListType):
        return kind.item_type
    return kind.value_type if isinstance(kind, inspect.DictType) else None


def _options(kind: inspect.Type | None) -> tuple[inspect.Type, ...]:
    if isinstance(kind, inspect.UnionType):
        return kind.types
    return () if kind is None else (kind,)


def _fields(kind: inspect.Type | None) -> list[str]:
    return [field.encode_name for option in _options(kind) if isinstance(option, inspect.StructType) for field in option.fields]


def _values(kind: inspect.Type | None) -> list[str]:
    return [str(value) for option in _options(kind) if isinstance(option, inspect.LiteralType) for value in option.values]
