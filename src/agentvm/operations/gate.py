"""Gate — checks the permission of an operation and enters its result in the audit log; the one place for both."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import anyio

from agentvm.errors import AgentVMError, PermissionDenied, shorten
from agentvm.errors.access import AuthenticationOff
from agentvm.log import get_logger
from agentvm.model.account import AuditEntry
from agentvm.operations.forwarding import run_or_forward
from agentvm.operations.operation import Context, Operation
from agentvm.protocol.requests import Request

logger = get_logger(__name__)

DISCLOSED = "message.read"
"""The action of an operator who reads content of another tenant."""
_OBJECTS = ("session_id", "image_id", "container_id")
AUDIT_SECONDS = 10.0
"""A request that is being cancelled waits this long for its entry in the audit log."""
OPEN = (
    "Authentication is off, so no permissions can be granted: start the server with --auth on, which prints the operator's "
    "first key"
)


async def admit(operation: Operation, context: Context) -> None:
    """Raises `PermissionDenied` unless the principal may ask for the operation; waits until a starting server can serve it."""
    recovered, principal = context.vm.runtime.recovered, context.principal
    if not recovered.is_set():
        await recovered.wait()
    if operation.needs and not any(principal.may(permission) for permission in operation.needs):
        if not (operation.own and principal.user_id is not None):
            raise PermissionDenied(operation.needs[0])
    if operation.grants and not context.vm.config.authenticates:
        raise AuthenticationOff(OPEN)


async def execute(operation: Operation, context: Context, request: Request[Any]) -> Any:
    """Checks, carries out and audits an operation whose request is complete."""
    if operation.audit is None:
        await admit(operation, context)
        return await run_or_forward(operation, context, request)
    # A command has no path that names its object.
    context.target = context.target or next((name for key in _OBJECTS if (name := getattr(request, key, None))), "")
    async with audited(operation, context):
        await admit(operation, context)
        return await run_or_forward(operation, context, request)


@dataclass(slots=True)
class Outcome:
    """The result of an operation in the audit log."""

    result: str = f"refused:{AgentVMError.code}"


@asynccontextmanager
async def audited(operation: Operation, context: Context) -> AsyncIterator[Outcome]:
    """Enters the outcome of the block in the audit log, if the operation writes; refusals too."""
    outcome = Outcome()
    try:
        yield outcome
        outcome.result = "ok"
    except AgentVMError as error:
        outcome.result = f"refused:{error.code}"
        raise
    finally:
        if operation.audit is not None and not context.is_dry_run:
            await enter(operation.audit, context, outcome.result)
        elif operation.discloses and context.tenant_id != context.principal.tenant_id:
            await _enter_reading(operation, context, outcome.result)


async def _enter_reading(operation: Operation, context: Context, result: str) -> None:
    """Enters that an operator has read content of another tenant, with the reason; once a minute for the same content."""
    context.target = ": ".join(filter(None, (context.target or operation.name, context.http.reason)))
    reading, now = (context.tenant_id, context.principal.actor, f"{DISCLOSED} {context.target}"), context.vm.clock()
    if result == "ok" and context.vm.recent_entries.get(reading, now):
        return
    await enter(DISCLOSED, context, result)
    if result == "ok":
        context.vm.recent_entries.put(reading, True, now)


async def enter(action: str, context: Context, result: str) -> None:
    """Enters an action on `context.target` in the audit log."""
    principal, now = context.principal, context.vm.clock()
    if result != "ok":
        refusal = (principal.tenant_id, principal.actor, action)
        if context.vm.recent_entries.get(refusal, now):
            return
        context.vm.recent_entries.put(refusal, True, now)
    entry = AuditEntry(
        at=now,
        tenant_id=context.tenant_id,
        actor=principal.actor,
        action=action,
        target=shorten(context.target),
        result=result,
        address=context.address,
        request_id=context.request_id,
    )
    try:
        with anyio.move_on_after(AUDIT_SECONDS, shield=True):
            await context.accounts.audit.add(entry)
    except AgentVMError as error:
        logger.error("audit_not_stored", action=action, result=result, request_id=entry.request_id, code=error.code)
        if result == "ok":
            # What cannot be accounted for is reported as failed; a refusal says more by itself.
            raise
