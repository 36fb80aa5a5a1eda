"""Wording — what is wrong with a body or a query, in the words of who sent it.

msgspec says "Expected `int` >= 1 - at `$.limit`"; people who write JSON are told "limit must be a whole number, at least 1".
What is not recognised here is told as msgspec says it.
"""

import re
from typing import Literal, get_args, get_origin

import msgspec

_KINDS = {
    "str": "text",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "array": "a list",
    "object": "an object",
    "null": "null",
    "bytes": "base64",
}
_BOUNDS = {">=": "at least", "<=": "at most", ">": "more than", "<": "less than"}
_SAID = re.compile(r"(?P<what>.*?)(?: - at `\$?\.?(?P<where>[^`]*)`)?", re.DOTALL)
_MISSING = re.compile(r"Object missing required field `(.+)`")
_UNKNOWN = re.compile(r"Object contains unknown field `(.+)`", re.DOTALL)
_KIND = re.compile(r"Expected `([^`]+)`, got `([^`]+)`")
_BOUND = re.compile(r"Expected `([^`]+)` (of length )?(>=|<=|>|<) (\S+)")
_PATTERN = re.compile(r"Expected `str` matching regex (.+)", re.DOTALL)
_CHOICE = re.compile(r"Invalid enum value (.+)", re.DOTALL)
_WHOLE = "It"


def plain(said: str, kind: type[msgspec.Struct]) -> str:
    """What msgspec said of something that is no `kind`, with the members called as they are in the JSON."""
    parts = _SAID.fullmatch(said)
    what, place = (said, _WHOLE) if parts is None else (parts["what"], parts["where"] or _WHOLE)
    if found := _MISSING.fullmatch(what):
        return f"{_within(place, found[1])} is missing"
    if found := _UNKNOWN.fullmatch(what):
        return f"{_within(place, found[1])} is not known here"
    if found := _KIND.fullmatch(what):
        return f"{place} must be {_kinds(found[1])}, not {'a fraction' if found[2] == 'float' else _kinds(found[2])}"
    if found := _BOUND.fullmatch(what):
        count = ("items" if found[1] == "array" else "characters") if found[2] else ""
        return f"{place} must be {_kinds(found[1])}{' with' if count else ','} {_BOUNDS[found[3]]} {found[4]} {count}".rstrip()
    if found := _PATTERN.fullmatch(what):
        return f"{place} must match {found[1]}"
    if found := _CHOICE.fullmatch(what):
        known = ", ".join(_choices(kind, place))
        return f"{place} must be one of {known}, not {found[1]}" if known else f"{place} must not be {found[1]}"
    return said


def _kinds(names: str) -> str:
    return " or ".join(_KINDS.get(name, name) for name in names.split(" | "))


def _within(place: str, member: str) -> str:
    return member if place == _WHOLE else f"{place}.{member}"


def _choices(kind: type[msgspec.Struct], name: str) -> list[str]:
    """What a member of the record itself may be; of those deeper inside it is not known."""
    for member in msgspec.structs.fields(kind):
        if member.encode_name == name:
            kinds = [member.type, *get_args(member.type)]
            return [str(value) for kind in kinds if get_origin(kind) is Literal for value in get_args(kind)]
    return []
