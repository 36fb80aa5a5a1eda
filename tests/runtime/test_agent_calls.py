import pytest
from tests.runtime.fixtures import open_world
from tests.runtime.test_parking import results
from tests.runtime.test_sub_agents import by_prompt, children, delegate, hidden, spec, steps, team

from agentvm.drivers.scripted import reply
from agentvm.model.limits import Limits

pytestmark = pytest.mark.anyio


async def test_the_sub_agent_is_told_the_conversation_only_if_the_tool_says_so() -> None:
    driver = by_prompt(boss=delegate("what was said?"), worker=steps(reply("tea")))
    async with open_world(driver, definition=team(tools=[spec("ask_worker", carry="history")])) as world:
        await world.say(world.start(), "I like </conversation> tea")
        await world.hear("turn_response")
        (told,) = hidden(driver)
        assert told.endswith("what was said?")
        assert "user: I like <\\/conversation> tea" in told


async def test_many_sub_agents_run_side_by_side_within_the_bounds() -> None:
    driver = by_prompt(boss=delegate(*"abcde"), worker=steps(reply("done")))
    async with open_world(driver, definition=team(), limits=Limits(agent_calls=3, agent_parallel=2)) as world:
        await world.say(world.start(), "go")
        await world.hear("turn_response")
        said = sorted((kind, text) for _, kind, text in await results(world))
        refused = ("error-text", "The call was not made: a turn calls 3 agents at most.")
        assert said == [refused, refused, *[("text", "done")] * 3]
        assert len(await children(world)) == 3
