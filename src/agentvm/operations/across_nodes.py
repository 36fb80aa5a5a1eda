"""Across nodes — asks nodes of a cluster for data that only they have, and names those that do not answer."""

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Annotated, Any, Generic, TypeVar

import anyio
import msgspec
from msgspec import Meta

from agentvm.errors import AgentVMError, NotFound
from agentvm.errors.cluster import NodeSilent
from agentvm.model.base import Record
from agentvm.operations.forwarding import ForwardedReply, forwarded
from agentvm.operations.operation import Context
from agentvm.protocol.requests import Request
from agentvm.runtime.tasks import open_tasks

ANSWER_SECONDS = 2.0
"""A node that has not answered after this long is named as silent."""

T = TypeVar("T")

NodeChoice = Annotated[str, Meta(pattern="^(all|[0-9]{1,15})$")]
"""`all`, or the number of one node; without it the node that is asked."""


class SilentNode(Record):
    """A node that is up and has not answered."""

    node_id: int
    name: str
    error: str


@dataclass(slots=True)
class NodeReply(Generic[T]):
    """The answer of a node, or why there is none."""

    node_id: int
    name: str
    result: T | None = None
    error: str = ""


async def ask_nodes(
    context: Context,
    nodes: str,
    operation: str,
    request: Callable[[int], Request[Any] | None],
    here: Callable[[Request[Any]], Awaitable[T]],
    kind: type[T],
) -> list[NodeReply[T]]:
    """Asks each of the nodes with the request for it, this one with `here`; oldest first. None leaves a node out."""
    own, names = context.vm.store.node_id, _names(context)
    node_ids = sorted(names) if nodes == "all" else [int(nodes)]
    if unknown := [node_id for node_id in node_ids if node_id not in names]:
        raise NotFound(f"No node {unknown[0]} is up; avm cluster status lists those that are")
    replies = [NodeReply[T](node_id, names[node_id]) for node_id in node_ids]

    async def ask(reply: NodeReply[T]) -> None:
        node_request = request(reply.node_id)
        if node_request is None:
            return
        if reply.node_id == own:
            reply.result = await here(node_request)
            return
        reply.error = "The node has not answered in time"
        with anyio.move_on_after(ANSWER_SECONDS):
            try:
                reply.result = await _ask(context, reply.node_id, operation, node_request, kind)
                reply.error = ""
            except (AgentVMError, msgspec.DecodeError) as error:
                reply.error = str(error)

    async with open_tasks() as tasks:
        for reply in replies:
            tasks.start_soon(ask, reply)
    return replies


def silent_nodes(replies: Iterable[NodeReply[Any]]) -> list[SilentNode]:
    return [SilentNode(node_id=reply.node_id, name=reply.name, error=reply.error) for reply in replies if reply.error]


def _names(context: Context) -> dict[int, str]:
    membership = context.vm.membership
    if membership is None:
        return {0: ""}
    return {row.node_id: row.name for row in membership.rows if row.state == "up"} | (
        {} if membership.rows else {membership.node_id: ""}
    )


async def _ask(context: Context, node_id: int, operation: str, request: Request[Any], kind: type[T]) -> T:
    mailbox = context.vm.mailbox
    if mailbox is None:
        raise NodeSilent("This node cannot ask others yet; try again in a few seconds")
    body = await mailbox.ask(node_id, msgspec.json.encode(forwarded(operation, context, request)))
    answer = msgspec.json.decode(body, type=ForwardedReply)
    if answer.reply is None:
        raise NodeSilent(answer.text)
    return msgspec.json.decode(answer.reply, type=kind)
