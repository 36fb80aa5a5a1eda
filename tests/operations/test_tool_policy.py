"""Rules about tool calls as settings: of the operator, of a tenant and of an image."""

from collections.abc import Sequence
from typing import Any

import pytest
from tests.operations.fixtures import Desk, open_desk

from agentvm.drivers.scripted import ScriptedDriver, in_turn, reply, tool_calls
from agentvm.model.definition import Definition
from agentvm.model.ids import DEFAULT_TENANT, TenantId
from agentvm.model.policy import PolicyRule
from agentvm.model.setting import ChangeRequest
from agentvm.runtime.function_tool import tool

pytestmark = pytest.mark.anyio

ALLOW_ALL = [{"do": "allow"}]


@tool(effect="destructive", world="closed")
async def hammer(n: int) -> str:
    """Strikes."""
    return "struck"


def asking(times: int) -> ScriptedDriver:
    steps = [step for n in range(times) for step in (tool_calls((f"c{n}", "hammer", {"n": n})), reply("done"))]
    return ScriptedDriver(in_turn(*steps))


def definition(*rules: PolicyRule) -> Definition:
    return Definition(name="smith", tools=("hammer",), policy=rules)


async def decide(desk: Desk, image: Any, **more: object) -> str:
    """Returns what became of one call: it ran, was denied, or waited for an approval, and why."""
    desk.forget()
    await desk.ask("message_send", imageId=image["imageId"], content="go")
    # The end of the conversation is told of a turn that ends, and of one that is parked.
    heard = await desk.hear("conversation_end")
    for event in heard:
        if event["type"] == "tool_waiting":
            told = event["data"]
            answer = {"waitId": told["waitId"], "fingerprint": told["fingerprint"], "decision": "approve", **more}
            await desk.ask("tool_answer", **answer)
            await desk.hear("turn_response")
            return f"asks: {told['why']}"
        if event["type"] == "tool_denied":
            return f"denied: {event['data']['reason']}"
    return "runs"


async def set_rules(desk: Desk, tenant_id: TenantId | None, rules: Sequence[object] | None) -> None:
    await desk.vm.settings.change(tenant_id, {"tools.policy": rules}, ChangeRequest(actor="test"))


async def test_a_change_of_the_rules_holds_for_the_next_call_without_a_restart() -> None:
    async with open_desk(asking(6), tools=[hammer], definitions=[definition()]) as desk:
        image = await desk.create_image(definition="smith")
        assert await decide(desk, image) == "asks: default rule 1: destructive"
        await set_rules(desk, None, ALLOW_ALL)
        assert await decide(desk, image) == "runs"
        denying = [{"do": "allow", "tool": "other"}, {"do": "deny", "when": {"/n": {"gt": 1}}}]
        await set_rules(desk, DEFAULT_TENANT, denying)
        assert await decide(desk, image) == "denied: The call was denied: tenant rule 2: input /n"
        await set_rules(desk, DEFAULT_TENANT, None)
        assert await decide(desk, image) == "runs"
        await set_rules(desk, None, [{"effect": "destructive", "do": "ask", "ask": {"audience": "admins"}}])
        # A tenant cannot lift what the operator asks for.
        await set_rules(desk, DEFAULT_TENANT, ALLOW_ALL)
        assert await decide(desk, image) == "asks: operator rule 1: destructive"


async def test_the_rules_of_an_image_only_tighten() -> None:
    lax, strict = PolicyRule(do="allow"), PolicyRule(do="deny", tool="ham*")
    async with open_desk(asking(3), tools=[hammer], definitions=[definition(lax)]) as desk:
        image = await desk.create_image(definition="smith")
        assert await decide(desk, image) == "asks: default rule 1: destructive"
    async with open_desk(asking(3), tools=[hammer], definitions=[definition(strict)]) as desk:
        image = await desk.create_image(definition="smith")
        await set_rules(desk, None, ALLOW_ALL)
        assert await decide(desk, image) == "denied: The call was denied: image rule 1: ham*"


async def test_an_approval_is_remembered_only_where_the_rule_says_so() -> None:
    rule: dict[str, object] = {"effect": "destructive", "do": "ask", "ask": {"remember": True}}
    async with open_desk(asking(4), tools=[hammer], definitions=[definition()]) as desk:
        image = await desk.create_image(definition="smith")
        await set_rules(desk, None, [rule])
        assert (await decide(desk, image, remember="session")).startswith("asks")
        assert await decide(desk, image) == "runs"
        # The memory does not lift an ask of a rule that does not say so.
        await set_rules(desk, DEFAULT_TENANT, [{"effect": "destructive", "do": "ask"}])
        assert await decide(desk, image) == "asks: operator rule 1: destructive; tenant rule 1: destructive"
