import pytest
from tests.runtime.fixtures import left, open_world
from tests.runtime.test_billing import Till, entries

from agentvm.drivers.scripted import ScriptedDriver
from agentvm.model.ids import MessageId
from agentvm.model.usage import NO_USAGE, Usage
from agentvm.runtime.recovery import Cut, Done

pytestmark = pytest.mark.anyio


async def test_a_call_whose_provider_had_not_said_what_it_read_is_billed_for_the_prompt() -> None:
    till = Till()
    async with open_world(ScriptedDriver(), meter=till) as world:
        agent = world.start()
        await world.say(agent, "a long message " * 500)
        await world.hear("turn_response")
        cut = Cut(MessageId("msg_cut"), "m", Usage(input_tokens=0, output_tokens=5, estimated=True))
        agent.release(agent.resume(left(world), Done(), cut=cut))
        await world.hear("turn_response", times=2)
        (entry,) = [one for one in await entries(world) if one.key == "msg_cut"]
        assert entry.usage.estimated
        assert entry.usage.input_tokens > 2_000
        assert entry.usage.output_tokens == 5


async def test_a_turn_that_did_nothing_before_the_restart_owes_nothing() -> None:
    till = Till()
    async with open_world(ScriptedDriver(), meter=till) as world:
        agent = world.start()
        agent.release(agent.resume(left(world), Done()))
        end = (await world.hear("turn_response"))[-1]["data"]
        (entry,) = await entries(world)
        assert end["price"] == entry.price
        assert entry.usage != NO_USAGE
