from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

import pytest

from agentvm.drivers.base import ToolSpec
from agentvm.errors.resource import ResourceInvalid
from agentvm.errors.tool import ApprovalRequired, ToolCallDenied
from agentvm.model.ids import TenantId
from agentvm.model.policy import Approval, PolicyRule
from agentvm.model.settings import Settings
from agentvm.runtime.calls import NOBODY_TO_ASK
from agentvm.runtime.invocation import Approve, Invoker
from agentvm.runtime.policy import PolicyLayer
from agentvm.runtime.tools import ServerTools, tool_of
from agentvm.tools.base import (
    CallContext,
    Caller,
    CallTraits,
    InputRequired,
    Outcome,
    TraitsOfTool,
    text_result,
)

SPEC = {"runtime": "builtin", "entry": "echo"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Echo(TraitsOfTool):
    spec: ToolSpec
    traits: CallTraits
    asks: bool = False

    async def run(self, input: Mapping[str, object], context: CallContext) -> Outcome:
        return InputRequired(questions={}) if self.asks else text_result(f"{context.key} {context.caller.user_id}")


def invoker(*rules: PolicyRule, approve: Approve = lambda approval: "no", asks: bool = False) -> Invoker:
    spec = ToolSpec(name="echo", description="d", input_schema={"type": "object"})
    tool = tool_of(Echo(spec=spec, traits=CallTraits.of("read", world="closed"), asks=asks))
    return Invoker(
        tools=ServerTools([tool]),
        caller=Caller("acme", "alice"),
        settings=Settings(),
        layers=(PolicyLayer("tenant", rules),),
        approve=approve,
    )


async def test_a_call_has_its_own_key_and_the_caller() -> None:
    made = await invoker().invoke(SPEC, {}, "call_1")
    assert (made.outcome.result, made.policy) == ("call_1 alice", "default rule 3: any call")


async def test_rules_deny_or_ask_and_the_approval_is_handed_on() -> None:
    asked: list[Approval] = []

    def approve(approval: Approval) -> str | None:
        asked.append(approval)
        return None

    with pytest.raises(ToolCallDenied, match="tenant rule 1"):
        await invoker(PolicyRule(do="deny")).invoke(SPEC, {}, "call_1")
    ask = PolicyRule(do="ask", ask=Approval(audience="admins"))
    with pytest.raises(ApprovalRequired, match="tenant rule 1: any call\\): no"):
        await invoker(ask).invoke(SPEC, {}, "call_1")
    made = await invoker(ask, approve=approve).invoke(SPEC, {}, "call_1")
    assert made.policy == "approved by the caller (tenant rule 1: any call)"
    assert [approval.audience for approval in asked] == ["admins"]


async def test_a_tool_that_asks_a_person_fails_and_one_that_is_not_there_is_refused() -> None:
    made = await invoker(asks=True).invoke(SPEC, {}, "call_1")
    assert (made.outcome.result, made.outcome.is_error) == (NOBODY_TO_ASK, True)
    spec = {"runtime": "agent", "name": "ask", "description": "Asks", "entry": "resource://agents/other@1.0.0"}
    with pytest.raises(ResourceInvalid, match="runtime agent"):
        await invoker().invoke(spec, {}, "call_1")


async def test_a_call_outside_a_conversation_counts_among_those_of_its_tenant() -> None:
    running: list[str] = []

    class Counting:
        @asynccontextmanager
        async def running(self, tenant_id: TenantId) -> AsyncIterator[None]:
            running.append(tenant_id)
            yield

    await replace(invoker(), meter=Counting()).invoke(SPEC, {}, "call_1")
    assert running == ["acme"]
