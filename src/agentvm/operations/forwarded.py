"""Forwarded operations — carries out requests of another node, with the principal of each."""

import msgspec

from agentvm.cluster.mailbox import Answered
from agentvm.errors import AgentVMError
from agentvm.errors.cluster import NodeSilent, SessionMoved
from agentvm.log import get_logger
from agentvm.operations.context import Context, HttpDetails
from agentvm.operations.dispatch import attempt
from agentvm.operations.forwarding import Forwarded, ForwardedReply
from agentvm.operations.gate import admit
from agentvm.operations.operation import Operation
from agentvm.operations.table import BY_NAME
from agentvm.protocol.requests import Request
from agentvm.vm import AgentVM

logger = get_logger(__name__)

_decoder = msgspec.json.Decoder(Forwarded)


async def serve(vm: AgentVM, body: bytes) -> Answered:
    """Carries out a forwarded operation; returns the encoded reply, and a function to call once that is stored."""
    try:
        forwarded = _decoder.decode(body)
        operation = BY_NAME[forwarded.name]
        request = msgspec.json.decode(forwarded.request, type=operation.request)
    except (msgspec.DecodeError, KeyError) as error:
        # Of another version: whoever asks tries it again, perhaps elsewhere.
        logger.warning("forwarded_not_understood", error=str(error))
        silent = ForwardedReply(code=NodeSilent.code, text="The node does not understand this request")
        return msgspec.json.encode(silent), lambda: None
    context = Context(
        vm=vm,
        workspace=vm.workspace(forwarded.principal, forwarded.tenant_id),
        request_id=forwarded.request_id,
        address=forwarded.address,
        http=HttpDetails(names_tenant=forwarded.names_tenant),
        is_forwarded=True,
    )
    with context:
        outcome = await attempt(forwarded.name, _run(operation, context, request))
    if isinstance(outcome, AgentVMError):
        details = {"session": outcome.session_id} if isinstance(outcome, SessionMoved) else outcome.details
        failed = ForwardedReply(code=outcome.code, text=str(outcome), details=details)
        return msgspec.json.encode(failed), context.finish
    return msgspec.json.encode(ForwardedReply(reply=msgspec.json.encode(outcome))), context.finish


async def _run(operation: Operation, context: Context, request: Request[object]) -> object:
    # The node that was asked first enters it in the audit log.
    await admit(operation, context)
    return await operation.function(context, request)
