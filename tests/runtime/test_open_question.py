"""Questions of a tool whose call is held open for the answer."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import anyio
import pytest
from tests.runtime.fixtures import World, open_world, types
from tests.runtime.test_parking import answer, open_waits, results
from tests.runtime.test_waiting import SPEC

from agentvm.drivers.scripted import ScriptedDriver, in_turn, reply, tool_calls
from agentvm.model.wait import Question, QuestionAnswer, ToolWait
from agentvm.runtime.open_question import KEY
from agentvm.runtime.tools import tool_of
from agentvm.tools.base import CallContext, CallTraits, Outcome, TraitsOfTool, text_result

pytestmark = pytest.mark.anyio

SIZE = Question(mode="form", message="Which size?")
LARGE = {KEY: {"action": "accept", "content": {"size": "L"}}}


@dataclass
class Tailor(TraitsOfTool):
    """A tool that asks while it works, each time for as long as `patience` says."""

    patience: list[float]
    traits: CallTraits = field(default_factory=lambda: CallTraits(world="closed", timeout_seconds=5.0))
    answers: list[QuestionAnswer] = field(default_factory=list)
    spec = SPEC

    async def run(self, input: Mapping[str, object], context: CallContext) -> Outcome:
        for seconds in self.patience:
            with anyio.move_on_after(seconds):
                self.answers.append(await context.ask(SIZE))
        return text_result(", ".join(str(answer.content or answer.action) for answer in self.answers) or "no answer")


@asynccontextmanager
async def asked(tailor: Tailor) -> AsyncIterator[World]:
    driver = ScriptedDriver(in_turn(tool_calls(("c1", "shop", {})), reply("done")))
    async with open_world(driver, tools=[tool_of(tailor)]) as world:
        await world.say(world.start(), "go")
        yield world


async def next_wait(world: World, number: int = 1) -> ToolWait:
    told = await world.hear("tool_waiting", times=number)
    assert told[-1]["data"]["held"] is True
    (wait,) = await open_waits(world)
    return wait


async def test_the_call_goes_on_with_the_answer_and_its_turn_was_never_parked() -> None:
    tailor = Tailor([60.0, 60.0])
    async with asked(tailor) as world:
        first = await next_wait(world)
        assert (first.kind, first.round, first.decisions) == ("elicitation", 0, ("answer", "deny"))
        assert await answer(world, first, "answer", result=LARGE)
        second = await next_wait(world, 2)
        assert second.round == 1
        assert await answer(world, second, "deny")
        await world.hear("turn_response")
        assert [answer.action for answer in tailor.answers] == ["accept", "decline"]
        assert await results(world) == [("c1", "text", "{'size': 'L'}, decline")]
        assert "turn_parked" not in types(world.heard)


async def test_a_question_that_nobody_answers_in_time_ends_and_the_call_goes_on() -> None:
    async with asked(Tailor([0.0])) as world:
        await world.hear("turn_response")
        assert await results(world) == [("c1", "text", "no answer")]
        assert await open_waits(world) == []


async def test_a_turn_that_is_stopped_takes_the_question_back_before_its_end() -> None:
    async with asked(Tailor([60.0])) as world:
        wait = await next_wait(world)
        agent = world.start()
        agent.cancel(await agent.interrupt())
        await world.hear("turn_response")
        assert types(world.heard)[-1] == "turn_response"
        assert "tool_wait_expired" in types(world.heard)
        assert [kind for _, kind, _ in await results(world)] == ["error-text"]
        assert not await answer(world, wait, "answer", result=LARGE)
