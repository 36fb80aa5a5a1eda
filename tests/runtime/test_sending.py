import pytest
from tests.runtime.fixtures import open_world

from agentvm.drivers.scripted import ScriptedDriver
from agentvm.runtime.accepted import Incoming
from agentvm.runtime.sending import sending

pytestmark = pytest.mark.anyio


async def test_the_turn_of_an_earlier_send_under_a_key_is_found() -> None:
    async with open_world(ScriptedDriver()) as world:
        agent = world.start()
        async with sending(agent, "k") as earlier:
            assert earlier is None
            accepted = await agent.receive(Incoming("hi", "k"))
        async with sending(agent, "k") as earlier:
            assert earlier is not None
            assert earlier.turn_id == accepted.state.turn_id
        async with sending(agent, None) as earlier:
            assert earlier is None
        agent.release(accepted)
        await world.hear("turn_response")
