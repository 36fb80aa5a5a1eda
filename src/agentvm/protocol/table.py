"""Table — the one list of commands. Every dialect, the client and the reference documentation follow it.

It is generic over what carries a command out; `agentvm.commands.dispatch` fills it, and a command without an implementation
is a type error there.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, fields
from typing import Any, Generic, TypeVar

from agentvm.protocol import commands as ask

P = TypeVar("P")
C = TypeVar("C")
R = TypeVar("R")
Answer = Callable[[P, C], Awaitable[R]]


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandTable(Generic[P]):
    """One implementation per command; the field's name is the command's."""

    resource_register: Answer[P, ask.ResourceRegister, ask.ResourceRegisterReply]
    resource_publish: Answer[P, ask.ResourcePublish, ask.ResourceRegisterReply]
    resource_list: Answer[P, ask.ResourceList, ask.ResourceListReply]
    resource_resolve: Answer[P, ask.ResourceResolve, ask.ResourceResolveReply]


_KINDS = {kind.name: kind for kind in ask.Command.__subclasses__()}

COMMANDS: dict[str, type[ask.Command[Any]]] = {field.name: _KINDS[field.name] for field in fields(CommandTable)}
"""Every command's type by its name."""

ADDITIVE = frozenset({"image_build", "image_upgrade", "message_edit", "message_regenerate"}) | {
    name for name in COMMANDS if name.startswith(("attachment_", "definition_", "session_", "resource_"))
}
"""Commands that AgentX 1.x does not have. Its clients never send them, so nobody relies on what they overlook."""
