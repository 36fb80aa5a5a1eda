"""Definition commands — the templates images are built from."""

from agentvm.commands.call import Call
from agentvm.errors import DefinitionNotFound
from agentvm.protocol import commands as ask


async def list_all(call: Call, command: ask.DefinitionList) -> ask.DefinitionListReply:
    return ask.DefinitionListReply(definitions=call.peer.definitions.list(call.peer.tenant_id))


async def get(call: Call, command: ask.DefinitionGet) -> ask.DefinitionGetReply:
    try:
        found = call.peer.definitions.get(call.peer.tenant_id, command.definition_name)
    except DefinitionNotFound:
        return ask.DefinitionGetReply(definition=None)
    return ask.DefinitionGetReply(definition=found)


async def register(call: Call, command: ask.DefinitionRegister) -> ask.DefinitionRegisterReply:
    call.peer.runtime.check(command.definition)
    return ask.DefinitionRegisterReply(definition=call.peer.definitions.register(call.peer.tenant_id, command.definition))
