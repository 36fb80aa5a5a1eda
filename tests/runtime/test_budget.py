from decimal import Decimal

import pytest
from tests.runtime.fixtures import open_world, tool

from agentvm.drivers.base import Prompt
from agentvm.drivers.scripted import ScriptedDriver, ScriptStep, reply, tool_calls
from agentvm.errors.bounds import TurnLimitReached
from agentvm.model.limits import Limits
from agentvm.model.money import DOLLAR_NANO
from agentvm.model.usage import Usage
from agentvm.runtime import budget
from agentvm.runtime.recovery.progress import Done

LIMITS = Limits(steps=5, turn_tokens=1_000, turn_cost=Decimal(2), repeats=3)


def used(tokens: int) -> Usage:
    return Usage(input_tokens=tokens, output_tokens=0)


@pytest.mark.parametrize(
    ("done", "cost"),
    [
        (Done(), 0),
        (Done(steps=4, usage=used(999), most_repeated=("look", 2)), 2 * DOLLAR_NANO - 1),
    ],
)
def test_a_turn_within_its_budget_goes_on(done: Done, cost: int) -> None:
    budget.check(LIMITS, done, cost)


@pytest.mark.parametrize(
    ("done", "cost", "reason"),
    [
        (Done(steps=5), 0, "after 5 model calls"),
        (Done(usage=used(1_000)), 0, "used 1,000 tokens; one turn may use 1,000"),
        (Done(usage=Usage(input_tokens=0, output_tokens=0, cache_read_tokens=2_000)), 0, "used 2,000 tokens"),
        (Done(), 2 * DOLLAR_NANO, r"cost \$2.00; one turn may cost \$2.00"),
        (Done(most_repeated=("look", 3)), 0, "called look 3 times with the same input"),
    ],
)
def test_what_is_used_up_is_named(done: Done, cost: int, reason: str) -> None:
    with pytest.raises(TurnLimitReached, match=reason):
        budget.check(LIMITS, done, cost)


def looping(prompt: Prompt) -> list[ScriptStep]:
    """A model that never stops asking the same."""
    number = len(prompt.conversation)
    return list(tool_calls((f"c{number}", "look", {"at": "it", "how": [1, 2]}), text="Let me look."))


async def test_a_model_that_goes_in_circles_is_stopped_with_an_explanation_that_is_stored() -> None:
    runs = 0

    async def look(arguments: dict[str, object]) -> object:
        nonlocal runs
        runs += 1
        return "nothing"

    async with open_world(ScriptedDriver(looping), tools=[tool("look", look)], limits=Limits(repeats=4)) as world:
        turn_id = await world.say(world.start(), "find it")
        heard = await world.hear("turn_response", turn_id=turn_id)
        assert runs == 4
        said = next(event["data"] for event in heard if event["type"] == "error_occurred")
        assert said["code"] == "turn_limit_reached"
        assert "look 4 times" in said["message"]
        stored = (await world.messages())[-1]
        assert (stored.role, getattr(stored, "content", None)) == ("error", said["message"])
        (turn,) = await world.turns()
        assert turn.outcome == "failed"
        # The next turn has a budget of its own.
        assert world.runtime.roster.find(world.channel.principal.tenant_id, world.start().agent_id) is not None


async def test_a_turn_that_has_used_its_tokens_makes_no_further_call() -> None:
    async def look(arguments: dict[str, object]) -> object:
        return "nothing"

    calls: list[int] = []

    def script(prompt: Prompt) -> list[ScriptStep]:
        calls.append(1)
        return list(tool_calls((f"c{len(calls)}", "look", {"n": len(calls)}))) if len(calls) < 9 else reply("done")

    # Each call of the script reports six tokens.
    async with open_world(ScriptedDriver(script), tools=[tool("look", look)], limits=Limits(turn_tokens=12)) as world:
        turn_id = await world.say(world.start(), "go")
        heard = await world.hear("turn_response", turn_id=turn_id)
        assert len(calls) == 2
        assert [event["data"]["code"] for event in heard if event["type"] == "error_occurred"] == ["turn_limit_reached"]
