"""Invoking tools — one call of a tool resource outside a conversation, by the same rules, limits and ledger as in one."""

from typing import Any

import msgspec

from agentvm.errors import InvalidInput, QuotaExceeded
from agentvm.errors.resource import ResourceInvalid, ResourceNotFound
from agentvm.errors.tool import ApprovalRequired, ToolCallDenied
from agentvm.model.base import Record
from agentvm.model.message import ToolOutput
from agentvm.model.policy import Approval
from agentvm.model.resource import selector_of, some_of
from agentvm.model.tier import Placed, TierName
from agentvm.operations.operation import Context, Http, OperationGroup
from agentvm.operations.resource_views import RESOURCE
from agentvm.operations.wait_answer import why_not_answer
from agentvm.protocol.requests import Request
from agentvm.resources.kind import versioned_uri
from agentvm.resources.tool_set import expand

operation = OperationGroup("resources")


class ToolInvocation(Record):
    """`output` is the result as a model receives it; an error of the tool is a result."""

    tool: str
    """URI of the exact version."""
    output: ToolOutput
    duration_ms: int
    policy: str
    """The rule that decided about the call."""
    tier: TierName | None = None
    why: tuple[tuple[str, ...], ...] = ()
    """The verdict on each tier, for a tool that runs code."""


class ResourceInvoke(Request[ToolInvocation]):
    """`tool` is one tool of a set. `approve` makes a call that would wait for an approval, if you may approve it."""

    resource_id: str
    version: str | None = None
    tool: str | None = None
    input: dict[str, Any] = msgspec.field(default_factory=dict)
    approve: bool = False


@operation(
    "resource.invoke",
    needs="tools:invoke",
    http=Http("POST", f"{RESOURCE}/invoke"),
    audit="resource.invoke",
    raises=(ResourceNotFound, ResourceInvalid, ToolCallDenied, ApprovalRequired, QuotaExceeded),
)
async def invoke(context: Context, request: ResourceInvoke) -> ToolInvocation:
    """Call a tool once, outside a conversation.

    The input is validated, and rules, secrets, quotas and limits apply as in a conversation. The call never waits: if it needs
    an approval it is refused, unless `approve` is set and the caller may approve it.
    """
    spec = await _spec(context, request)
    invocation = await context.vm.invoker(
        context.tenant_id, context.principal.user_id, lambda approval: _why_not_approved(context, request, approval)
    ).invoke(spec, request.input, context.vm.new_id("call"))
    placed = invocation.placed
    return ToolInvocation(
        tool=str(spec["uri"]),
        output=invocation.outcome.output,
        duration_ms=invocation.duration_ms,
        policy=invocation.policy,
        tier=placed.tier if isinstance(placed, Placed) else None,
        why=placed.why,
    )


async def _spec(context: Context, request: ResourceInvoke) -> dict[str, Any]:
    """Returns the tool as an image would have it; `ResourceNotFound` for another type of resource."""
    resource = await context.resources.find(request.resource_id)
    if resource.type != "tools":
        raise ResourceNotFound(request.resource_id)
    resolved = await context.vm.resources.resolver.resolve(
        context.tenant_id, str(versioned_uri(resource, selector_of(request.resource_id, request.version)))
    )
    assert isinstance(resolved.rendered, dict), "a tool is rendered as an object"
    specs = {str(spec["name"]): spec for spec in expand({"uri": resolved.resolved, **resolved.rendered})}
    if request.tool is None and len(specs) == 1:
        return next(iter(specs.values()))
    named = [spec for name, spec in specs.items() if request.tool in (name, spec["uri"].partition("#")[2])]
    if not named:
        raise InvalidInput(f"tool must name one of the set, which has {some_of(tuple(specs), 'tool')}")
    return named[0]


def _why_not_approved(context: Context, request: ResourceInvoke, approval: Approval) -> str | None:
    principal = context.principal
    refused = why_not_answer(principal, approval, principal.user_id, principal.key_id)
    if refused is None and not request.approve:
        return "repeat the call with approve set, to approve it yourself"
    return refused
