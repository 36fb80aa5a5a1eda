from collections.abc import Sequence
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from msgspec import structs
from tests.runtime.fixtures import FlakyStore, open_world, types

from agentvm.drivers.scripted import Pause, ScriptedDriver, reply
from agentvm.errors import StoreFailed
from agentvm.errors.cluster import SessionMoved, SessionsMoved
from agentvm.events.base import EventScope
from agentvm.events.lifecycle import Interrupted
from agentvm.events.turn import TurnRequest, TurnResponse
from agentvm.model.ids import MessageId, TurnId
from agentvm.model.limits import Limits
from agentvm.model.usage import Usage
from agentvm.runtime import turn
from agentvm.runtime.accepted import Accepted
from agentvm.runtime.batch import wait_for
from agentvm.storage.base import Committed, SessionWrite


async def test_what_cannot_be_stored_is_told_all_the_same_and_what_is_owed_is_paid_first() -> None:
    broken = [False]
    async with open_world(ScriptedDriver(), fails=lambda number: broken[0]) as world:
        agent = world.start()
        told = Interrupted(agent_id=agent.agent_id, container_id=agent.container_id, turn_id=None)
        broken[0] = True
        assert not await agent.writer.write((told,))
        assert "cursor" not in world.hear_nowait()[-1]
        agent.writer.unstored.append(((told,), agent.writer._scope))
        await agent.writer.store_unstored()
        assert len(agent.writer.unstored) == 1
        with pytest.raises(StoreFailed):
            await agent.writer.emit((told,), agent.writer._scope)
        assert len(agent.writer.unstored) == 1
        broken[0] = False
        assert await agent.writer.write((told,))
        assert agent.writer.unstored == []
        assert [event["cursor"] for event in world.hear_nowait()[-2:]] == ["1", "2"]


async def test_an_end_that_is_owed_is_void_once_another_node_has_gone_on_with_the_turn() -> None:
    moved = [False]

    class SharedStore(FlakyStore):
        async def commit(self, writes: Sequence[SessionWrite], **rest: Any) -> Committed:
            if moved[0]:
                raise SessionsMoved({write.session_id: None for write in writes})
            return await super().commit(writes, **rest)

    async with open_world(ScriptedDriver(), watch=lambda store: SharedStore(store, lambda number: False)) as world:
        agent = world.start()
        told = Interrupted(agent_id=agent.agent_id, container_id=agent.container_id, turn_id=None)
        at = structs.replace(agent.writer._scope, turn_id=TurnId("t1"))
        agent.writer.unstored.append(((told,), at))
        moved[0] = True
        (await agent.writer.log()).open_turns[TurnId("t1")] = None
        await agent.writer.store_unstored()
        assert agent.writer.unstored == []
        # Nor does it keep the session here.
        assert (await agent.writer.log()).open_turns == {}
        moved[0] = False
        # Nor does the refusal meet what is said of the turn when it comes back to this node.
        await agent.writer.emit((told,), at)
        assert [event["cursor"] for event in world.hear_nowait() if "cursor" in event] == ["1"]


@pytest.mark.parametrize("is_owed", [True, False])
async def test_an_end_that_is_void_takes_no_other_end_with_it(is_owed: bool) -> None:
    here, elsewhere, void = TurnId("here"), TurnId("elsewhere"), set[TurnId]()

    class SharedStore(FlakyStore):
        async def commit(self, writes: Sequence[SessionWrite], **rest: Any) -> Committed:
            if any(turn.turn_id in void for write in writes for turn in write.turns if turn.outcome):
                raise SessionsMoved({write.session_id: None for write in writes})
            return await super().commit(writes, **rest)

    async with open_world(ScriptedDriver(), watch=lambda store: SharedStore(store, lambda number: False)) as world:
        writer = world.start().writer

        def end(turn_id: TurnId) -> tuple[Sequence[TurnResponse], EventScope]:
            at = structs.replace(writer._scope, turn_id=turn_id)
            response = TurnResponse(
                turn_id=turn_id,
                message_id=MessageId("m"),
                outcome="interrupted",
                stop_reason="interrupted",
                duration=1,
                usage=Usage(input_tokens=0, output_tokens=0),
                timestamp=2,
            )
            return [response], at

        for turn_id in (here, elsewhere):
            await writer.emit([TurnRequest(turn_id=turn_id, message_id=MessageId("m"), timestamp=1)], end(turn_id)[1])
        await writer.emit(*end(elsewhere))
        void.add(elsewhere)
        writer.unstored.append(end(elsewhere))
        if is_owed:
            writer.unstored.append(end(here))
            await writer.store_unstored()
        else:
            await writer.end(*end(here))
        assert writer.unstored == []
        assert {turn.turn_id: turn.outcome for turn in await world.turns()} == {here: "interrupted", elsewhere: "interrupted"}


async def test_a_message_that_another_node_keeps_from_being_accepted_does_not_hold_the_session_here() -> None:
    moved = [True]

    class SharedStore(FlakyStore):
        async def commit(self, writes: Sequence[SessionWrite], **rest: Any) -> Committed:
            if moved[0]:
                raise SessionsMoved({write.session_id: None for write in writes})
            return await super().commit(writes, **rest)

    async with open_world(ScriptedDriver(), watch=lambda store: SharedStore(store, lambda number: False)) as world:
        agent = world.start()

        async def begin(turn_id: TurnId) -> Accepted:
            accepted = agent._accept(turn.begin(turn_id, MessageId("m"), 1), None, None)
            request = TurnRequest(turn_id=turn_id, message_id=MessageId("m"), timestamp=1)
            accepted.begin(batch := agent.ports.journal.post(await agent.writer.log(), [request], accepted.scope))
            agent._running = accepted
            await wait_for(batch)
            return accepted

        refused = await begin(TurnId("refused"))
        # It is about to end, and the same message is sent again meanwhile.
        log = await agent.writer.log()
        assert log.open_turns == {}
        with pytest.raises(SessionMoved):
            await refused.confirm(agent.ports, log)
        moved[0] = False
        stored = await begin(TurnId("stored"))
        await stored.confirm(agent.ports, log)
        log.open_turns.clear()
        log.stale = True
        assert [*(await agent.writer.log()).open_turns] == ["stored"]
        agent._running = None


@pytest.mark.parametrize("paid_by", ["the next agent", "the runtime", "the shutdown"])
async def test_a_turn_that_was_stopped_while_the_disk_was_full_is_not_taken_up_again(paid_by: str, tmp_path: Path) -> None:
    broken = [False]
    driver = ScriptedDriver(lambda prompt: [*reply("a", "b")[:4], Pause(anyio.Event())])
    path, limits = tmp_path / "data", Limits(idle_seconds=0.5 if paid_by == "the runtime" else 1_000)
    async with open_world(driver, path=path, limits=limits, fails=lambda number: broken[0], suspends=True) as world:
        turn_id = await world.say(agent := world.start(), "go")
        await world.hear("text_delta", times=2)
        broken[0] = True
        await world.runtime.stop_agent(agent)
        assert [turn.outcome for turn in await world.turns()] == [None]
        broken[0] = False
        agent.ports.journal.failing = False
        if paid_by == "the next agent":
            await world.start().writer.write((Interrupted(agent_id=agent.agent_id, container_id=agent.container_id),))
        with anyio.fail_after(60):
            while paid_by != "the shutdown" and (await world.turns())[0].outcome is None:
                await anyio.lowlevel.checkpoint()
    async with open_world(ScriptedDriver(), path=path) as world:
        assert [(turn.turn_id, turn.outcome) for turn in await world.turns()] == [(turn_id, "interrupted")]
        assert "turn_resumed" not in types(world.hear_nowait())
