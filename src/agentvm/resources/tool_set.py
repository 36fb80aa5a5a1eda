"""Tool sets — the tools of one resource, each as an image has it: with a name, a description, schemas and a pin of its own."""

from collections.abc import Mapping
from typing import Any, Literal, cast

import msgspec

from agentvm.model.base import Record
from agentvm.model.resource import is_reference
from agentvm.model.tool import Effect
from agentvm.resources.kind import JsonObject
from agentvm.resources.tool import SETS, model_name

_EFFECTS: tuple[Effect, ...] = ("read", "write", "destructive")
_SHARED = ("world", "repeat", "ask", "timeoutMs", "secrets", "resourceId", "permissions", "resolved")
"""Members that a set has for all of its tools."""


class ToolChange(Record):
    """The difference of one tool between two readings of a set; `lines` has the removed and added lines, by member."""

    name: str
    change: Literal["added", "removed", "changed", "same"]
    pin: str | None = None
    """Digest that the tool of an MCP server has now."""
    lines: dict[str, str] = msgspec.field(default_factory=dict)


def names_source(content: object) -> bool:
    """Whether the content is that of a set whose tools are still to be read."""
    return (
        isinstance(content, Mapping)
        and content.get("runtime") in SETS
        and content.get("frozen") is None
        and not is_reference(str(content.get("entry")))
    )


def expand(spec: Mapping[str, Any]) -> tuple[JsonObject, ...]:
    """Returns the specs of the tools of a rendered set, in the order of their names; any other spec as it is.

    A tool is named `<resource>__<tool>`, its URI has the tool as its fragment. A set of the one tool that its entry names is
    that tool under the resource's own name and description.
    """
    frozen = spec.get("frozen")
    if frozen is None:
        return (dict(spec),)
    single = spec["runtime"] == "mcp" and "#" in spec["entry"]
    return tuple(_single(spec, name, tool) if single else _one_of(spec, name, tool) for name, tool in frozen.items())


def _single(spec: Mapping[str, Any], name: str, tool: Mapping[str, Any]) -> JsonObject:
    return _one_of(spec, name, tool) | {member: spec[member] for member in ("uri", "name", "description") if member in spec}


def _one_of(spec: Mapping[str, Any], name: str, tool: Mapping[str, Any]) -> JsonObject:
    traits = (spec.get("tools") or {}).get(name) or {}
    shared = {member: spec[member] for member in _SHARED if member in spec}
    own = {member: value for member, value in tool.items() if member not in ("entry", "effect")}
    branch: JsonObject = {
        **({"uri": f"{spec['uri']}#{name}"} if "uri" in spec else {}),
        "name": model_name(f"{spec['name']}__{name}"),
        **shared,
        **own,
        "inputSchema": {"type": "object", **tool["inputSchema"]},
        "effect": traits.get("effect") or _stricter(spec.get("effect"), tool.get("effect")),
        **{member: traits[member] for member in ("world", "repeat", "headers") if member in traits},
        "ask": bool(spec.get("ask") or traits.get("ask")),
    }
    if branch["effect"] == "destructive" and branch.get("repeat") == "safe":
        del branch["repeat"]
    if spec["runtime"] == "openapi":
        return branch | {"runtime": "http", "entry": tool["entry"]}
    return branch | {"runtime": "mcp", "entry": f"{spec['entry'].partition('#')[0]}#{name}"}


def _stricter(of_set: str | None, of_tool: str | None) -> Effect:
    """Returns the effect of a tool: its own, or that of the set if that is stronger."""
    stated = [cast(Effect, effect) for effect in (of_set, of_tool) if effect is not None]
    return max(stated, key=_EFFECTS.index, default="write")
