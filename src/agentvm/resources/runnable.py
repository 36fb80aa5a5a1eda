"""Runnable — which resources this server can act upon; what it cannot is kept, and said so wherever it is accepted."""

from collections.abc import Collection, Mapping

from agentvm.model.resource import ResourceType


def why_idle(kind: ResourceType, content: Mapping[str, object], tools: Collection[str]) -> str | None:
    """The reason why a resource does nothing here; None if it does something. `tools` are the names of built-in tools."""
    match kind:
        case "tools" if content.get("runtime") != "builtin":
            return f"tools with the runtime {content.get('runtime')} cannot run on this server yet; models are not told of it"
        case "tools" if content.get("entry") not in tools:
            return f"there is no built-in tool {content.get('entry')!r} on this server; models are not told of it"
        case "sandboxes":
            return "it is kept, but nothing runs in sandboxes on this server yet"
        case "knowledge":
            return "it is kept, but agents cannot look things up on this server yet"
        case _:
            return None
