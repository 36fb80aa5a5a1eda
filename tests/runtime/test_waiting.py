"""Calls whose tools need a person: they wait, and are made again with the answer."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import anyio
import pytest
from tests.runtime.fixtures import World, open_world, tool, types
from tests.runtime.test_parking import answer, open_waits, results

from agentvm.drivers.base import ToolSpec
from agentvm.drivers.scripted import ScriptedDriver, in_turn, reply, tool_calls
from agentvm.events.base import EventScope
from agentvm.events.tool import ProgramChanged
from agentvm.model.ids import DEFAULT_TENANT, ContainerId, ImageId, MessageId, SessionId, TurnId
from agentvm.model.program import ProgramEnded
from agentvm.model.turn import Turn
from agentvm.model.wait import ROUNDS_MAX, Question, ToolWait
from agentvm.runtime import turn
from agentvm.runtime.accepted import Accepted
from agentvm.runtime.billing import Bill, Unmetered
from agentvm.runtime.tools import Tool, tool_of
from agentvm.runtime.waiting import close_calls
from agentvm.tools.base import (
    CallContext,
    CallTraits,
    ConsentRequired,
    InputRequired,
    Outcome,
    Resumption,
    TraitsOfTool,
    text_result,
)

pytestmark = pytest.mark.anyio

LEFT = Turn(
    turn_id=TurnId("turn_1"),
    session_id=SessionId("s"),
    container_id=ContainerId("c"),
    image_id=ImageId("i"),
    message_id=MessageId("m"),
    accepted_at=1,
)

SIZE = InputRequired(questions={"size": Question(mode="form", message="Which size?")}, state="sealed")
LOGIN = ConsentRequired(url="https://example.org/login", state="oauth", server="shop")
SPEC = ToolSpec(name="shop", description="Buys.", input_schema={"type": "object"})
LARGE = {"size": {"action": "accept", "content": {"size": "L"}}}


@dataclass
class Shop(TraitsOfTool):
    """A tool that asks for everything in `asks`, one after the other, before it delivers."""

    asks: list[Outcome] = field(default_factory=lambda: [SIZE])
    traits: CallTraits = field(default_factory=lambda: CallTraits(world="closed"))
    calls: list[tuple[Mapping[str, object], Resumption | None]] = field(default_factory=list)
    spec: ToolSpec = SPEC

    async def run(self, input: Mapping[str, object], context: CallContext) -> Outcome:
        self.calls.append((input, context.resumption))
        return self.asks.pop(0) if self.asks else text_result("bought")

    def tool(self, *, asks: bool = False) -> Tool:
        return tool_of(self, asks=asks)


@asynccontextmanager
async def shopping(shop: Shop, path: Path | None = None, *, asks: bool = False) -> AsyncIterator[World]:
    async def look(arguments: dict[str, object]) -> object:
        return "seen"

    calls = [("c1", "shop", dict[str, object](n=1)), ("c2", "look", dict[str, object]())]
    driver = ScriptedDriver(in_turn(tool_calls(*calls), reply("done")))
    async with open_world(driver, tools=[shop.tool(asks=asks), tool("look", look)], path=path) as world:
        await world.say(world.start(), "go")
        await world.hear("turn_parked")
        await world.start().rest()
        yield world


async def next_wait(world: World, parked: int = 1) -> ToolWait:
    await world.hear("turn_parked", times=parked)
    await world.start().rest()
    (wait,) = await open_waits(world)
    return wait


async def test_a_tool_that_asks_is_called_again_with_the_answer_and_its_state() -> None:
    shop = Shop()
    async with shopping(shop) as world:
        wait = await next_wait(world)
        assert (wait.kind, wait.round, wait.questions, wait.decisions) == (
            "elicitation",
            0,
            SIZE.questions,
            ("answer", "deny"),
        )
        (told,) = [event["data"] for event in world.heard if event["type"] == "tool_waiting"]
        assert told["questions"]["size"]["message"] == "Which size?"
        assert "sealed" not in str(world.heard)
        assert await answer(world, wait, "answer", result=LARGE)
        await world.hear("turn_response")
        (_, first), (_, resumption) = shop.calls
        assert first is None
        assert resumption is not None
        assert (resumption.state, resumption.answers["size"].content) == ("sealed", {"size": "L"})
        assert sorted(await results(world)) == [("c1", "text", "bought"), ("c2", "text", "seen")]


async def test_an_approved_call_may_ask_for_consent_and_then_for_input_each_in_a_round_of_its_own() -> None:
    shop = Shop([LOGIN, SIZE])
    async with shopping(shop, asks=True) as world:
        wait = await next_wait(world)
        assert (wait.kind, wait.round) == ("approval", 0)
        await answer(world, wait, "edit", input={"n": 2})
        wait = await next_wait(world, parked=2)
        assert (wait.kind, wait.round, wait.url, wait.input) == ("consent", 1, LOGIN.url, {"n": 2})
        await answer(world, wait)
        wait = await next_wait(world, parked=3)
        assert (wait.kind, wait.round) == ("elicitation", 2)
        await answer(world, wait, "answer", result=LARGE)
        await world.hear("turn_response")
        assert [input for input, _ in shop.calls] == [{"n": 2}] * 3
        assert [None if resumption is None else resumption.state for _, resumption in shop.calls] == [None, "oauth", "sealed"]
        (bought,) = [text for call, _, text in await results(world) if call == "c1"]
        assert "A person changed the input" in bought
        waits = world.store.tenant(world.start().tenant_id).waits((wait.container_id,))
        assert [wait.round for wait in await waits.list_turn(wait.session_id, wait.turn_id)] == [0, 1, 2]


@pytest.mark.parametrize("asked", [SIZE, LOGIN])
async def test_who_denies_what_a_tool_asks_for_gives_the_call_its_result(asked: Outcome) -> None:
    shop = Shop([asked])
    async with shopping(shop) as world:
        await answer(world, await next_wait(world), "deny", reason="not today")
        await world.hear("turn_response")
        assert len(shop.calls) == 1
        assert ("c1", "execution-denied", "The call was denied: not today") in await results(world)
        (denied,) = [event["data"] for event in world.heard if event["type"] == "tool_denied"]
        assert (denied["toolId"], denied["reason"]) == ("c1", "The call was denied: not today")


async def test_a_question_that_nobody_answers_in_time_ends_the_call() -> None:
    shop = Shop()
    async with shopping(shop) as world:
        await answer(world, await next_wait(world), "expired")
        await world.hear("turn_response")
        assert "tool_wait_expired" in types(world.heard)
        assert [kind for call, kind, _ in await results(world) if call == "c1"] == ["execution-denied"]
        assert len(shop.calls) == 1


async def test_a_tool_that_goes_on_asking_is_stopped() -> None:
    shop = Shop([SIZE] * 100)
    async with shopping(shop) as world:
        for number in range(1, ROUNDS_MAX + 1):
            await answer(world, await next_wait(world, parked=number), "answer", result=LARGE)
        await world.hear("turn_response")
        assert len(shop.calls) == ROUNDS_MAX + 1
        assert ("c1", "error-text", "The tool asked for input too often and was stopped.") in await results(world)


async def test_the_answer_to_a_tool_is_given_after_a_restart(tmp_path: Path) -> None:
    shop, path = Shop(), tmp_path / "data"
    async with shopping(shop, path):
        pass
    async with open_world(ScriptedDriver(), tools=[shop.tool()], path=path) as world:
        (wait,) = await open_waits(world)
        await answer(world, wait, "answer", result=LARGE)
        with anyio.fail_after(60):
            await world.hear("turn_response")
        assert [None if resumption is None else resumption.state for _, resumption in shop.calls] == [None, "sealed"]


@pytest.mark.parametrize(("left", "ended"), [(LEFT, True), (None, False)])
async def test_the_end_of_a_turn_that_could_not_be_read_drops_the_journals_of_its_programs(
    left: Turn | None, ended: bool
) -> None:
    scope = EventScope(turn_id=LEFT.turn_id)
    state = turn.begin(LEFT.turn_id, LEFT.message_id, 1)
    accepted = Accepted(state, scope, Bill(Unmetered(), lambda: 1, DEFAULT_TENANT, None, scope))
    accepted.resumed, accepted.left = True, left
    _, events = close_calls(accepted, 5)
    assert events == ((ProgramChanged(change=ProgramEnded(turn_id=LEFT.turn_id)),) if ended else ())
