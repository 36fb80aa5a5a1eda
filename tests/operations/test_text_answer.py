"""Messages beside a turn that waits: those that answer it, end it, wait for it, or are refused."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Literal

import pytest
from tests.operations.fixtures import Desk, open_desk
from tests.runtime.fixtures import open_world
from tests.runtime.test_parking import Hammer, answer, asked_for, open_waits

from agentvm.app import open_agentvm
from agentvm.config import ServerConfig, SystemSettings
from agentvm.drivers.scripted import ScriptedDriver, ScriptStep, in_turn, reply, tool_calls
from agentvm.model.definition import Definition
from agentvm.model.tool_settings import ToolSettings
from agentvm.operations.text_answer import TextAnswer, parse_answer
from agentvm.runtime.accepted import Incoming
from agentvm.runtime.function_tool import tool

pytestmark = pytest.mark.anyio

struck: list[int] = []


@tool(effect="destructive", world="closed")
async def hammer(n: int) -> str:
    """Strikes."""
    struck.append(n)
    return "struck"


@asynccontextmanager
async def waiting(allowed: Literal["on", "off"] = "on") -> AsyncIterator[tuple[Desk, Any]]:
    """A desk whose agent waits for approvals of two calls, and its image."""
    struck.clear()
    calls = tool_calls(("c1", "hammer", {"n": 1}), ("c2", "hammer", {"n": 2}))
    driver = ScriptedDriver(in_turn(calls, reply("done"), reply("next")))
    definition = Definition(name="smith", tools=("hammer",))
    settings = ToolSettings(answer_by_text=allowed)
    async with open_desk(driver, tools=[hammer], definitions=[definition], tool_settings=settings) as desk:
        image = await desk.create_image(definition="smith")
        await desk.ask("message_send", imageId=image["imageId"], content="go")
        await desk.hear("turn_parked")
        yield desk, image


@pytest.mark.parametrize(
    ("text", "parsed"),
    [
        ("/approve", TextAnswer("approve")),
        (" /approve\n", TextAnswer("approve")),
        ("/approve all", TextAnswer("approve", of_all=True)),
        ("同意", TextAnswer("approve")),
        ("/deny", TextAnswer("deny")),
        ("/deny not on a Friday", TextAnswer("deny", reason="not on a Friday")),
        ("拒绝", TextAnswer("deny")),
        ("拒绝 太贵", TextAnswer("deny", reason="太贵")),
        ("/approve it", None),
        ("I would /approve", None),
        ("/denying", None),
        ("同意吗", None),
        ("", None),
    ],
)
def test_only_exact_words_are_an_answer(text: str, parsed: TextAnswer | None) -> None:
    assert parse_answer(text) == parsed


async def test_words_answer_a_call_that_has_waited_since_before_a_restart(tmp_path: Path) -> None:
    struck.clear()
    config = ServerConfig(system=SystemSettings(data_dir=str(tmp_path)), tools=ToolSettings(answer_by_text="on"))
    definition = Definition(name="smith", tools=("hammer",))

    @asynccontextmanager
    async def run(*steps: Sequence[ScriptStep]) -> AsyncIterator[Desk]:
        drivers = {"scripted": ScriptedDriver(in_turn(*steps))}
        async with open_agentvm(config, drivers=drivers, tools=[hammer], definitions=[definition]) as vm:
            yield Desk(vm, vm.attach())

    async with run(tool_calls(("c1", "hammer", {"n": 7}))) as desk:
        image = await desk.create_image(definition="smith")
        await desk.ask("message_send", imageId=image["imageId"], content="go")
        await desk.hear("turn_parked")
    async with run(reply("done")) as desk:
        sent = await desk.ask("message_send", imageId=image["imageId"], content="/approve")
        assert "messageId" not in sent
        await desk.hear("turn_response")
        assert struck == [7]
        told = (await desk.ask("session_messages", sessionId=image["sessionId"]))["messages"]
        assert [message["content"] for message in told if message["role"] == "user"] == ["go"]


async def test_words_answer_one_call_after_the_other_and_are_audited() -> None:
    async with waiting() as (desk, image):
        sent = await desk.ask("message_send", imageId=image["imageId"], content="/approve")
        assert "messageId" not in sent
        assert sent["turnId"].startswith("turn_")
        await desk.hear("turn_parked", times=2)
        assert struck == [1]
        await desk.ask("message_send", imageId=image["imageId"], content="/deny too loud")
        heard = await desk.hear("turn_response")
        assert [event["data"]["outcome"] for event in heard if event["type"] == "turn_response"] == ["completed"]
        assert struck == [1]
        denied = [event["data"]["reason"] for event in heard if event["type"] == "tool_denied"]
        assert denied == ["The call was denied: too loud"]
        assert sum(event["type"] == "user_message" for event in heard) == 1
        entries = await desk.peer.workspace.accounts.audit.list(limit=10)
        assert [entry.action for _, entry in entries if entry.action == "wait.answer"] == ["wait.answer"] * 2


async def test_an_answer_that_is_sent_again_approves_no_further_call() -> None:
    async with waiting() as (desk, image):
        sent = {"imageId": image["imageId"], "content": "/approve", "clientMessageId": "m1"}
        first = await desk.ask("message_send", **sent)
        await desk.hear("turn_parked", times=2)
        again = await desk.ask("message_send", **sent)
        assert (again["turnId"], len((await desk.ask("tool_waits", state="open"))["waits"])) == (first["turnId"], 1)
        assert struck == [1]
        await desk.ask("message_send", **{**sent, "clientMessageId": "m2"})
        await desk.hear("turn_response")
        assert struck == [1, 2]


async def test_all_calls_are_approved_at_once() -> None:
    async with waiting() as (desk, image):
        await desk.ask("message_send", imageId=image["imageId"], content="/approve all")
        await desk.hear("turn_response")
        assert sorted(struck) == [1, 2]


async def test_words_are_a_message_where_nothing_waits_or_the_tenant_does_not_allow_it() -> None:
    async with waiting("off") as (desk, image):
        sent = await desk.ask("message_send", imageId=image["imageId"], content="/approve")
        assert sent["messageId"]
        assert struck == []
    async with waiting() as (desk, image):
        await desk.ask("message_send", imageId=image["imageId"], content="never mind")
        await desk.hear("turn_response", times=2)
        sent = await desk.ask("message_send", imageId=image["imageId"], content="/approve")
        assert sent["messageId"]
        assert struck == []


async def test_a_message_may_be_refused_or_wait_for_the_answers() -> None:
    async with waiting() as (desk, image):
        refused = await desk.ask("message_send", imageId=image["imageId"], content="hi", onParked="reject")
        assert refused["errorCode"] == "agent_busy"
        queued = await desk.ask("message_send", imageId=image["imageId"], content="hi", onParked="queue")
        assert queued["messageId"]
        waits = (await desk.ask("tool_waits", state="open"))["waits"]
        assert len(waits) == 2
        for wait in waits:
            answered = {"waitId": wait["waitId"], "fingerprint": wait["fingerprint"], "decision": "approve"}
            await desk.ask("tool_answer", **answered)
        heard = await desk.hear("turn_response", times=2)
        assert sorted(struck) == [1, 2]
        ends = [event["data"] for event in heard if event["type"] == "turn_response"]
        assert [end["outcome"] for end in ends] == ["completed", "completed"]
        assert ends[1]["turnId"] == queued["turnId"]


async def test_a_message_that_ends_the_parked_turn_comes_after_one_that_waited_for_it() -> None:
    async with waiting() as (desk, image):
        queued = await desk.ask("message_send", imageId=image["imageId"], content="hi", onParked="queue")
        last = await desk.ask("message_send", imageId=image["imageId"], content="enough")
        heard = await desk.hear("turn_response", times=3)
        ends = [event["data"] for event in heard if event["type"] == "turn_response"]
        assert [end["outcome"] for end in ends] == ["interrupted", "completed", "completed"]
        assert [end["turnId"] for end in ends[1:]] == [queued["turnId"], last["turnId"]]
        assert struck == []


async def test_a_message_waits_for_the_answers_also_after_a_restart(tmp_path: Path) -> None:
    path, tools = tmp_path / "data", [Hammer().tool]
    async with open_world(asked_for(("c1", "hammer")), tools=tools, path=path, suspends=True) as world:
        await world.say(world.start(), "go")
        await world.hear("turn_parked")
        await world.start().rest()
        agent = world.start()
        agent.release(await agent.receive(Incoming("later", on_parked="queue")))
        await agent.rest()
    async with open_world(ScriptedDriver(), tools=tools, path=path) as world:
        await world.start().rest()
        assert [turn.outcome for turn in await world.turns()] == [None, None]
        (wait,) = await open_waits(world)
        await answer(world, wait)
        await world.hear("turn_response", times=2)
        assert [turn.outcome for turn in await world.turns()] == ["completed", "completed"]
