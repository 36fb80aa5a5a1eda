"""What the journal carries at a start goes into the logs, and nothing that it tells of is read for that."""

from collections.abc import Sequence
from pathlib import Path

import anyio
import pytest
from tests.runtime.fixtures import World, open_world

from agentvm.drivers.scripted import Pause, ScriptedDriver, reply
from agentvm.events.base import Event, EventData, EventScope
from agentvm.events.lifecycle import Interrupted
from agentvm.events.message import UserMessageEvent
from agentvm.events.stream import TextDelta
from agentvm.events.turn import TurnRequest, TurnResponse, TurnResumed, TurnSuspended
from agentvm.model import message as model
from agentvm.model.ids import DEFAULT_TENANT, AgentId, ContainerId, MessageId, SessionId, TurnId
from agentvm.model.usage import NO_USAGE
from agentvm.runtime.recovery import tails
from agentvm.runtime.recovery.tails import fold_tails, read_tails
from agentvm.runtime.session_log import SessionLog, pack

ONE, TWO = TurnId("turn_1"), TurnId("turn_2")
NOW = 5_000


def begin(turn_id: TurnId) -> EventData:
    return TurnRequest(turn_id=turn_id, message_id=MessageId("m"), timestamp=1)


def end(turn_id: TurnId) -> EventData:
    return TurnResponse(
        turn_id=turn_id,
        message_id=MessageId("m"),
        outcome="completed",
        stop_reason="end_turn",
        duration=1,
        usage=NO_USAGE,
        timestamp=2,
    )


def stop(turn_id: TurnId) -> EventData:
    return Interrupted(agent_id=AgentId("a"), container_id=ContainerId("c1"), turn_id=turn_id)


def suspend(turn_id: TurnId) -> EventData:
    return TurnSuspended(turn_id=turn_id, message_id=MessageId("m"), timestamp=3)


def resume(turn_id: TurnId) -> EventData:
    return TurnResumed(turn_id=turn_id, message_id=MessageId("m"), attempt=1, timestamp=4)


def fresh(world: World) -> SessionLog:
    return SessionLog(DEFAULT_TENANT, ContainerId("c1"), world.image.session_id, 0)


async def carry(world: World, log: SessionLog, *told: EventData) -> list[Event]:
    """One commit of a process that has died since."""
    scope = EventScope(container_id=ContainerId("c1"), session_id=log.session_id, turn_id=ONE)
    events = log.number(told, scope, 7)
    await world.store.commit([], entry=pack({log: events}))
    return events


async def replayed(world: World) -> list[Event]:
    events: list[Event] = []
    while True:
        after = events[-1].seq if events else 0
        missed = await world.runtime.replay.read(DEFAULT_TENANT, ContainerId("c1"), world.image.session_id, after)
        assert not missed.lost
        if not missed.events:
            return events
        events += missed.events


async def test_the_journal_is_folded_into_the_log_and_dropped() -> None:
    async with open_world(ScriptedDriver()) as world:
        log = fresh(world)
        told = [*await carry(world, log, begin(ONE), TextDelta(text="a")), *await carry(world, log, TextDelta(text="b"))]
        left = await fold_tails(world.store, {ONE}, NOW)
        assert (left.logs, left.stopped, left.suspended) == ([], set(), set())
        assert await world.store.read_journal() == ()
        assert await replayed(world) == told


async def test_a_message_that_is_told_of_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    async with open_world(ScriptedDriver()) as world:
        stored = world.store.tenant(DEFAULT_TENANT).container(ContainerId("c1")).log(world.image.session_id)
        huge = model.UserMessage(id=MessageId("m"), timestamp=1, turn_id=ONE, role="user", content="x" * 1_000_000)
        await stored.record(messages=[huge], now=1)
        log = fresh(world)
        told = await carry(world, log, UserMessageEvent(message=huge), begin(ONE))

        async def never(message_ids: Sequence[str]) -> tuple[model.Message, ...]:
            raise AssertionError("a message was read")

        monkeypatch.setattr(type(stored), "get_messages", lambda self, ids: never(ids))
        await fold_tails(world.store, {ONE}, NOW)
        monkeypatch.undo()
        assert await replayed(world) == told


async def test_what_was_folded_before_a_second_crash_is_not_folded_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    async with open_world(ScriptedDriver()) as world:
        log = fresh(world)
        told = [*await carry(world, log, begin(ONE)), *await carry(world, log, TextDelta(text="b"))]
        monkeypatch.setattr(tails, "PAGE_BYTES", 1)
        kept = await world.store.read_journal()
        await fold_tails(world.store, {ONE}, NOW)
        for _, body in kept:
            await world.store.commit([], entry=body)
        await fold_tails(world.store, {ONE}, NOW)
        assert await replayed(world) == told
        assert await world.store.read_journal() == ()


async def test_a_stop_is_known_to_the_next_process_too() -> None:
    async with open_world(ScriptedDriver()) as world:
        log = fresh(world)
        await carry(world, log, begin(ONE))
        await carry(world, log, stop(ONE))
        for _ in range(2):
            left = await fold_tails(world.store, {ONE}, NOW)
            assert left.stopped == {ONE}
            (kept,) = left.logs
            assert (kept.head, kept.tail, kept.entry) == (2, [], 1)
        # Its turn has ended: nobody needs it.
        assert (await fold_tails(world.store, set(), NOW)).logs == []
        assert await world.store.read_journal() == ()


async def test_a_turn_was_suspended_only_if_nothing_came_after_it() -> None:
    async with open_world(ScriptedDriver()) as world:
        log = fresh(world)
        await carry(world, log, begin(ONE), begin(TWO), suspend(ONE), suspend(TWO), resume(ONE))
        assert (await fold_tails(world.store, {ONE, TWO}, NOW)).suspended == {TWO}


async def test_what_cannot_be_read_and_who_is_gone_keep_nobody_else_from_coming_back() -> None:
    async with open_world(ScriptedDriver()) as world:
        log, gone = fresh(world), SessionLog(DEFAULT_TENANT, ContainerId("c1"), SessionId("sess_gone"), 0)
        await world.store.commit([], entry=b"torn")
        await carry(world, gone, begin(TWO))
        told = await carry(world, log, begin(ONE))
        await fold_tails(world.store, {ONE}, NOW)
        assert await replayed(world) == told


async def test_after_a_gap_what_follows_stands_by_itself() -> None:
    async with open_world(ScriptedDriver()) as world:
        log = fresh(world)
        await carry(world, log, begin(ONE))
        log.number([TextDelta(text="lost")], EventScope(), 7)
        (last,) = await carry(world, log, TextDelta(text="b"))
        await fold_tails(world.store, {ONE}, NOW)
        stored = world.store.tenant(DEFAULT_TENANT).container(ContainerId("c1")).log(world.image.session_id)
        assert await stored.range() == (last.seq, last.seq)


async def test_tails_in_memory_have_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tails, "TAILS_MAX_BYTES", 10_000)
    async with open_world(ScriptedDriver()) as world:
        stored = world.store.tenant(DEFAULT_TENANT).container(ContainerId("c1")).log(world.image.session_id)
        huge = model.UserMessage(id=MessageId("m"), timestamp=1, turn_id=ONE, role="user", content="x" * 20_000)
        await stored.record(messages=[huge], now=1)
        log = fresh(world)
        await carry(world, log, UserMessageEvent(message=huge), begin(ONE))
        (found,) = await read_tails(world.store)
        assert (found.head, found.tail) == (2, [])


async def test_a_disk_that_refuses_at_the_start_keeps_the_tails_in_memory(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    held = ScriptedDriver(lambda prompt: [*reply("some ")[:3], Pause(anyio.Event())])
    async with open_world(held, path=path, suspends=True) as world:
        await world.say(world.start(), "go")
        await world.hear("text_delta")
    async with open_world(ScriptedDriver(), path=path, fails=lambda number: number <= 2) as world:
        missed = await world.runtime.replay.read(DEFAULT_TENANT, world.image.container_id, world.image.session_id, 0)
        assert not missed.lost
        assert "turn_suspended" in [event.data.type for event in missed.events]
