"""Dispatch — the one gate between a peer's command and what carries it out, and where errors become answers."""

import re
import secrets
import time
from contextlib import AbstractContextManager
from typing import Any

import anyio
import anyio.to_thread
import msgspec

from agentvm.commands.call import Call, call_of
from agentvm.errors import AgentVMError, StoreFailed
from agentvm.events.base import Event, EventScope
from agentvm.events.error import CommandError
from agentvm.log import concerned, concerning, get_logger
from agentvm.model.ids import AgentId, ContainerId, ImageId
from agentvm.operations.gate import carry_out as run_operation
from agentvm.operations.table import BY_REQUEST, command_name
from agentvm.protocol.dialect_v1 import encode_event, encode_reply
from agentvm.protocol.requests import R_co, Reply, Request
from agentvm.vm import Peer

logger = get_logger(__name__)

_encoders = anyio.CapacityLimiter(2)

_NAME = re.compile(r"[\w.:-]{1,64}", re.ASCII)
"""A request's id that its sender chose and that can stand in a log; any other is content, for all we know."""


async def carry_out(call: Call, request: Request[R_co]) -> R_co:
    """Runs the command; the caller has counted it, sends the reply and then calls `call.finish`."""
    reply: R_co = await run_operation(BY_REQUEST[type(request)], call, request)
    return reply


async def answer(peer: Peer, request: Request[Any], request_id: str | None, refusal: AgentVMError | None = None) -> None:
    """Carries the command out, unless there is a reason to refuse it, and queues its reply for the peer. Never raises."""
    began = time.perf_counter_ns()
    name = command_name(request)
    with handling(peer, request, request_id), call_of(peer, request_name(request_id)) as call:
        try:
            if refusal is not None:
                raise refusal
            reply = await carry_out(call, request)
        except AgentVMError as error:
            reply = refuse(peer, error, request_id, _named(request), request.refused())
        except Exception:  # Protects the connection, and every other one: a bug answers one command.
            logger.exception("command_crashed", command=name)
            problem = AgentVMError("The command failed because of an internal error")
            reply = refuse(peer, problem, request_id, _named(request), request.refused())
        told = (name, request_id, reply, peer.vm.clock())
        # Of a long history others are not to notice anything.
        frame = await anyio.to_thread.run_sync(encode_reply, *told, limiter=_encoders) if call.is_bulky else encode_reply(*told)
        # What the reply held is given to its frame.
        call.release()
        peer.channel.send(frame)
        micros = (time.perf_counter_ns() - began) // 1000
        peer.vm.monitor.metrics.answered(name, refused=reply.error_code is not None, micros=micros)
        call.finish()


def handling(peer: Peer, request: Request[Any], request_id: str | None) -> AbstractContextManager[None]:
    """Entries made within are about this command of this peer."""
    who, container_id, session_id = peer.principal, getattr(request, "container_id", None), getattr(request, "session_id", None)
    return concerning(
        request_id=request_name(request_id),
        tenant_id=who.tenant_id,
        user_id=who.user_id,
        # What is said of a container is read by those who have it: nobody else may write there.
        container_id=container_id if isinstance(container_id, str) and who.reaches(container_id) else None,
        session_id=session_id if isinstance(session_id, str) and _NAME.fullmatch(session_id) else None,
    )


def refuse(peer: Peer, error: AgentVMError, request_id: str | None, scope: EventScope, reply: Reply) -> Reply:
    """Tells the asker, and nobody else, what went wrong; returns the reply that says so too."""
    text = str(error)
    # What is no command is refused where nothing is bound.
    about = {"tenant_id": peer.tenant_id, "user_id": peer.principal.user_id, "request_id": request_name(request_id)}
    # The store's are no fault of the asker's, and nothing that it can do anything about.
    log = logger.error if isinstance(error, StoreFailed) else logger.info
    log("command_refused", code=error.code, error=text, **({} if concerned() else about))
    told = CommandError(message=text, request_id=request_id, severity="error", code=error.code)
    event = Event(data=told, scope=scope, timestamp=peer.vm.clock(), tenant_id=peer.tenant_id)
    frame = encode_event(event)
    if frame is not None:
        peer.channel.send(frame)
    return msgspec.structs.replace(reply, error=text, error_code=error.code)


def refuse_unreadable(peer: Peer, name: str, request_id: str | None, error: AgentVMError) -> None:
    """Answers a request that is no command, under the name it gave itself."""
    reply = refuse(peer, error, request_id, EventScope(), Reply())
    peer.channel.send(encode_reply(name, request_id, reply, peer.vm.clock()))


def request_name(given: str | None) -> str:
    return given if given is not None and _NAME.fullmatch(given) else f"req_{secrets.token_hex(8)}"


def _named(request: Request[Any]) -> EventScope:
    """The ids a request named, as 1.x puts them into the error's context."""
    named: dict[str, object] = msgspec.structs.asdict(request)

    def text(key: str) -> str | None:
        value = named.get(key)
        return value if isinstance(value, str) else None

    container_id, image_id, agent_id = text("container_id"), text("image_id"), text("agent_id")
    return EventScope(
        container_id=ContainerId(container_id) if container_id else None,
        image_id=ImageId(image_id) if image_id else None,
        agent_id=AgentId(agent_id) if agent_id else None,
    )
