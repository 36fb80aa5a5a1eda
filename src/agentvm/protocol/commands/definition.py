"""Definition commands — the templates images are built from."""

from agentvm.model.definition import Definition
from agentvm.protocol.commands.base import Command, Reply
from agentvm.protocol.records import DefinitionRecord


class DefinitionListReply(Reply):
    definitions: tuple[DefinitionRecord, ...]


class DefinitionList(Command[DefinitionListReply]):
    name = "definition_list"
    reply_type = DefinitionListReply


class DefinitionGetReply(Reply):
    definition: DefinitionRecord | None


class DefinitionGet(Command[DefinitionGetReply]):
    """By name, or by the URI of an agent."""

    name = "definition_get"
    reply_type = DefinitionGetReply
    definition_name: str


class DefinitionRegisterReply(Reply):
    definition: Definition


class DefinitionRegister(Command[DefinitionRegisterReply]):
    """Registering the same definition again changes nothing; another one of that name is a conflict."""

    name = "definition_register"
    reply_type = DefinitionRegisterReply
    definition: Definition
