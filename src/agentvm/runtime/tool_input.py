"""Tool input — the text that a model has written as the input of a tool, as data. Pure."""

import re

import msgspec

DEPTH_MAX = 100
"""Levels: stored input must also be readable with a shorter stack."""

INPUT_MAX_CHARACTERS = 4 * 1024 * 1024
"""Length of the JSON: far more than a model writes. It is stored, sent to every peer and read with the history."""

TOO_LONG = f"the tool's input has more than {INPUT_MAX_CHARACTERS:,} characters; give less at once"


def parse_input(json: str) -> tuple[dict[str, object], str | None]:
    """The input, and its fault if it cannot be used."""
    if not json.strip():
        return {}, None
    try:
        arguments = msgspec.json.decode(json, type=dict[str, object])
    except (msgspec.DecodeError, RecursionError) as problem:
        return {}, f"the tool's input is not a JSON object: {problem}"
    if depth_of(arguments) > DEPTH_MAX:
        return {}, f"the tool's input is nested more than {DEPTH_MAX} levels deep"
    return arguments, None


def depth_of(value: object) -> int:
    """Returns the levels of a JSON value."""
    # Level by level and not by recursion: what is measured may be too deep for that.
    depth, level = 0, [value]
    while level:
        depth += 1
        below: list[object] = []
        for item in level:
            below += item.values() if isinstance(item, dict) else item if isinstance(item, list) else ()
        level = below
    return depth


_BRACKETS = re.compile(r'"(?:[^"\\]|\\.)*"|[\[{]|[\]}]')


def depth_of_text(text: str) -> int:
    """Returns the levels of a JSON value from its text, which may be too long to become objects."""
    depth = deepest = 0
    for token in _BRACKETS.finditer(text):
        mark = token[0][0]
        depth += (mark in "[{") - (mark in "]}")
        deepest = max(deepest, depth)
    return deepest
