"""Table — every operation, and the commands among them."""

from typing import Any

from agentvm.operations.modules import MODULES, group_of
from agentvm.operations.operation import Operation, OperationGroup
from agentvm.protocol.command_codec import CommandCodec
from agentvm.protocol.requests import Request

GROUPS: tuple[OperationGroup, ...] = tuple(map(group_of, MODULES))

OPERATIONS: tuple[Operation, ...] = tuple(row for group in GROUPS for row in group.rows)

BY_NAME = {row.name: row for row in OPERATIONS}
BY_COMMAND = {row.command: row for row in OPERATIONS if row.command is not None}
BY_REQUEST = {row.request: row for row in OPERATIONS if row.command is not None}

COMMANDS: dict[str, type[Request[Any]]] = {name: row.request for name, row in BY_COMMAND.items()}
"""The type of every command's request, by the command's name."""

_ADDITIVE_OF_1X = {"container_delete", "image_build", "image_open", "image_upgrade", "message_edit", "message_regenerate"}
_ADDITIVE_NOUNS = (
    "attachment_", "definition_", "file_", "memory_", "session_", "resource_", "run_", "tool_", "schedule_", "trigger_"
)  # fmt: skip

ADDITIVE = frozenset(name for name in COMMANDS if name in _ADDITIVE_OF_1X or name.startswith(_ADDITIVE_NOUNS))
"""Commands that AgentX 1.x does not have. Its clients never send them, so no client relies on ignored fields."""

CODEC = CommandCodec(COMMANDS, ADDITIVE)


def command_name(request: Request[Any]) -> str:
    """The command that a request is the data of."""
    return str(BY_REQUEST[type(request)].command)


def reply_type(request: Request[Any]) -> Any:
    """The type of the reply to a request."""
    return BY_REQUEST[type(request)].reply
