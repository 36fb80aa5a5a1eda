"""Published tool — refuses members of a new tool that would be stored and then have no effect.

Contents of older archives may have them, so these are no rules of the type: archives stay importable.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from agentvm.errors import shorten
from agentvm.errors.resource import ResourceInvalid
from agentvm.model.resource import is_reference
from agentvm.runtime.tools import Tool
from agentvm.tools.code import CODE_RUNTIMES

_OF_TARGET = ("outputSchema", "effect", "world", "repeat", "http", "needs", "secrets", "timeoutMs", "sandbox")
"""Members that a tool which refers to another takes from that one."""


def check_published(content: Mapping[str, Any], find: Callable[[Mapping[str, object]], Tool | None]) -> None:
    """Refuses the content of a new version; `find` returns the built-in tool of a content."""
    if content.get("permissions"):
        raise ResourceInvalid("permissions has no effect; a sandbox gives a tool its network, and a grant its secrets")
    runtime, entry = content.get("runtime"), str(content.get("entry"))
    if is_reference(entry) and runtime != "agent":
        if member := next((member for member in _OF_TARGET if content.get(member) is not None), None):
            raise ResourceInvalid(f"{member} has no effect: it is that of {shorten(entry)}, which this tool refers to")
        return
    if content.get("sandbox") is not None and runtime not in CODE_RUNTIMES:
        raise ResourceInvalid(f"sandbox has no effect on a tool with the runtime {runtime}, which runs no code in one")
    if runtime == "builtin" and (tool := find({"runtime": "builtin", "entry": entry})) is not None:
        for member, own in _differences(content, tool):
            raise ResourceInvalid(f"{member} has no effect: that of the built-in tool {entry} is {own}; only ask can be added")


def _differences(content: Mapping[str, Any], tool: Tool) -> Iterator[tuple[str, str]]:
    """Yields the members that differ from the built-in tool, with its values."""
    repeat = "safe" if tool.repeatable else "never"
    own = {"effect": tool.effect, "world": tool.world, "repeat": repeat, "timeoutMs": round(tool.timeout_seconds * 1000)}
    for member, value in own.items():
        if content.get(member) not in (None, value):
            yield member, str(value)
    if content.get("outputSchema") is not None:
        yield "outputSchema", "none"
