"""RPC dispatch — carries out the requests of AgentX 2.x peers: the one place where their errors become responses.

`message.send` is answered when its turn has ended, after the last event of the turn; or, since clients wait 30 seconds, after
25 with the status `running`. The clients of 2.x show a message as being sent until an event says otherwise, so a message that
is refused is told by an `error` event too.
"""

import asyncio
import time
from typing import Final

import msgspec

from agentvm.errors import (
    AccessDenied,
    AgentBusy,
    AgentVMError,
    InvalidInput,
    NotAvailable,
    NotFound,
    QuotaExceeded,
    Unauthenticated,
    WalletEmpty,
    shorten,
)
from agentvm.errors.validation import explain
from agentvm.log import get_logger
from agentvm.model.base import Record
from agentvm.model.ids import TurnId
from agentvm.operations.context import Context, context_of
from agentvm.operations.dispatch import attempt, request_name
from agentvm.operations.message import MESSAGE_BOUND
from agentvm.operations.rpc_earlier import is_earlier, with_earlier_names
from agentvm.operations.rpc_methods import METHODS, SendParams, send_message
from agentvm.protocol.bounds import check
from agentvm.protocol.dialect_v2 import encode_send_error, instance_of
from agentvm.protocol.requests import REQUEST_BOUND
from agentvm.protocol.rpc import (
    INVALID_PARAMS_CODE,
    METHOD_NOT_FOUND_CODE,
    SERVER_ERROR_CODE,
    RpcCall,
    RpcId,
    RpcIgnored,
    RpcInvalid,
    RpcProblem,
    encode_problem,
    encode_result,
)
from agentvm.protocol.rpc_peer import PendingSend, RpcPeer
from agentvm.vm import LISTEN_PERMISSION, Peer

logger = get_logger(__name__)

SEND_SECONDS: Final = 25.0
"""A `message.send` is answered after this time at the latest: clients give up after 30 seconds."""
SEND: Final = "message.send"

CODES: Final[tuple[tuple[type[AgentVMError], int], ...]] = (
    (InvalidInput, INVALID_PARAMS_CODE),
    (Unauthenticated, 401),
    (WalletEmpty, 402),
    (AccessDenied, 403),
    (NotFound, 404),
    (AgentBusy, 429),
    (QuotaExceeded, 429),
    (NotAvailable, METHOD_NOT_FOUND_CODE),
)
"""The codes of 2.x, and 402 and 429, which it does not have; every other failure is a server error."""


def problem_of(error: AgentVMError) -> RpcProblem:
    code = next((code for kind, code in CODES if isinstance(error, kind)), SERVER_ERROR_CODE)
    return RpcProblem(code, str(error), {"code": error.code})


async def answer_rpc(peer: Peer, rpc: RpcPeer, call: RpcCall | RpcInvalid | RpcIgnored, refusal: AgentVMError | None) -> None:
    """Answers one request, with the refusal if there is one. Never raises. A notification is not answered."""
    if isinstance(call, RpcIgnored):
        return
    if isinstance(call, RpcInvalid):
        peer.channel.send(encode_problem(call.id, call.problem))
        return
    rpc.is_earlier = rpc.is_earlier or is_earlier(call)
    if call.id is None:
        return
    began = time.perf_counter_ns()
    with context_of(peer, request_name(str(call.id))) as context:
        error = refusal or await attempt(call.method, _answer(peer, rpc, call, call.id, context))
        if error is not None:
            _refuse(peer, call, error)
        context.release()
        name = call.method.replace(".", "_") if call.method in METHODS or call.method == SEND else "unknown"
        micros = (time.perf_counter_ns() - began) // 1000
        peer.vm.monitor.metrics.answered(name, refused=error is not None, micros=micros)
        context.finish()


async def _answer(peer: Peer, rpc: RpcPeer, call: RpcCall, request_id: RpcId, context: Context) -> None:
    if call.method == SEND:
        await _send(peer, rpc, request_id, context, _params(call, SendParams))
        return
    method = METHODS.get(call.method)
    if method is None:
        problem = RpcProblem(METHOD_NOT_FOUND_CODE, f"Method not found: {shorten(call.method)}")
        peer.channel.send(encode_problem(request_id, problem))
        return
    result = await method.run(context, _params(call, method.params))
    if rpc.is_earlier:
        result = with_earlier_names(result)
    peer.channel.send(encode_result(request_id, result))


def _params(call: RpcCall, kind: type[Record]) -> Record:
    raw = bytes(call.params)
    check(raw, MESSAGE_BOUND if call.method == SEND else REQUEST_BOUND, f"The params of {shorten(call.method)}")
    try:
        return msgspec.json.decode(raw, type=kind)
    except msgspec.ValidationError as error:
        raise InvalidInput(f"Invalid params of {call.method}: {explain(error, kind)}") from None


async def _send(peer: Peer, rpc: RpcPeer, request_id: RpcId, context: Context, params: Record) -> None:
    assert isinstance(params, SendParams)  # decoded as that
    reply = await send_message(context, params)
    result: dict[str, object] = {"instanceId": instance_of(reply.agent_id), "imageId": reply.image_id, "turnId": reply.turn_id}
    if rpc.is_earlier:
        result["agentId"] = reply.agent_id
    # Whoever may not read what is said does not hear the end either.
    if reply.turn_id is None or not peer.principal.may(LISTEN_PERMISSION):
        peer.channel.send(encode_result(request_id, {**result, "status": "running"}))
        return
    turn_id = TurnId(reply.turn_id)

    def give_up() -> None:
        if rpc.give_up(turn_id, request_id) is not None:
            peer.channel.send(encode_result(request_id, {**result, "status": "running"}))

    timer = asyncio.get_running_loop().call_later(SEND_SECONDS, give_up)
    if not rpc.expect(turn_id, PendingSend(request_id, result, timer.cancel)):
        timer.cancel()
        peer.channel.send(encode_result(request_id, {**result, "status": "running"}))


def _refuse(peer: Peer, call: RpcCall, error: AgentVMError) -> None:
    problem = problem_of(error)
    logger.info("command_refused", code=error.code, error=str(error), tenant_id=peer.tenant_id)
    if call.method == SEND:
        named = _named(call)
        instance_id = named.instance_id or (named.agent_id and instance_of(named.agent_id))
        if instance_id or named.image_id:
            # An event that names neither would be taken for one of every conversation.
            peer.channel.send(encode_send_error(problem, error.code, named.image_id, instance_id, peer.vm.clock()))
    peer.channel.send(encode_problem(call.id, problem))


class _Named(Record):
    image_id: str | None = None
    instance_id: str | None = None
    agent_id: str | None = None


def _named(call: RpcCall) -> _Named:
    """The conversation of a message that was refused, as its sender names it."""
    try:
        return msgspec.json.decode(bytes(call.params), type=_Named)
    except msgspec.DecodeError:
        return _Named()
