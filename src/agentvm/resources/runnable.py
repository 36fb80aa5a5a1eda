"""Runnable — the resources that this server can act upon; any other is stored, with a warning wherever it is accepted."""

from collections.abc import Collection, Mapping

from agentvm.model.resource import ResourceType


def why_idle(kind: ResourceType, content: Mapping[str, object], tools: Collection[str]) -> str | None:
    """Returns the reason why a resource has no effect here; None if it has one. `tools` are the names of built-in tools."""
    match kind:
        case "tools" if content.get("runtime") != "builtin":
            return f"tools with the runtime {content.get('runtime')} cannot run on this server yet; models do not see it"
        case "tools" if content.get("entry") not in tools:
            return f"there is no built-in tool {content.get('entry')!r} on this server; models do not see it"
        case "sandboxes":
            return "it is stored, but nothing runs in sandboxes on this server yet"
        case "knowledge":
            return "it is stored, but agents cannot search knowledge on this server yet"
        case _:
            return None
