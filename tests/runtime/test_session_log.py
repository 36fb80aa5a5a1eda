from tests.runtime.fixtures import open_world

from agentvm.drivers.scripted import ScriptedDriver
from agentvm.events.base import Event, EventData, EventScope
from agentvm.events.lifecycle import Interrupted
from agentvm.events.message import SilentMessageEvent, UserMessageEvent
from agentvm.events.stream import TextDelta
from agentvm.events.turn import TurnParked, TurnRequest, TurnResponse, TurnResumed
from agentvm.model import message as model
from agentvm.model.ids import DEFAULT_TENANT, AgentId, ContainerId, ImageId, MessageId, SessionId, TurnId
from agentvm.model.usage import NO_USAGE
from agentvm.runtime.recovery.tails import read_tails
from agentvm.runtime.session_log import TAIL_MAX_BYTES, SessionLog, pack, write_of

ONE, TWO = TurnId("turn_1"), TurnId("turn_2")


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


def stop(turn_id: TurnId | None) -> EventData:
    return Interrupted(agent_id=AgentId("a"), container_id=ContainerId("c1"), turn_id=turn_id)


def fresh(head: int = 0) -> SessionLog:
    return SessionLog(DEFAULT_TENANT, ContainerId("c1"), SessionId("s"), head)


def test_events_are_numbered_without_a_gap_and_what_is_only_stored_is_not() -> None:
    log = fresh(41)
    record = model.AssistantMessage(id=MessageId("m"), timestamp=1, role="assistant", content=())
    told = log.number([begin(ONE), SilentMessageEvent(message=record), TextDelta(text="x")], EventScope(), 5)
    assert [event.seq for event in told] == [42, 0, 43]
    assert [event.seq for event in log.tail] == [42, 43]
    assert (log.head, log.committed) == (43, 41)


def test_turns_are_open_from_their_beginning_to_their_end() -> None:
    log = fresh()
    log.number([begin(ONE), begin(TWO)], EventScope(), 1)
    assert list(log.open_turns) == [ONE, TWO]
    log.number([end(ONE), end(TWO)], EventScope(), 1)
    assert not log.open_turns
    log.number([TurnResumed(turn_id=ONE, message_id=MessageId("m"), attempt=1, timestamp=1)], EventScope(), 1)
    assert list(log.open_turns) == [ONE]


def test_what_is_taken_back_leaves_no_trace() -> None:
    log = fresh()
    log.number([begin(ONE), TextDelta(text="kept")], EventScope(), 1)
    log.committed = 2
    log.number([end(ONE), begin(TWO), TextDelta(text="x")], EventScope(), 1)
    log.drop_uncommitted()
    assert (log.head, list(log.open_turns), [event.seq for event in log.tail]) == (2, [ONE], [1, 2])
    assert log.number([end(ONE)], EventScope(), 1)[0].seq == 3


def test_a_stop_that_was_told_is_remembered_for_the_turn_that_ran() -> None:
    before = fresh()
    events = before.number([begin(ONE), begin(TWO), end(ONE), stop(TWO)], EventScope(), 1)
    log = fresh()
    log.restore(events, 7)
    assert (log.entry, log.stopped, list(log.open_turns)) == (7, {TWO}, [TWO])


def test_a_stop_that_came_too_late_does_not_hit_the_next_turn() -> None:
    log = fresh()
    log.restore(fresh().number([begin(ONE), begin(TWO), end(ONE), stop(ONE), stop(None)], EventScope(), 1), 7)
    assert TWO not in log.stopped


def test_a_long_tail_with_a_stop_waits_for_the_end_of_the_turn() -> None:
    log = fresh()
    log.number([begin(ONE), TextDelta(text="x")], EventScope(), 1)
    assert (log.foldable(1), log.foldable(2)) == (True, False)
    log.committed = log.head
    log.number([stop(ONE)], EventScope(), 1)
    assert not log.foldable(1)
    log.drop_uncommitted()
    assert log.foldable(1)
    log.number([stop(ONE), end(ONE)], EventScope(), 1)
    assert log.foldable(1_000)


def said(size: int) -> EventData:
    return UserMessageEvent(message=model.UserMessage(id=MessageId("m"), timestamp=1, role="user", content="x" * size))


def test_a_heavy_tail_does_not_wait_for_the_end_of_the_turn() -> None:
    log = fresh()
    log.number([begin(ONE), said(TAIL_MAX_BYTES)], EventScope(), 1)
    assert not log.foldable(1_000)
    log.committed = log.head
    log.number([said(1)], EventScope(), 1)
    assert log.foldable(1_000)
    log.drop_uncommitted()
    assert not log.foldable(1_000)
    log.number([said(1), said(5)], EventScope(), 1)
    log.fold(3)
    assert ([event.seq for event in log.tail], log.weight) == ([4], 5)


async def test_a_journal_entry_comes_back_as_the_logs_it_carried() -> None:
    async with open_world(ScriptedDriver()) as world:
        here, gone = fresh(), SessionLog(DEFAULT_TENANT, ContainerId("c1"), SessionId("sess_gone"), 0)
        here.session_id = world.image.session_id
        scope = EventScope(container_id=ContainerId("c1"), session_id=here.session_id, turn_id=ONE)
        first = here.number([begin(ONE), TextDelta(text="a")], scope, 1)
        await world.store.commit([], entry=pack({here: first, gone: gone.number([begin(TWO)], scope, 1)}))
        second = here.number([TextDelta(text="b")], scope, 1)
        await world.store.commit([], entry=pack({here: second}))
        (log,) = await read_tails(world.store)
        assert (log.session_id, log.head, log.committed, log.entry) == (here.session_id, 3, 3, 1)
        assert log.tail == [*first, *second]


async def test_an_unreadable_journal_entry_does_not_keep_the_others_from_coming_back() -> None:
    async with open_world(ScriptedDriver()) as world:
        here = fresh()
        here.session_id = world.image.session_id
        scope = EventScope(container_id=ContainerId("c1"), session_id=here.session_id, turn_id=ONE)
        await world.store.commit([], entry=b"torn")
        whole = here.number([begin(ONE), TextDelta(text="a")], scope, 1)
        await world.store.commit([], entry=pack({here: whole}))
        (log,) = await read_tails(world.store)
        assert log.tail == whole


def test_what_follows_a_part_that_cannot_be_read_stands_by_itself() -> None:
    log = SessionLog(DEFAULT_TENANT, ContainerId("c1"), SessionId("s1"), 0)
    data = TextDelta(text="x")
    told = [Event(data=data, scope=EventScope(), timestamp=1, tenant_id=DEFAULT_TENANT, seq=seq) for seq in (1, 2, 4)]
    log.restore(told[:2], 1)
    log.restore(told[2:], 3)
    assert ([event.seq for event in log.tail], log.head, log.entry) == ([4], 4, 1)


def test_a_parked_turn_says_since_when_and_a_resumed_one_does_not() -> None:
    scope = EventScope(container_id=ContainerId("c1"), image_id=ImageId("i"), session_id=SessionId("s"), turn_id=ONE)
    parked = TurnParked(turn_id=ONE, message_id=MessageId("m"), timestamp=7, waits=(), active=40)
    resumed = TurnResumed(turn_id=ONE, message_id=MessageId("m"), timestamp=8, attempt=0)
    log = fresh()
    log.number([begin(ONE)], scope, 5)
    (row,) = write_of(log, log.number([parked], scope, 7), 9, None).turns
    assert (row.parked_at, row.active_ms, row.outcome) == (7, 40, None)
    assert (log.parked, list(log.open_turns)) == (ONE, [])
    (row,) = write_of(log, log.number([resumed], scope, 8), 9, None).turns
    assert row.parked_at is None
    assert (log.parked, list(log.open_turns)) == (None, [ONE])


def test_a_turn_that_parks_on_another_node_is_known_until_it_goes_on_there() -> None:
    parked = TurnParked(turn_id=ONE, message_id=MessageId("m"), timestamp=7, waits=(), active=40)
    resumed = TurnResumed(turn_id=ONE, message_id=MessageId("m"), timestamp=8, attempt=0)
    there, here = fresh(), fresh()
    here.mirror(there.number([begin(ONE), parked], EventScope(), 7))
    assert (here.parked, list(here.open_turns)) == (ONE, [])
    here.mirror(there.number([resumed], EventScope(), 8))
    assert (here.parked, list(here.open_turns)) == (None, [])


def test_parking_that_could_not_be_stored_is_taken_back() -> None:
    log = fresh()
    log.number([begin(ONE)], EventScope(), 5)
    log.committed = log.head
    log.number([TurnParked(turn_id=ONE, message_id=MessageId("m"), timestamp=7, waits=(), active=1)], EventScope(), 7)
    log.drop_uncommitted()
    assert (log.parked, list(log.open_turns)) == (None, [ONE])
