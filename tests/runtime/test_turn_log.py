"""What was told of one turn, and whether it is all of it."""

import anyio
import anyio.lowlevel
from tests.runtime.fixtures import open_world

from agentvm.drivers.scripted import Pause, ScriptedDriver, reply
from agentvm.events.stream import TextDelta
from agentvm.events.turn import TurnRequest, TurnResponse
from agentvm.model.ids import DEFAULT_TENANT
from agentvm.runtime.turn_log import TurnLog


async def test_the_events_of_a_turn_are_those_that_were_told_and_no_others() -> None:
    driver = ScriptedDriver(lambda prompt: reply(*(f"{number} " for number in range(600))))
    async with open_world(driver) as world:
        agent = world.start()
        for text in ("one", "two", "three"):
            turn_id = await world.say(agent, text)
            heard = await world.hear("turn_response", turn_id=turn_id)
            await agent.rest()
        _, row, _ = await world.turns()
        log = TurnLog(world.store, world.runtime.replay, DEFAULT_TENANT, row)
        events, complete = await log.read_all()
        some, whole = await log.read_all(10)
        plain, all_of_it = await log.read_all(words=False)
    mine = [frame for frame in heard if frame["context"].get("turnId") == row.turn_id]
    assert complete
    assert [(event.seq, event.timestamp, event.data.type) for event in events] == [
        (int(frame["cursor"]), frame["timestamp"], frame["type"]) for frame in mine
    ]
    assert isinstance(events[-1].data, TurnResponse)
    assert sum(isinstance(event.data, TurnRequest) for event in events) == 1
    assert (len(some) < len(events), whole) == (True, False)
    assert plain == [event for event in events if not isinstance(event.data, TextDelta)]
    assert (len(plain) < 20, all_of_it) == (True, True)


async def test_a_turn_whose_beginning_is_gone_is_not_complete() -> None:
    async with open_world(ScriptedDriver()) as world:
        agent = world.start()
        for text in ("one", "two"):
            turn_id = await world.say(agent, text)
            await world.hear("turn_response", turn_id=turn_id)
            await agent.rest()
        await world.store.trim_log(2**50, 2**50)
        first, second = await world.turns()
        gone = await TurnLog(world.store, world.runtime.replay, DEFAULT_TENANT, first).read_all()
        kept = await TurnLog(world.store, world.runtime.replay, DEFAULT_TENANT, second).read_all()
    assert gone == ([], False)
    assert kept[1]


async def test_of_a_turn_that_runs_a_part_is_not_all_of_it() -> None:
    gate = anyio.Event()
    first, *others = reply(*(f"{number} " for number in range(1_200)))
    driver = ScriptedDriver(lambda prompt: [first, *others[:-2], Pause(gate), *others[-2:]])
    async with open_world(driver) as world:
        agent = world.start()
        turn_id = await world.say(agent, "one")
        with anyio.fail_after(60):
            (row,) = await world.turns()
            log = TurnLog(world.store, world.runtime.replay, DEFAULT_TENANT, row)
            while len((await log.read_all())[0]) < 1_000:
                await anyio.lowlevel.checkpoint()
        assert (await log.read_all(10))[1] is False
        assert (await log.read_all(words=False))[1] is True
        gate.set()
        await world.hear("turn_response", turn_id=turn_id)
