"""Memories — short notes in every prompt of the agents of a container: list, add, change, delete."""

import re
from typing import Annotated

from msgspec import Meta

from agentvm.errors import ContainerForbidden, InvalidInput
from agentvm.errors.memory import MemoryNotFound, TooManyMemories
from agentvm.model.ids import ContainerId
from agentvm.model.memory import MEMORY_ID_MAX, MEMORY_TEXT_MAX, Memory, MemoryId
from agentvm.model.message import repair_text
from agentvm.operations.container import ensure
from agentvm.operations.operation import Context, Http, OperationGroup
from agentvm.protocol.requests import Reply, Request

operation = OperationGroup("memories")

USE = "agent:use"
_ALL = "/v1/containers/{container_id}/memories"
_ONE = f"{_ALL}/{{memory_id}}"

_ID = re.compile(rf"[A-Za-z0-9_-]{{1,{MEMORY_ID_MAX}}}")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")

Text = Annotated[str, Meta(min_length=1, max_length=MEMORY_TEXT_MAX)]


class MemoryListReply(Reply):
    container_id: ContainerId
    memories: tuple[Memory, ...]


class MemoryList(Request[MemoryListReply]):
    container_id: str


@operation(
    "memory.list",
    needs=USE,
    command=True,
    discloses=True,
    http=Http("GET", _ALL, items="memories", names=(None, "MemoryPage")),
    raises=(ContainerForbidden,),
)
async def list_all(context: Context, request: MemoryList) -> MemoryListReply:
    """List the memories of a container, the newest first.

    Proposed memories are included: no model receives them before a person accepts them with `memory_put`.
    """
    container_id = context.workspace.container_id(request.container_id)
    memories = await context.store.container(container_id).memories.list()
    return MemoryListReply(container_id=container_id, memories=memories)


class MemoryReply(Reply):
    memory: Memory


class MemoryAdd(Request[MemoryReply]):
    container_id: str
    text: Text
    pinned: bool = False


@operation(
    "memory.add",
    needs=USE,
    command=True,
    audit="memory.change",
    http=Http("POST", _ALL, status=201, result="memory", names=("MemoryAddRequest", None)),
    raises=(ContainerForbidden, TooManyMemories),
)
async def add(context: Context, request: MemoryAdd) -> MemoryReply:
    """Add a memory, and the container if there is none.

    A pinned memory is in every prompt; of the others first those that match the question, then the newest.
    """
    memory_id = context.target = context.vm.new_id("mem")
    return await _put(context, request.container_id, memory_id, request.text, request.pinned)


class MemoryPut(Request[MemoryReply]):
    container_id: str
    memory_id: MemoryId
    text: Text
    pinned: bool = False


@operation(
    "memory.put",
    needs=USE,
    command=True,
    audit="memory.change",
    http=Http("PUT", _ONE, result="memory", names=("MemoryRequest", None)),
    raises=(ContainerForbidden, TooManyMemories),
)
async def put(context: Context, request: MemoryPut) -> MemoryReply:
    """Change a memory, accept a proposed one, or add one under your own id.

    From then on, rewinding the conversation that it comes from does not remove it.
    """
    context.target = request.memory_id
    return await _put(context, request.container_id, request.memory_id, request.text, request.pinned)


class MemoryDeleteReply(Reply):
    memory_id: MemoryId


class MemoryDelete(Request[MemoryDeleteReply]):
    container_id: str
    memory_id: MemoryId


@operation(
    "memory.delete",
    needs=USE,
    command=True,
    audit="memory.change",
    http=Http("DELETE", _ONE),
    raises=(ContainerForbidden, MemoryNotFound),
)
async def delete(context: Context, request: MemoryDelete) -> MemoryDeleteReply:
    """Delete a memory."""
    context.target = request.memory_id
    container_id = context.workspace.container_id(request.container_id)
    deleted = await context.store.container(container_id).memories.delete(request.memory_id)
    context.vm.runtime.memories.forget((context.tenant_id, container_id))
    if not deleted:
        raise MemoryNotFound(request.memory_id)
    return MemoryDeleteReply(memory_id=request.memory_id)


async def _put(context: Context, container: str, memory_id: str, text: str, pinned: bool) -> MemoryReply:
    text = " ".join(_CONTROL.sub(" ", repair_text(text)).split())
    if not text:
        raise InvalidInput("text must not be empty")
    if not _ID.fullmatch(memory_id):
        raise InvalidInput(f"memoryId must have 1 to {MEMORY_ID_MAX} letters, digits, `-` or `_`")
    container_id = await ensure(context, container)
    memories, now = context.store.container(container_id).memories, context.vm.clock()
    memory = Memory(memory_id=MemoryId(memory_id), text=text, by="user", pinned=pinned, created_at=now, updated_at=now)
    await memories.put(memory)
    context.vm.runtime.memories.forget((context.tenant_id, container_id))
    stored = next((memory for memory in await memories.list() if memory.memory_id == memory_id), memory)
    return MemoryReply(memory=stored)
