"""Dispatch — carries out the commands of peers: the one place where their errors become replies."""

import re
import secrets
import time
from collections.abc import Awaitable
from contextlib import AbstractContextManager
from typing import Any, TypeVar

import anyio
import anyio.to_thread
import msgspec

from agentvm.errors import AgentVMError, StoreFailed
from agentvm.events.base import Event, EventScope
from agentvm.events.error import CommandError
from agentvm.log import concerned, concerning, get_logger
from agentvm.model.ids import AgentId, ContainerId, ImageId
from agentvm.operations.context import Context, context_of
from agentvm.operations.gate import execute as run_operation
from agentvm.operations.table import BY_REQUEST, command_name
from agentvm.protocol.dialect_v1 import encode_event, encode_reply
from agentvm.protocol.requests import R_co, Reply, Request
from agentvm.vm import Peer

logger = get_logger(__name__)

T = TypeVar("T")

_encoders = anyio.CapacityLimiter(2)

_NAME = re.compile(r"[\w.:-]{1,64}", re.ASCII)
"""A request id that may stand in a log. Any other may be content."""


async def execute(context: Context, request: Request[R_co]) -> R_co:
    """Runs a command. The caller has counted it against the quota, sends the reply and then calls `context.finish`."""
    reply: R_co = await run_operation(BY_REQUEST[type(request)], context, request)
    return reply


async def answer(peer: Peer, request: Request[Any], request_id: str | None, refusal: AgentVMError | None = None) -> None:
    """Carries out a command, or refuses it, and queues the reply for the peer. Never raises."""
    began = time.perf_counter_ns()
    name = command_name(request)
    with handling(peer, request, request_id), context_of(peer, request_name(request_id)) as context:
        outcome: Any = await attempt(name, execute(context, request)) if refusal is None else refusal
        if isinstance(outcome, AgentVMError):
            outcome = refuse(peer, outcome, request_id, _named(request), request.refused())
        reply = outcome
        parts = (name, request_id, reply, peer.vm.clock())
        if context.is_bulky:
            # A long history must not delay the other peers.
            frame = await anyio.to_thread.run_sync(encode_reply, *parts, limiter=_encoders)
        else:
            frame = encode_reply(*parts)
        # From here on the frame is what takes memory, and it is counted by the channel.
        context.release()
        peer.channel.send(frame)
        micros = (time.perf_counter_ns() - began) // 1000
        peer.vm.monitor.metrics.answered(name, refused=reply.error_code is not None, micros=micros)
        context.finish()


async def attempt(name: str, command: Awaitable[T]) -> T | AgentVMError:
    """Returns the result of a command, or the error that it failed with."""
    try:
        return await command
    except AgentVMError as error:
        return error
    except Exception:  # Protects the connection, and every other one: a bug answers one command.
        logger.exception("command_crashed", command=name)
        return AgentVMError("The command failed because of an internal error")


def handling(peer: Peer, request: Request[Any], request_id: str | None) -> AbstractContextManager[None]:
    """Binds log entries made within to this command of this peer."""
    principal, container_id, session_id = (
        peer.principal,
        getattr(request, "container_id", None),
        getattr(request, "session_id", None),
    )
    return concerning(
        request_id=request_name(request_id),
        tenant_id=principal.tenant_id,
        user_id=principal.user_id,
        # Entries about a container are shown to its owners: nobody else may add to them.
        container_id=container_id if isinstance(container_id, str) and principal.reaches(container_id) else None,
        session_id=session_id if isinstance(session_id, str) and _NAME.fullmatch(session_id) else None,
    )


def refuse(peer: Peer, error: AgentVMError, request_id: str | None, scope: EventScope, reply: Reply) -> Reply:
    """Sends an error event to this peer only; returns the reply with the error."""
    text = str(error)
    # A frame that is not a command is refused outside of `handling`.
    about = {"tenant_id": peer.tenant_id, "user_id": peer.principal.user_id, "request_id": request_name(request_id)}
    # A failure of the store is the operator's concern, not the peer's.
    log = logger.error if isinstance(error, StoreFailed) else logger.info
    log("command_refused", code=error.code, error=text, **({} if concerned() else about))
    problem = CommandError(message=text, request_id=request_id, severity="error", code=error.code)
    event = Event(data=problem, scope=scope, timestamp=peer.vm.clock(), tenant_id=peer.tenant_id)
    frame = encode_event(event)
    if frame is not None:
        peer.channel.send(frame)
    return msgspec.structs.replace(reply, error=text, error_code=error.code)


def refuse_unreadable(peer: Peer, name: str, request_id: str | None, error: AgentVMError) -> None:
    """Answers a frame that is not a command, under the name that it has."""
    reply = refuse(peer, error, request_id, EventScope(), Reply())
    peer.channel.send(encode_reply(name, request_id, reply, peer.vm.clock()))


def request_name(request_id: str | None) -> str:
    """Returns the request id for logs: the peer's own if it is short and plain, else a new one."""
    return request_id if request_id is not None and _NAME.fullmatch(request_id) else f"req_{secrets.token_hex(8)}"


def _named(request: Request[Any]) -> EventScope:
    """Returns the ids in a request, as 1.x puts them into the error's context."""
    fields: dict[str, object] = msgspec.structs.asdict(request)

    def text(key: str) -> str | None:
        value = fields.get(key)
        return value if isinstance(value, str) else None

    container_id, image_id, agent_id = text("container_id"), text("image_id"), text("agent_id")
    return EventScope(
        container_id=ContainerId(container_id) if container_id else None,
        image_id=ImageId(image_id) if image_id else None,
        agent_id=AgentId(agent_id) if agent_id else None,
    )
