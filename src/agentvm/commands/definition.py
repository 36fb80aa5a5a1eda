"""Definition commands — the templates images are built from: those that are registered, and the agents among the resources."""

from collections.abc import AsyncIterator
from dataclasses import replace

import msgspec

from agentvm.blueprint.definition import Definitions
from agentvm.commands import gate
from agentvm.commands.call import Call
from agentvm.commands.references import READ, as_written
from agentvm.errors import DefinitionConflict, DefinitionNotFound, InvalidInput
from agentvm.errors.resource import ResourceNotFound
from agentvm.model.definition import Definition, snapshot_of
from agentvm.model.ids import TenantId
from agentvm.model.resource import (
    SYSTEM,
    SYSTEM_TENANT,
    Resource,
    ResourceUri,
    check_name,
    is_reference,
    latest_of,
    parse_uri,
)
from agentvm.protocol import commands as ask
from agentvm.protocol.records import DefinitionRecord
from agentvm.storage.resources import Search
from agentvm.vm import Peer

MAX_LISTED = 1_000
"""Agents of the resource centre in one list."""
MAX_LISTED_BYTES = 16 * 1024 * 1024
"""Of their contents: more than that is no list that anybody reads."""
PAGE = 50


async def list_all(call: Call, command: ask.DefinitionList) -> ask.DefinitionListReply:
    peer = call.peer
    listed = {one.name: _record(one) for one in await peer.vm.definitions.list(peer.tenant_id)}
    if peer.principal.may(READ):
        async for resource, content in _agents(peer):
            # What comes first is what the name means, so what it hides is not shown.
            if resource.name not in listed:
                listed[resource.name] = _record(as_written(resource.name, content), resource)
    return ask.DefinitionListReply(definitions=tuple(listed.values()))


async def get(call: Call, command: ask.DefinitionGet) -> ask.DefinitionGetReply:
    try:
        found = await find_base(call.peer, command.definition_name)
        if isinstance(found, Definition):
            return ask.DefinitionGetReply(definition=_record(found))
        agent = await call.peer.vm.resources.resolver.find(call.peer.tenant_id, parse_uri(found))
    except (DefinitionNotFound, ResourceNotFound):
        return ask.DefinitionGetReply(definition=None)
    record = _record(as_written(agent.root.resource.name, agent.root.content), agent.root.resource)
    if is_reference(command.definition_name):
        record = msgspec.structs.replace(record, uri=command.definition_name)
    return ask.DefinitionGetReply(definition=record)


async def register(call: Call, command: ask.DefinitionRegister) -> ask.DefinitionRegisterReply:
    peer, definition = call.peer, command.definition
    peer.vm.runtime.check(definition)
    resource = await _agent_named(peer, definition.name)
    if resource is not None and resource.tenant_id == peer.tenant_id:
        written = await _latest(peer, resource)
        if written is None or not _same(written, definition):
            raise DefinitionConflict(f"resource://agents/{definition.name} is another definition; choose another name")
    return ask.DefinitionRegisterReply(definition=await peer.vm.definitions.register(peer.tenant_id, definition))


async def check_free(tenant_id: TenantId, definitions: Definitions, name: str, definition: Definition | None = None) -> None:
    """To be asked before an agent is made a resource: `DefinitionConflict` when its name is that of a registered definition.

    Unless it is the same: then it does not matter which of the two is meant.
    """
    try:
        known = await definitions.get(tenant_id, name)
    except DefinitionNotFound:
        return
    if definition is None or not _same(known, definition):
        raise DefinitionConflict(f"A definition named {name!r} is registered on this server; choose another name")


async def find_base(peer: Peer, named: str) -> Definition | str:
    """What an image is to be built from: a registered definition, or the URI of an agent, which a build follows."""
    if is_reference(named):
        gate.require(peer.principal, READ)
        uri = parse_uri(named)
        if uri.type != "agents":
            raise InvalidInput(f"A definition must be one of agents; {uri} is one of {uri.type}")
        return named
    try:
        return await peer.vm.definitions.get(peer.tenant_id, named)
    except DefinitionNotFound:
        if not peer.principal.may(READ) or await _agent_named(peer, named) is None:
            raise
    return str(ResourceUri(type="agents", name=named))


async def _agent_named(peer: Peer, name: str) -> Resource | None:
    """The tenant's own, else the server's."""
    try:
        check_name(name)
    except InvalidInput:
        return None
    return await peer.vm.resources.store.resources(peer.tenant_id).find("agents", name)


async def _agents(peer: Peer) -> AsyncIterator[tuple[Resource, bytes]]:
    """The tenant's own, then the server's, each by name, with the content of the latest version; withdrawn ones not at all."""
    store, count, size = peer.vm.resources.store.resources(peer.tenant_id), 0, 0
    for scope in (Search(scope="own"), Search(owner=SYSTEM)):
        search: Search | None = replace(scope, type="agents", limit=PAGE, with_content=True)
        while search is not None:
            page = await store.search(search)
            for hit in page.items:
                count, size = count + 1, size + len(hit.content or b"")
                if count > MAX_LISTED or size > MAX_LISTED_BYTES:
                    return
                if hit.content is not None:
                    yield hit.resource, hit.content
            search = None if page.next is None else replace(search, after=page.next)


async def _latest(peer: Peer, resource: Resource) -> Definition | None:
    """None when all its versions are withdrawn, or it is gone meanwhile."""
    store = peer.vm.resources.store.resources(peer.tenant_id)
    version = latest_of((await store.history(resource.resource_id)).versions)
    if version is None:
        return None
    node = (await store.closure(version.version_id, limit=1)).get(version.version_id)
    return None if node is None else as_written(node.resource.name, node.content)


def _same(one: Definition, other: Definition) -> bool:
    return snapshot_of(one) == snapshot_of(other)


def _record(definition: Definition, resource: Resource | None = None) -> DefinitionRecord:
    uri: str | None = None
    if resource is not None:
        owner = SYSTEM if resource.tenant_id == SYSTEM_TENANT else None
        uri = str(ResourceUri(type="agents", owner=owner, name=resource.name))
    return DefinitionRecord(**msgspec.structs.asdict(definition), uri=uri)
