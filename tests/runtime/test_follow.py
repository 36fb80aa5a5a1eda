import anyio
import pytest
from tests.runtime.fixtures import open_world
from tests.runtime.test_broadcaster import in_session

from agentvm.drivers.scripted import Pause, ScriptedDriver, reply
from agentvm.errors import NotFound
from agentvm.events.base import Event
from agentvm.events.stream import TextDelta
from agentvm.events.turn import TurnResponse
from agentvm.model.ids import DEFAULT_TENANT, SessionId, TurnId
from agentvm.runtime.follow import UNSTORED_MAX, SessionFollower, TurnFollower


async def test_a_follower_reads_what_is_told_from_its_cursor_on_and_then_waits() -> None:
    gate = anyio.Event()
    steps = reply("one", "two")
    async with open_world(ScriptedDriver(lambda prompt: [*steps[:3], Pause(gate), *steps[3:]])) as world:
        place = (DEFAULT_TENANT, world.image.container_id, world.image.session_id)
        agent = world.start()
        with SessionFollower(world.runtime.broadcaster, world.runtime.replay, place, 0) as follower:
            await world.say(agent, "go")
            texts: list[str] = []
            with anyio.fail_after(60):
                while not texts:
                    texts += [event.data.text for event in await follower.take() if isinstance(event.data, TextDelta)]
            assert texts == ["one"]
            with anyio.move_on_after(0.01) as waiting:
                await follower.take()
            assert waiting.cancelled_caught
            gate.set()
            events: list[Event] = []
            with anyio.fail_after(60):
                while not any(isinstance(event.data, TurnResponse) for event in events):
                    events += await follower.take()
            assert [event.seq for event in events] == list(range(events[0].seq, events[0].seq + len(events)))
        with SessionFollower(world.runtime.broadcaster, world.runtime.replay, place, 10_000) as lost:
            with pytest.raises(NotFound):
                await lost.take()


async def test_a_turn_that_is_over_is_read_and_not_waited_for() -> None:
    async with open_world(ScriptedDriver()) as world:
        place = (DEFAULT_TENANT, world.image.container_id, world.image.session_id)
        await world.say(world.start(), "go")
        heard = await world.hear("turn_response")
        turn_id = TurnId(next(event["data"]["turnId"] for event in heard if event["type"] == "turn_response"))
        with TurnFollower(SessionFollower(world.runtime.broadcaster, world.runtime.replay, place, 0), turn_id) as follower:
            events = []
            with anyio.fail_after(60):
                while told := await follower.take():
                    events += told
        assert {event.scope.turn_id for event in events} == {turn_id}
        last = SessionFollower(world.runtime.broadcaster, world.runtime.replay, place, events[-1].seq)
        with TurnFollower(last, turn_id, is_over=True) as follower, anyio.fail_after(60):
            assert await follower.take() == []


async def test_events_that_no_log_holds_are_kept_for_a_follower_up_to_a_bound() -> None:
    async with open_world(ScriptedDriver()) as world:
        place = (DEFAULT_TENANT, world.image.container_id, world.image.session_id)
        session_id = SessionId(world.image.session_id)
        with SessionFollower(world.runtime.broadcaster, world.runtime.replay, place, 0) as follower:
            for _ in range(2 * UNSTORED_MAX):
                world.runtime.broadcaster.broadcast((in_session(session_id, DEFAULT_TENANT),))
            with anyio.fail_after(60):
                assert len(await follower.take()) == UNSTORED_MAX
        world.runtime.broadcaster.broadcast((in_session(session_id, DEFAULT_TENANT),))
        assert await follower.read() == []
