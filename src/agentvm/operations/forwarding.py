"""Forwarding — carries out an operation on the node that runs the session it is about.

An operation that writes to a session of another node is refused by its commit, with nothing stored (`SessionMoved`); it is then
asked of that node, with the principal of the request. Operations that stop turns look first where these run.
"""

from typing import TYPE_CHECKING, Any

import anyio
import msgspec

from agentvm.errors import BY_CODE, AgentVMError, ShuttingDown
from agentvm.errors.cluster import NodeSilent, SessionMoved
from agentvm.model.ids import AgentId, SessionId, TenantId, session_of_agent
from agentvm.model.node import TurnScope
from agentvm.model.principal import Principal
from agentvm.operations.operation import Context, Operation
from agentvm.protocol.requests import Request

if TYPE_CHECKING:
    from agentvm.cluster.mailbox import Mailbox

FORWARD_TIMEOUT_SECONDS = 15.0
"""An operation is tried so long while its session moves from a node that has ended to another."""
RETRY_INTERVAL_SECONDS = 0.1

STOPPING = frozenset({"agent.interrupt", "agent.destroy", "agent.destroy_all", "image.stop"})
"""Operations that are carried out wherever the turns run that they are about."""
READING = frozenset({"agent.get", "agent.list"})
"""Operations whose reply is joined with those of the nodes that run such turns."""
NAMING = frozenset({"cluster.drain"})
"""Operations that are carried out on the node that they name."""
FORWARDED = (
    STOPPING
    | READING
    | NAMING
    | {"message.send", "message.edit", "message.regenerate", "session.rewind", "tool.answer", "file.write", "file.delete"}
)


class Forwarded(msgspec.Struct, frozen=True):
    """An operation that another node is asked for."""

    name: str
    request: bytes
    principal: Principal
    tenant_id: TenantId
    request_id: str
    address: str | None
    names_tenant: bool = False


class ForwardedReply(msgspec.Struct, frozen=True):
    """The encoded reply, or the error."""

    reply: bytes | None = None
    code: str = ""
    text: str = ""
    details: dict[str, Any] = {}


_answer = msgspec.json.Decoder(ForwardedReply)


async def run_or_forward(operation: Operation, context: Context, request: Request[Any]) -> Any:
    """Carries out an operation here, or on the node that runs its session."""
    mailbox: Mailbox | None = context.vm.mailbox
    if mailbox is None or context.is_forwarded or operation.name not in FORWARDED:
        return await operation.function(context, request)
    if operation.name in NAMING:
        named = getattr(request, "node_id", 0)
        if named in mailbox.membership.up - {mailbox.membership.node_id}:
            return await _ask(mailbox, named, operation, context, request)
        return await operation.function(context, request)
    if operation.name in READING:
        return await _read(mailbox, operation, context, request)
    if operation.name in STOPPING:
        nodes = await _runners(mailbox, context, request)
        replies = [await _ask(mailbox, node, operation, context, request) for node in nodes]
        if replies and operation.name == "agent.interrupt":
            return replies[0]
        reply = await operation.function(context, request)
        return replies[0] if replies and operation.name == "agent.destroy" else reply
    until = anyio.current_time() + FORWARD_TIMEOUT_SECONDS
    while True:
        # Never cut off: it may be waiting for a commit whose outcome is not known.
        try:
            return await operation.function(context, request)
        except SessionMoved as error:
            moved = error
        if anyio.current_time() > until:
            raise moved
        if not context.vm.runtime.accepting:
            raise ShuttingDown("This node is shutting down; try again, another one answers")
        runner = await mailbox.membership.nodes.runner(context.tenant_id, SessionId(moved.session_id))
        if runner is None:
            continue
        if runner != context.vm.store.node_id and not mailbox.membership.has_ended(runner):
            try:
                return await _ask(mailbox, runner, operation, context, request)
            except SessionMoved:
                # It has ended its turn meanwhile, or has died.
                pass
        # Also while this node is about to take over, which takes a moment.
        await anyio.sleep(RETRY_INTERVAL_SECONDS)


async def _read(mailbox: "Mailbox", operation: Operation, context: Context, request: Request[Any]) -> Any:
    reply = await operation.function(context, request)
    for node in await _runners(mailbox, context, request):
        try:
            reply = reply.joined(await _ask(mailbox, node, operation, context, request))
        except SessionMoved:
            # It has ended: it runs nothing now.
            continue
    return reply


def forwarded(name: str, context: Context, request: Request[Any]) -> Forwarded:
    """An operation for another node, with the permissions of the caller."""
    return Forwarded(
        name=name,
        request=msgspec.json.encode(request),
        principal=context.principal,
        tenant_id=context.tenant_id,
        request_id=context.request_id,
        address=context.address,
        names_tenant=context.http.names_tenant,
    )


async def _runners(mailbox: "Mailbox", context: Context, request: Any) -> list[int]:
    """The other nodes that run turns which a request is about."""
    membership, tenant_id = mailbox.membership, context.tenant_id
    nodes = membership.nodes
    agent_id, image_id = getattr(request, "agent_id", None), getattr(request, "image_id", None)
    session_id = getattr(request, "session_id", None) or (session_of_agent(AgentId(agent_id)) if agent_id else None)
    if session_id is not None:
        scope = TurnScope(tenant_id=tenant_id, session_id=SessionId(session_id))
    elif image_id is not None:
        scope = TurnScope(tenant_id=tenant_id, image_id=image_id)
    else:
        scope = TurnScope(tenant_id=tenant_id, container_ids=(context.workspace.container_id(request.container_id),))
    return sorted(await nodes.runners(scope) & membership.up - {membership.node_id})


async def _ask(mailbox: "Mailbox", node_id: int, operation: Operation, context: Context, request: Request[Any]) -> Any:
    moved = SessionMoved(str(getattr(request, "session_id", "") or ""), node_id)
    try:
        envelope = forwarded(operation.name, context, request)
        answer = _answer.decode(await mailbox.ask(node_id, msgspec.json.encode(envelope)))
    except NodeSilent:
        if getattr(request, "client_message_id", "") is None:
            # Asked again it might be there twice: only who sends it can decide that.
            raise NodeSilent(
                f"Node {node_id} has ended, or does not answer, and may have accepted the message: look at the session before "
                "you send it again. With a clientMessageId it is tried again, and accepted once"
            ) from None
        raise moved from None
    if answer.code == NodeSilent.code:
        # It was not understood, so nothing was done.
        raise moved
    if answer.reply is None:
        raise _error(answer)
    return msgspec.json.decode(answer.reply, type=operation.reply)


def _error(answer: ForwardedReply) -> AgentVMError:
    """The error of another node, with its code."""
    kind = BY_CODE.get(answer.code, AgentVMError)
    error = kind.__new__(kind)
    Exception.__init__(error, answer.text)
    error.details = answer.details
    if isinstance(error, SessionMoved):
        error.session_id, error.runner = str(answer.details.get("session")), None
    return error
