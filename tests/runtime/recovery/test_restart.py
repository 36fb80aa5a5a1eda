"""Turns that may kill the server begin in groups, all others at once."""

from typing import Any

import anyio
import anyio.lowlevel
import pytest
from msgspec import structs
from tests.runtime.fixtures import left, open_world
from tests.runtime.recovery.fixtures import Prepared, add_left, finished, rows

from agentvm.drivers.base import Prompt
from agentvm.drivers.scripted import Pause, ScriptedDriver, ScriptStep, last_user_text, reply
from agentvm.model.ids import DEFAULT_TENANT, MessageId, SessionId, TurnId
from agentvm.model.message import UserMessage
from agentvm.runtime.recovery import restart


def gated(gates: dict[str, anyio.Event], *, begun: list[str]) -> ScriptedDriver:
    def script(prompt: Prompt) -> list[ScriptStep]:
        name = last_user_text(prompt)
        begun.append(name)
        return [*reply("x")[:3], Pause(gates[name]), *reply("x")[3:]]

    return ScriptedDriver(script)


async def until(done: Any) -> None:
    with anyio.fail_after(60):
        while not done():  # there is no event to wait for
            await anyio.lowlevel.checkpoint()


async def test_many_suspects_are_begun_together_and_say_how_many_they_are(prepared: Prepared) -> None:
    names = [f"s{number}" for number in range(8)]
    await prepared.leave(names, attempts=2)
    gates, begun = {name: anyio.Event() for name in names}, list[str]()
    async with open_world(gated(gates, begun=begun), path=prepared.path) as world:
        await until(lambda: len(begun) == 8)
        assert {(turn.attempts, turn.alongside) for turn in (await rows(world.store)).values()} == {(3, 8)}
        for gate in gates.values():
            gate.set()
        await finished(world.store)


async def test_the_next_group_waits_for_the_turns_of_the_one_before_and_not_for_what_waits_behind_them(
    prepared: Prepared,
) -> None:
    names = [f"s{number}" for number in range(4)]
    await prepared.leave(names, attempts=3, alongside=4)
    gates, begun = {name: anyio.Event() for name in (*names, "more")}, list[str]()
    async with open_world(gated(gates, begun=begun), path=prepared.path) as world:
        await until(lambda: len(begun) == 2)
        assert sorted(turn.attempts for turn in (await rows(world.store)).values()) == [3, 3, 4, 4]
        first = list(begun)
        for name in first:
            agent = world.runtime.start_agent(DEFAULT_TENANT, world.image, SessionId(name))[0]
            agent.release(await agent.receive("more"))
            gates[name].set()
        # The turns of the first group have ended; what was said in their sessions since runs on.
        await until(lambda: len(set(begun)) == 5)
        gates["more"].set()
        for name in names:
            gates[name].set()
        await finished(world.store)


async def test_nobody_waits_in_line_for_longer_than_a_while_and_all_that_run_are_suspected_together(
    prepared: Prepared, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(restart, "GROUP_SECONDS", 0.01)
    await prepared.leave(["long", "short"], attempts=2)
    gates, begun = {name: anyio.Event() for name in ("long", "short")}, list[str]()
    async with open_world(gated(gates, begun=begun), path=prepared.path) as world:
        await until(lambda: len(begun) == 2)
        found = await rows(world.store)
        assert {(turn.attempts, turn.alongside) for turn in found.values()} == {(3, 2)}
        for gate in gates.values():
            gate.set()
        await finished(world.store)


async def test_a_suspect_that_was_stopped_ends_without_waiting_in_line(prepared: Prepared) -> None:
    await prepared.leave(["a", "b"], attempts=2)
    gates, begun = {name: anyio.Event() for name in ("a", "b")}, list[str]()
    async with open_world(gated(gates, begun=begun), path=prepared.path) as world:
        await until(lambda: len(begun) == 1)
        (waits,) = {"a", "b"} - set(begun)
        agent = world.runtime.start_agent(DEFAULT_TENANT, world.image, SessionId(waits))[0]
        agent.cancel(agent.inbox[0])
        with anyio.fail_after(60):
            await agent.rest()
        assert list(await rows(world.store)) == begun
        gates[begun[0]].set()
        await finished(world.store)


async def test_a_turn_that_waits_behind_another_of_its_session_is_counted_when_it_begins(prepared: Prepared) -> None:
    async with open_world(ScriptedDriver(), path=prepared.path) as world:
        await add_left(world, ["a"])
        second = structs.replace(
            left(world), turn_id=TurnId("turn_2"), session_id=SessionId("a"), message_id=MessageId("m_2"), accepted_at=2
        )
        said = UserMessage(id=MessageId("m_2"), timestamp=1, turn_id=TurnId("turn_2"), role="user", content="b")
        log = world.store.tenant(DEFAULT_TENANT).container(world.image.container_id).log(SessionId("a"))
        await log.record(messages=[said], turns=[second], now=2)
    gates, begun = {name: anyio.Event() for name in ("a", "b")}, list[str]()
    async with open_world(gated(gates, begun=begun), path=prepared.path) as world:
        await until(lambda: begun == ["a"])
        counted = {turn.turn_id: turn.attempts for _, turn in await world.store.list_unfinished()}
        assert counted == {"turn_a": 1, "turn_2": 0}
        gates["a"].set()
        await until(lambda: begun == ["a", "b"])
        gates["b"].set()
        await finished(world.store)


async def test_a_runtime_can_be_used_before_it_knows_the_turns_of_the_previous_run(prepared: Prepared) -> None:
    names = [f"s{number}" for number in range(4)]
    await prepared.leave(names, attempts=0)
    gates, begun = {name: anyio.Event() for name in names}, list[str]()
    async with open_world(gated(gates, begun=begun), path=prepared.path, recovers_later=True) as world:
        assert not world.runtime.recovered.is_set()
        assert len(world.runtime.roster) == 0
        with anyio.fail_after(60):
            await world.runtime.recovered.wait()
        assert len(world.runtime.roster) == 4
        for gate in gates.values():
            gate.set()
        await finished(world.store)


async def test_turns_that_a_stop_finds_unread_are_left_for_the_next_start(prepared: Prepared) -> None:
    await prepared.leave(["s0"], attempts=0)
    gates, begun = {"s0": anyio.Event()}, list[str]()
    async with open_world(gated(gates, begun=begun), path=prepared.path, recovers_later=True) as world:
        await world.runtime.drain(grace=0)
        with anyio.fail_after(60):
            await world.runtime.recovered.wait()
    assert begun == []
    gates["s0"].set()
    async with open_world(gated(gates, begun=begun), path=prepared.path) as world:
        await finished(world.store)
    assert begun == ["s0"]
