import pytest
from tests.runtime.fixtures import open_world
from tests.runtime.test_handoff import DESK, desk

pytestmark = pytest.mark.anyio


async def test_a_turn_that_was_handed_over_has_one_end() -> None:
    async with open_world(desk(), definition=DESK) as world:
        await world.say(world.start(), "hello")
        await world.hear("turn_response")
        await world.start().rest()
        (turn,) = await world.turns()
        assert turn.outcome == "completed"
        assert [event["type"] for event in world.hear_nowait()].count("turn_response") == 1
