"""RPC methods — the methods of AgentX 2.x, each a row over the operations of this server.

A method reads its params, carries out operations through the same gate as every other client, and returns the result in the
words of 2.x. Members that it does not know are ignored, as 2.x servers do; a container that a client names is ignored too: it
works in its own.
"""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, TypeVar, cast

from agentvm.errors import ImageNotFound, InvalidInput
from agentvm.model.base import Record
from agentvm.model.ids import ImageId, MessageId
from agentvm.model.image import ImageConfig
from agentvm.model.message import UserContent
from agentvm.model.turn import TurnOptions
from agentvm.operations import agent, branch, image, image_build, message
from agentvm.operations.context import Context
from agentvm.operations.dispatch import execute
from agentvm.operations.rpc_files import list_files, read_file, write_file
from agentvm.operations.rpc_params import CreateParams, ThinkingWord, client_data, tokens_of
from agentvm.operations.rpc_providers import list_providers, refuse_change
from agentvm.protocol.dialect_v2 import agent_of, fold_messages, instance_of, is_instance
from agentvm.protocol.records import AgentRecord, ImageRecord

P = TypeVar("P", bound=Record)
Run = Callable[[Context, Any], Awaitable[object]]


@dataclass(frozen=True, slots=True)
class RpcMethod:
    """One method: the type of its params, and the function that carries it out."""

    params: type[Record]
    run: Run


METHODS: Final[dict[str, RpcMethod]] = {}


def rpc_method(*names: str) -> Callable[[Callable[[Context, P], Awaitable[object]]], Callable[[Context, P], Awaitable[object]]]:
    """Declares a method; further names are those of earlier 2.x versions."""

    def declare(run: Callable[[Context, P], Awaitable[object]]) -> Callable[[Context, P], Awaitable[object]]:
        params = cast(type[Record], run.__annotations__["params"])
        METHODS.update(dict.fromkeys(names, RpcMethod(params, run)))
        return run

    return declare


class Nothing(Record):
    """The params of a method that takes none."""


class OfImage(Record):
    """An image; an instance of it where clients give that in its place."""

    image_id: str


class UpdateParams(Record):
    image_id: str
    updates: CreateParams


@rpc_method("image.create")
async def image_create(context: Context, params: CreateParams) -> object:
    params = params.flat()
    config = ImageConfig(
        name=params.name,
        description=params.description,
        system_prompt=params.system_prompt,
        model=params.model,
        mcp_servers=params.mcp_servers,
        thinking=tokens_of(params.thinking),
        client_data=client_data(params, {}) or None,
    )
    reply = await execute(context, image_build.ImageCreate(container_id=context.images.home(), config=config))
    return {"record": _record(reply.record), "__subscriptions": [reply.record.session_id]}


@rpc_method("image.get")
async def image_get(context: Context, params: OfImage) -> object:
    reply = await execute(context, image.ImageGet(image_id=await _image_id(context, params.image_id)))
    if reply.record is None:
        return {"record": None}
    return {"record": _record(reply.record), "__subscriptions": [reply.record.session_id]}


@rpc_method("image.list")
async def image_list(context: Context, params: Nothing) -> object:
    reply = await execute(context, image.ImageList(container_id=context.images.home()))
    sessions = [record.session_id for record in reply.records]
    return {"records": [_record(record) for record in reply.records], "__subscriptions": sessions}


@rpc_method("image.update")
async def image_update(context: Context, params: UpdateParams) -> object:
    image_id, updates = await _image_id(context, params.image_id), params.updates.flat()
    before = (await execute(context, image.ImageGet(image_id=image_id))).record
    if before is None:
        raise ImageNotFound(image_id)
    changes = image_build.ImageUpdates(
        name=updates.name,
        description=updates.description,
        system_prompt=updates.system_prompt,
        model=updates.model,
        mcp_servers=updates.mcp_servers,
        thinking=tokens_of(updates.thinking),
        client_data=client_data(updates, before.client_data or {}) or None,
        clear=("thinking",) if updates.thinking == "disabled" else (),
    )
    reply = await execute(context, image_build.ImageUpdate(image_id=image_id, updates=changes))
    return {"record": _record(reply.record)}


@rpc_method("image.delete")
async def image_delete(context: Context, params: OfImage) -> object:
    reply = await execute(context, image.ImageDelete(image_id=await _image_id(context, params.image_id)))
    return {"imageId": reply.image_id}


@rpc_method("image.run")
async def image_run(context: Context, params: OfImage) -> object:
    reply = await execute(context, image.ImageRun(image_id=await _image_id(context, params.image_id)))
    _, record = await context.workspace.image(reply.image_id)
    return {
        "imageId": reply.image_id,
        "instanceId": instance_of(reply.agent_id),
        "sessionId": reply.session_id,
        "containerId": record.container_id,
        "reused": reply.reused,
    }


@rpc_method("image.stop")
async def image_stop(context: Context, params: OfImage) -> object:
    """Stops the instance of an image, if it has one; an image that does not exist has none."""
    with suppress(ImageNotFound):
        await execute(context, image.ImageStop(image_id=await _image_id(context, params.image_id)))
    return {"imageId": params.image_id}


@rpc_method("image.messages")
async def image_messages(context: Context, params: OfImage) -> object:
    reply = await execute(context, image.ImageMessages(image_id=await _image_id(context, params.image_id)))
    return {"imageId": reply.image_id, "messages": fold_messages(reply.messages), "truncated": reply.truncated}


class OfInstance(Record):
    instance_id: str | None = None
    agent_id: str | None = None
    """The name of the member before 2.7."""

    @property
    def name(self) -> str:
        name = self.instance_id or self.agent_id
        if not name:
            raise InvalidInput("instanceId is required")
        return name


class Addressee(OfInstance):
    """A running instance, or an image."""

    image_id: str | None = None


@rpc_method("instance.get", "agent.get")
async def instance_get(context: Context, params: OfInstance) -> object:
    reply = await execute(context, agent.AgentGet(agent_id=agent_of(params.name)))
    return {"agent": _instance(reply) if reply.exists else None, "exists": reply.exists}


@rpc_method("instance.list", "agent.list")
async def instance_list(context: Context, params: Nothing) -> object:
    reply = await execute(context, agent.AgentList(container_id=context.images.home()))
    return {"agents": [_instance(record) for record in reply.agents]}


@rpc_method("instance.destroy", "agent.destroy")
async def instance_destroy(context: Context, params: OfInstance) -> object:
    reply = await execute(context, agent.AgentDestroy(agent_id=agent_of(params.name)))
    return {"instanceId": params.name, "success": reply.success}


@rpc_method("instance.destroyAll", "agent.destroyAll")
async def instance_destroy_all(context: Context, params: Nothing) -> object:
    reply = await execute(context, agent.AgentDestroyAll(container_id=context.images.home()))
    return {"containerId": reply.container_id}


@rpc_method("instance.interrupt", "agent.interrupt")
async def instance_interrupt(context: Context, params: Addressee) -> object:
    """An image without an instance has nothing to stop, and none is started for it."""
    image_id = await addressed_image(context, params)
    await context.workspace.image(image_id)
    reply = await execute(context, agent.AgentInterrupt(image_id=image_id))
    return {"instanceId": None if reply.agent_id is None else instance_of(reply.agent_id)}


class SendOptions(Record):
    """Options of one message."""

    model: str | None = None
    thinking: ThinkingWord | None = None
    provider_options: dict[str, Any] | None = None


class SendParams(Addressee):
    content: UserContent | None = None
    options: SendOptions = SendOptions()


async def send_message(context: Context, params: SendParams) -> message.MessageSendReply:
    """Accepts a message. The request is answered when its turn has ended: see `rpc_dispatch`."""
    if not params.content:
        raise InvalidInput("content is required: a text, or a list of parts")
    image_id, options = await addressed_image(context, params), None
    thinking = _budget(params.options.provider_options) or tokens_of(params.options.thinking)
    if params.options.model or thinking:
        options = TurnOptions(model=params.options.model, thinking=thinking)
    return await execute(context, message.MessageSend(image_id=image_id, content=params.content, options=options))


def _budget(options: dict[str, Any] | None) -> int | None:
    """The only supported option of a provider; it applies to every provider."""
    if not options:
        return None
    match options:
        case {"anthropic": {"thinking": {"type": "enabled", "budgetTokens": int(tokens)}}} if tokens > 0:
            return tokens
    raise InvalidInput("Of options.providerOptions only anthropic.thinking.budgetTokens is known; choose model and thinking")


class RewindParams(Addressee):
    message_id: MessageId | None = None


@rpc_method("runtime.rewind", "message.truncateAfter")
async def rewind(context: Context, params: RewindParams) -> object:
    """Takes back everything after a message; the calls of that message stay with it."""
    if not params.message_id:
        raise InvalidInput("messageId is required")
    _, image = await context.workspace.image(await addressed_image(context, params))
    request = branch.SessionRewind(session_id=image.session_id, message_id=params.message_id, on_busy="interrupt")
    await execute(context, request)
    present = context.vm.runtime.agent_of(context.tenant_id, image)
    return {"instanceId": params.instance_id if present is None else instance_of(present.agent_id)}


class OfPath(OfImage):
    path: str = "."


class WriteParams(OfPath):
    content: str


@rpc_method("os.list", "workspace.list")
async def os_list(context: Context, params: OfPath) -> object:
    _, image = await context.workspace.image(await _image_id(context, params.image_id))
    return {"files": await list_files(context, image.session_id, params.path)}


@rpc_method("os.read", "workspace.read")
async def os_read(context: Context, params: OfPath) -> object:
    _, image = await context.workspace.image(await _image_id(context, params.image_id))
    return {"content": await read_file(context, image.session_id, params.path)}


@rpc_method("os.write", "workspace.write")
async def os_write(context: Context, params: WriteParams) -> object:
    _, image = await context.workspace.image(await _image_id(context, params.image_id))
    await write_file(context, image.session_id, params.path, params.content)
    return {"success": True}


class OfProvider(Record):
    id: str | None = None


@rpc_method("llm.list")
async def llm_list(context: Context, params: Nothing) -> object:
    return {"records": list_providers(context)}


@rpc_method("llm.get")
async def llm_get(context: Context, params: OfProvider) -> object:
    return {"record": next((record for record in list_providers(context) if record["id"] == params.id), None)}


@rpc_method("llm.default")
async def llm_default(context: Context, params: OfProvider) -> object:
    if params.id is not None:
        refuse_change(context)
    return {"record": next((record for record in list_providers(context) if record["isDefault"]), None)}


@rpc_method("llm.create", "llm.update", "llm.delete")
async def llm_change(context: Context, params: Nothing) -> object:
    refuse_change(context)
    return None


async def addressed_image(context: Context, params: Addressee) -> ImageId:
    """The image that the params name, or whose instance they name. Raises `InvalidInput` for an instance that is gone."""
    name = params.instance_id or params.agent_id
    if name:
        present = context.find_agent(agent_of(name))
        if present is not None:
            return present.image_id
    if not params.image_id:
        raise InvalidInput("Either instanceId or imageId is required" if not name else f"There is no instance {name}")
    return await _image_id(context, params.image_id)


async def _image_id(context: Context, name: str) -> ImageId:
    """Clients that were made from an instance give its id where an image's belongs."""
    if not is_instance(name):
        return ImageId(name)
    present = context.find_agent(agent_of(name))
    if present is None:
        raise ImageNotFound(name)
    return present.image_id


def _instance(record: agent.AgentGetReply | AgentRecord) -> dict[str, object]:
    return {
        "instanceId": None if record.agent_id is None else instance_of(record.agent_id),
        "imageId": record.image_id,
        "containerId": record.container_id,
        "sessionId": record.session_id,
        "lifecycle": "running",
    }


def _record(record: ImageRecord) -> dict[str, object]:
    shown: dict[str, object] = {
        "imageId": record.image_id,
        "containerId": record.container_id,
        "sessionId": record.session_id,
        "name": record.name,
        "description": record.description,
        "systemPrompt": record.system_prompt,
        "createdAt": record.created_at,
        "updatedAt": record.updated_at,
        **(record.client_data or {}),
    }
    return {name: value for name, value in shown.items() if value is not None} | {"metadata": {}}
