"""Invocation — one call of a tool outside a conversation, by the same rules and limits as in one. It never waits for a
person."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import anyio

from agentvm.errors.resource import ResourceInvalid
from agentvm.errors.tool import ApprovalRequired, ToolCallDenied
from agentvm.model.ids import TenantId
from agentvm.model.message import ToolCall
from agentvm.model.policy import Approval
from agentvm.model.settings import Settings
from agentvm.model.tier import Placed, Unplaced
from agentvm.runtime.billing import ToolMeter, UnmeteredTools
from agentvm.runtime.calls import NOBODY_TO_ASK, ToolOutcome
from agentvm.runtime.policy import CallFacts, PolicyLayer, decide
from agentvm.runtime.single_call import run_once
from agentvm.runtime.tools import ToolSet, ToolSource
from agentvm.tools.base import CallContext, Caller

Approve = Callable[[Approval], str | None]
"""Approves a call; returns why it cannot be approved."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Invocation:
    """A call that was made: its result, the reason for which it was made, and where it ran."""

    outcome: ToolOutcome
    policy: str
    placed: Placed | Unplaced
    duration_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Invoker:
    """Calls tools for one caller."""

    tools: ToolSource
    caller: Caller
    settings: Settings
    layers: tuple[PolicyLayer, ...]
    approve: Approve
    meter: ToolMeter = field(default_factory=UnmeteredTools)

    async def invoke(self, spec: Mapping[str, object], input: dict[str, object], call_id: str) -> Invocation:
        """Calls the tool of a rendered resource. `ToolCallDenied` and `ApprovalRequired` have the rule."""
        tool = self.tools.of_spec(spec)
        if tool is None or tool.waits_for is not None or tool.agent is not None:
            raise ResourceInvalid(f"A tool with the runtime {spec.get('runtime')} cannot be called outside a conversation")
        tools = ToolSet([tool])
        call = ToolCall(id=call_id, name=tool.spec.name, input=input)
        facts = tools.facts(call)
        assert facts is not None, "the set has this one tool"
        policy = self._decide(facts)
        placed: list[Placed | Unplaced] = [Placed(tier="inline")]
        context = CallContext(
            key=call_id,
            caller=self.caller,
            deadline=anyio.current_time() + tool.timeout_seconds,
            placed=placed.append,
        )
        async with self.meter.running(TenantId(self.caller.tenant_id)):
            began = time.monotonic()
            ended = await run_once(tools, call, context, self.settings.limits)
        outcome = ended if isinstance(ended, ToolOutcome) else ToolOutcome(NOBODY_TO_ASK, True)
        duration_ms = round((time.monotonic() - began) * 1000)
        return Invocation(outcome=outcome, policy=policy, placed=placed[-1], duration_ms=duration_ms)

    def _decide(self, facts: CallFacts) -> str:
        """Returns the reason for which the call is made."""
        verdict = decide(facts, self.layers)
        if verdict.do == "deny":
            raise ToolCallDenied(f"The call is denied: {verdict.why}")
        if verdict.do == "allow":
            return verdict.why
        if (refused := self.approve(verdict.approval)) is not None:
            raise ApprovalRequired(
                f"The call needs an approval ({verdict.why}): {refused}",
                details={"why": verdict.why, "audience": verdict.approval.audience},
            )
        return f"approved by the caller ({verdict.why})"
