"""Misfit — says in words of the wire what content does not fit: which member, what is expected, and what was probably meant."""

import re
from typing import Any

import msgspec
from msgspec import inspect

from agentvm.errors import shorten, suggest

_AT = re.compile(r"(?s)(?P<what>.*) - at `(?:key in )?\$(?P<path>.*)`")
_STEP = re.compile(r"\.([^.\[]+)|\[(\d+|\.\.\.)\]")
_UNKNOWN = re.compile(r"(?s)Object contains unknown field `(.*)`")
_MISSING = re.compile(r"Object missing required field `(.*)`")
_WORDS = {
    "str": "a string", "int": "a whole number", "float": "a number", "bool": "true or false", "array": "an array",
    "object": "an object", "null": "null", "bytes": "base64",
}  # fmt: skip


def explain(error: msgspec.ValidationError, content: type[msgspec.Struct]) -> str:
    """A sentence for people about what `msgspec` found first."""
    found = _AT.fullmatch(str(error))
    what, path = (found["what"], found["path"]) if found else (str(error), "")
    steps = [name or index for name, index in _STEP.findall(path)]
    kind = _at(inspect.type_info(content), steps)
    where = ".".join("*" if step == "..." else step for step in steps)
    if unknown := _UNKNOWN.fullmatch(what):
        return _unknown(".".join(filter(None, [where, shorten(unknown[1])])), unknown[1], _members(kind))
    if missing := _MISSING.fullmatch(what):
        return f"{'.'.join(filter(None, [where, missing[1]]))} is missing"
    if what.startswith("Invalid enum value"):
        values = [str(value) for one in _choices(kind) if isinstance(one, inspect.LiteralType) for value in one.values]
        return f"{where or 'it'} must be one of {', '.join(values)}, not {shorten(what.removeprefix('Invalid enum value '))}"
    return f"{where or 'it'}: {_plain(what)}"


def _unknown(where: str, name: str, known: list[str]) -> str:
    return f"there is no member {where}; {suggest(name, known)}" if known else f"there is no member {where}"


def _plain(what: str) -> str:
    """`Expected `str`, got `int`` in the words of JSON."""
    plain = re.sub(r"`([\w| ]+)`", lambda found: " or ".join(_WORDS.get(one, one) for one in found[1].split(" | ")), what)
    return plain[:1].lower() + plain[1:]


def _choices(kind: inspect.Type | None) -> list[inspect.Type]:
    if isinstance(kind, inspect.UnionType):
        return list(kind.types)
    return [] if kind is None else [kind]


def _members(kind: inspect.Type | None) -> list[str]:
    return [field.encode_name for one in _choices(kind) if isinstance(one, inspect.StructType) for field in one.fields]


def _at(kind: inspect.Type, steps: list[str]) -> inspect.Type | None:
    """The type of the member that a path leads to."""
    now: inspect.Type | None = kind
    for step in steps:
        now = next((inner for one in _choices(now) if (inner := _inner(one, step)) is not None), None)
    return now


def _inner(kind: Any, step: str) -> inspect.Type | None:
    if isinstance(kind, inspect.StructType):
        return next((field.type for field in kind.fields if field.encode_name == step), None)
    if isinstance(kind, inspect.VarTupleType | inspect.ListType):
        return kind.item_type
    return kind.value_type if isinstance(kind, inspect.DictType) else None
