"""Earlier RPC — names of AgentX 2.0 to 2.8 that 2.9 has changed or removed.

An instance was an agent (to 2.6), containers and prototypes had methods (to 2.7), and how an agent acts stood in `embody` (2.5
to 2.8). A client is known by its first such word; from then on it is told both names. Its subscriptions have no effect:
servers of those versions sent all events to all clients; here a client receives the events of its own container.
"""

from typing import Any, Final

import msgspec

from agentvm.errors import NotAvailable
from agentvm.model.base import Record
from agentvm.operations import container, definition
from agentvm.operations.context import Context
from agentvm.operations.dispatch import execute
from agentvm.operations.rpc_methods import Nothing, rpc_method
from agentvm.protocol.dialect_v2 import agent_of
from agentvm.protocol.records import DefinitionRecord
from agentvm.protocol.rpc import RpcCall

_NOTIFICATIONS: Final = ("subscribe", "unsubscribe")
_PREFIXES: Final = ("agent.", "container.", "prototype.")
_EMBODIED: Final = ("model", "systemPrompt", "mcpServers")


class _EarlierMembers(msgspec.Struct, rename="camel"):
    agent_id: msgspec.Raw = msgspec.Raw(b"")
    embody: msgspec.Raw = msgspec.Raw(b"")
    context_id: msgspec.Raw = msgspec.Raw(b"")


_members: Final = msgspec.json.Decoder(_EarlierMembers)


def is_earlier(call: RpcCall) -> bool:
    """Whether only a client of 2.0 to 2.8 would say this."""
    if call.method in _NOTIFICATIONS or call.method.startswith(_PREFIXES):
        return True
    if len(call.params) <= len("{}"):
        return False
    try:
        members = _members.decode(call.params)
    except msgspec.DecodeError:
        return False
    return bool(len(members.agent_id) or len(members.embody) or len(members.context_id))


def with_earlier_names(result: object) -> object:
    """Returns a result in which an instance is an agent, too, and an image embodies how it acts."""
    if isinstance(result, list):
        return [with_earlier_names(item) for item in result]
    if not isinstance(result, dict):
        return result
    named: dict[str, Any] = {**result}
    for name in ("agent", "agents", "record", "records"):
        if name in named:
            named[name] = with_earlier_names(named[name])
    instance_id = named.get("instanceId")
    if isinstance(instance_id, str):
        named["agentId"] = agent_of(instance_id)
    if "imageId" in named and "name" in named:
        named["embody"] = {name: named[name] for name in _EMBODIED if name in named}
    return named


class OfContainer(Record):
    container_id: str | None = None


@rpc_method("container.create")
async def container_create(context: Context, params: OfContainer) -> object:
    """Creates the client's own container, under any name: a client of 2.x works in no other."""
    reply = await execute(context, container.ContainerCreate(container_id=context.images.home()))
    return {"containerId": reply.container_id}


@rpc_method("container.get")
async def container_get(context: Context, params: OfContainer) -> object:
    reply = await execute(context, container.ContainerGet(container_id=context.images.home()))
    return {"containerId": context.images.home(), "exists": reply.exists}


@rpc_method("container.list")
async def container_list(context: Context, params: Nothing) -> object:
    reply = await execute(context, container.ContainerGet(container_id=context.images.home()))
    return {"containerIds": [context.images.home()] if reply.exists else []}


class OfPrototype(Record):
    prototype_id: str


@rpc_method("prototype.list")
async def prototype_list(context: Context, params: Nothing) -> object:
    """Lists the definitions, of which images are built."""
    reply = await execute(context, definition.DefinitionList())
    return {"records": [_prototype(context, record) for record in reply.definitions]}


@rpc_method("prototype.get")
async def prototype_get(context: Context, params: OfPrototype) -> object:
    reply = await execute(context, definition.DefinitionGet(definition_name=params.prototype_id))
    return {"record": None if reply.definition is None else _prototype(context, reply.definition)}


@rpc_method("prototype.create", "prototype.update", "prototype.delete")
async def prototype_change(context: Context, params: Nothing) -> object:
    raise NotAvailable("Prototypes are agents of the resource centre here: change them with avm resource or POST /v1/resources")


def _prototype(context: Context, record: DefinitionRecord) -> dict[str, object]:
    embodied = {"model": record.model, "systemPrompt": record.system_prompt}
    shown: dict[str, object] = {
        "prototypeId": record.uri or record.name,
        "containerId": context.images.home(),
        "name": record.name,
        "description": record.description,
        "embody": {name: value for name, value in embodied.items() if value is not None},
        "createdAt": 0,
        "updatedAt": 0,
    }
    return {name: value for name, value in shown.items() if value is not None}
