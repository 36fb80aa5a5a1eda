"""Definition commands — the templates that images are built from: list, get, register."""

import msgspec

from agentvm.commands.call import Call
from agentvm.errors import DefinitionNotFound
from agentvm.errors.resource import ResourceNotFound
from agentvm.model.definition import Definition
from agentvm.model.resource import SYSTEM, SYSTEM_TENANT, Resource, ResourceUri, is_reference
from agentvm.protocol import commands as ask
from agentvm.protocol.records import DefinitionRecord


async def list_all(call: Call, command: ask.DefinitionList) -> ask.DefinitionListReply:
    listed = [_record(definition, resource) async for definition, resource in call.workspace.templates.list()]
    return ask.DefinitionListReply(definitions=tuple(listed))


async def get(call: Call, command: ask.DefinitionGet) -> ask.DefinitionGetReply:
    try:
        definition, resource = await call.workspace.templates.get(command.definition_name)
    except (DefinitionNotFound, ResourceNotFound):
        return ask.DefinitionGetReply(definition=None)
    record = _record(definition, resource)
    if is_reference(command.definition_name):
        record = msgspec.structs.replace(record, uri=command.definition_name)
    return ask.DefinitionGetReply(definition=record)


async def register(call: Call, command: ask.DefinitionRegister) -> ask.DefinitionRegisterReply:
    await call.workspace.builder.check(command.definition)
    return ask.DefinitionRegisterReply(definition=await call.workspace.templates.register(command.definition))


def _record(definition: Definition, resource: Resource | None = None) -> DefinitionRecord:
    uri: str | None = None
    if resource is not None:
        owner = SYSTEM if resource.tenant_id == SYSTEM_TENANT else None
        uri = str(ResourceUri(type="agents", owner=owner, name=resource.name))
    return DefinitionRecord(**msgspec.structs.asdict(definition), uri=uri)
