"""Tool input — what a model has written as the input of a tool, as data. Pure."""

import msgspec

DEPTH_MAX = 100
"""Levels: what is stored must also be readable for those with a shorter stack."""


def parse_input(json: str) -> tuple[dict[str, object], str | None]:
    """The input, and what is wrong with it if it cannot be used."""
    if not json.strip():
        return {}, None
    try:
        arguments = msgspec.json.decode(json, type=dict[str, object])
    except (msgspec.DecodeError, RecursionError) as problem:
        return {}, f"the tool's input is not a JSON object: {problem}"
    if _depth(arguments) > DEPTH_MAX:
        return {}, f"the tool's input is nested more than {DEPTH_MAX} levels deep"
    return arguments, None


def _depth(value: object) -> int:
    """Level by level and not by recursion: what is measured may be too deep for that."""
    depth, level = 0, [value]
    while level:
        depth += 1
        below: list[object] = []
        for item in level:
            below += item.values() if isinstance(item, dict) else item if isinstance(item, list) else ()
        level = below
    return depth
