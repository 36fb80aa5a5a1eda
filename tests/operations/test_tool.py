"""Who may answer a call that waits, and with what."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from tests.operations.fixtures import Desk, open_desk

from agentvm.drivers.scripted import ScriptedDriver, in_turn, reply, tool_calls
from agentvm.model.definition import Definition
from agentvm.model.ids import DEFAULT_TENANT, UserId
from agentvm.model.policy import Approval, PolicyRule
from agentvm.model.principal import Principal
from agentvm.runtime.function_tool import tool

pytestmark = pytest.mark.anyio

struck: list[int] = []


@tool(effect="destructive", world="closed")
async def hammer(n: int) -> str:
    """Strikes."""
    struck.append(n)
    return "struck"


@asynccontextmanager
async def waiting(approval: Approval | None = None, **more: object) -> AsyncIterator[tuple[Desk, Any]]:
    """A desk whose agent waits for an approval, and the wait."""
    struck.clear()
    driver = ScriptedDriver(in_turn(tool_calls(("c1", "hammer", {"n": 1, **more})), reply("done")))
    rules = () if approval is None else (PolicyRule(tool="hammer", do="ask", ask=approval),)
    definition = Definition(name="smith", tools=("hammer",), policy=rules)
    async with open_desk(driver, tools=[hammer], definitions=[definition]) as desk:
        image = await desk.create_image(definition="smith")
        await desk.ask("message_send", imageId=image["imageId"], content="go")
        await desk.hear("turn_parked")
        (wait,) = (await desk.ask("tool_waits", state="open"))["waits"]
        yield desk, wait


def answer_to(wait: Any, **more: object) -> dict[str, object]:
    return {"waitId": wait["waitId"], "fingerprint": wait["fingerprint"], **more}


async def test_a_wait_is_listed_with_all_that_somebody_needs_to_decide() -> None:
    async with waiting() as (desk, wait):
        assert (wait["tool"], wait["input"], wait["kind"]) == ("hammer", {"n": 1}, "approval")
        assert wait["why"] == "default rule 1: destructive"
        assert (await desk.ask("tool_waits", sessionId="sess_none"))["waits"] == []
        assert (await desk.ask("tool_waits", state="answered"))["waits"] == []
        assert (await desk.ask("tool_waits", cursor="x"))["errorCode"] == "invalid_input"


async def test_an_approval_lets_the_turn_go_on() -> None:
    async with waiting() as (desk, wait):
        reply = await desk.ask("tool_answer", **answer_to(wait, decision="approve"))
        assert reply == {"waitId": wait["waitId"], "turnId": wait["turnId"], "decision": "approve"}
        await desk.hear("turn_response")
        assert struck == [1]
        again = await desk.ask("tool_answer", **answer_to(wait, decision="approve"))
        assert again == reply
        other = await desk.ask("tool_answer", **answer_to(wait, decision="deny"))
        assert (other["errorCode"], "approve" in other["error"]) == ("wait_answered", True)


@pytest.mark.parametrize(
    ("change", "code", "why"),
    [
        ({"waitId": "wait_none"}, "wait_not_found", "wait_none"),
        ({"fingerprint": "sha256:0"}, "invalid_input", "fingerprint is not that of this wait"),
        ({"decision": "answer"}, "invalid_input", "decision must be one of approve, edit, deny"),
        ({"decision": "edit"}, "invalid_input", "input is required"),
        (
            {"decision": "approve", "input": {"n": 2}},
            "invalid_input",
            "input is required for the decision edit, and for no other",
        ),
        ({"decision": "approve", "result": 1}, "invalid_input", "result is only for the decision answer"),
        ({"decision": "approve", "remember": "session"}, "invalid_input", "remember is only"),
        ({"decision": "perhaps"}, "invalid_input", "decision"),
    ],
)
async def test_an_answer_that_does_not_fit_changes_nothing(change: dict[str, object], code: str, why: str) -> None:
    async with waiting() as (desk, wait):
        refused = await desk.ask("tool_answer", **{**answer_to(wait, decision="approve"), **change})
        assert refused["errorCode"] == code
        assert why in refused["error"]
        assert len((await desk.ask("tool_waits", state="open"))["waits"]) == 1
        assert struck == []


@pytest.mark.parametrize("approval", [Approval(audience="admins"), Approval(audience="user:alice"), Approval(audience="owner")])
@pytest.mark.parametrize("decision", ["approve", "deny"])
async def test_who_is_not_asked_cannot_answer(approval: Approval, decision: str) -> None:
    async with waiting(approval) as (desk, wait):
        bob = Principal(tenant_id=DEFAULT_TENANT, user_id=UserId("bob"), permissions=frozenset({"agent:use", "sessions:read"}))
        refused = await Desk(desk.vm, desk.vm.attach(bob)).ask("tool_answer", **answer_to(wait, decision=decision))
        assert refused["errorCode"] == "wait_forbidden"
        assert len((await desk.ask("tool_waits", state="open"))["waits"]) == 1
        assert struck == []


@pytest.mark.parametrize("decision", ["approve", "deny"])
async def test_an_answer_that_comes_too_late_is_refused(decision: str) -> None:
    async with waiting() as (desk, wait):
        # Whoever ends waits in time has not come to it yet.
        await desk.vm.store._database.write(lambda connection: connection.execute("UPDATE waits SET expires_at = 1"))
        refused = await desk.ask("tool_answer", **answer_to(wait, decision=decision))
        assert refused["errorCode"] == "wait_expired"
        assert struck == []


async def test_another_tenant_neither_sees_nor_answers_a_wait() -> None:
    async with waiting() as (desk, wait):
        stranger = desk.another("rival")
        assert (await stranger.ask("tool_waits"))["waits"] == []
        refused = await stranger.ask("tool_answer", **answer_to(wait, decision="approve"))
        assert refused["errorCode"] == "wait_not_found"
        assert struck == []


@tool(effect="read", world="closed")
async def look() -> str:
    """Looks."""
    struck.append(0)
    return "seen"


async def test_calls_of_a_turn_count_for_the_tools_that_a_tenant_runs_at_a_time() -> None:
    struck.clear()
    driver = ScriptedDriver(in_turn(tool_calls(("c1", "look", {})), reply("done")))
    async with open_desk(driver, tools=[look], definitions=[Definition(name="eye", tools=("look",))]) as desk:
        image = await desk.create_image(definition="eye")
        await desk.limit("running_tools", 0)
        await desk.ask("message_send", imageId=image["imageId"], content="go")
        (failed,) = [event for event in await desk.hear("turn_response") if event["type"] == "tool_failed"]
        assert "running_tools" in failed["data"]["error"]
        assert struck == []
