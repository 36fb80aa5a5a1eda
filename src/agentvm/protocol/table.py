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

    image_create: Answer[P, ask.ImageCreate, ask.ImageReply]
    image_build: Answer[P, ask.ImageBuild, ask.ImageReply]
    image_run: Answer[P, ask.ImageRun, ask.ImageRunReply]
    image_stop: Answer[P, ask.ImageStop, ask.ImageIdReply]
    image_update: Answer[P, ask.ImageUpdate, ask.ImageReply]
    image_upgrade: Answer[P, ask.ImageUpgrade, ask.ImageUpgradeReply]
    image_list: Answer[P, ask.ImageList, ask.ImageListReply]
    image_get: Answer[P, ask.ImageGet, ask.ImageReply]
    image_delete: Answer[P, ask.ImageDelete, ask.ImageIdReply]
    image_messages: Answer[P, ask.ImageMessages, ask.ImageMessagesReply]
    attachment_list: Answer[P, ask.AttachmentList, ask.AttachmentListReply]
    attachment_get: Answer[P, ask.AttachmentGet, ask.AttachmentGetReply]
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
