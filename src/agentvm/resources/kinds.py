"""Kinds — the table of all types of resources; adding one is a line here and a file beside this one."""

from collections.abc import Collection, Mapping

import msgspec

from agentvm.model.base import Record
from agentvm.model.provider_tool import why_not_run
from agentvm.model.resource import ResourceType
from agentvm.resources.agent import Agents
from agentvm.resources.kind import ResourceKind
from agentvm.resources.knowledge import Knowledge
from agentvm.resources.prompt import Prompts
from agentvm.resources.sandbox import Sandboxes
from agentvm.resources.skill import Skills
from agentvm.resources.tool import SETS, Tools

_ALL: tuple[ResourceKind, ...] = (Prompts(), Tools(), Sandboxes(), Agents(), Knowledge(), Skills())
KINDS: dict[ResourceType, ResourceKind] = {kind.type: kind for kind in _ALL}

_ABOUT: dict[ResourceType, tuple[str, str]] = {
    "prompts": ("prompt", "Text for a model, with variables and parts of other prompts and documents"),
    "tools": ("tool", "A function that a model can call: its description, and the code that runs"),
    "sandboxes": ("sandbox", "The environment of tools: limits, files, packages and network"),
    "agents": ("agent", "A definition of agents: prompt, model, tools, sandbox, knowledge and skills"),
    "knowledge": ("knowledge", "Documents that agents look things up in"),
    "skills": ("skill", "Instructions for a task, with files, which agents read when they need them"),
}


class TypeDescription(Record):
    """The description of a type in `GET /v1/resources/types`."""

    type: ResourceType
    singular: str
    description: str
    schema: dict[str, object]
    """The JSON Schema of the content."""


def describe_types() -> tuple[TypeDescription, ...]:
    return tuple(
        TypeDescription(
            type=type_,
            singular=_ABOUT[type_][0],
            description=_ABOUT[type_][1],
            schema=msgspec.json.schema(kind.content),
        )
        for type_, kind in KINDS.items()
    )


RUNNABLE_TOOLS = frozenset(
    {"http", "openapi", "mcp", "python", "javascript", "shell", "command", "agent", "client", "provider"}
)
"""Runtimes of tools, besides the built-in one, that this server can call."""


_NOT_FROZEN = "its tools are not known; publish it again, or use avm resource pin"


def why_idle(kind: ResourceType, content: Mapping[str, object], tools: Collection[str]) -> str | None:
    """Returns the reason why a resource has no effect here; None if it has one. `tools` are the names of built-in tools."""
    match kind:
        case "tools" if content.get("runtime") in RUNNABLE_TOOLS and content.get("runtime") in SETS:
            # In an image each tool of a set is by itself, with its own pin.
            return None if content.get("frozen") or isinstance(content.get("pin"), str) else _NOT_FROZEN
        case "tools" if content.get("runtime") == "provider":
            why = why_not_run(str(content.get("entry")))
            return None if why is None else f"{why}; models do not see it"
        case "tools" if content.get("runtime") in RUNNABLE_TOOLS:
            return None
        case "tools" if content.get("runtime") != "builtin":
            return f"tools with the runtime {content.get('runtime')} cannot run on this server yet; models do not see it"
        case "tools" if content.get("entry") not in tools:
            return f"there is no built-in tool {content.get('entry')!r} on this server; models do not see it"
        case _:
            return None
