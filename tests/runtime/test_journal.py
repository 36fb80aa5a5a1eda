"""Numbers, commits, then tells; and what happens when the disk refuses. The shape of the log in memory: test_session_log.py."""

import gc
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import anyio
import pytest
from tests.runtime.fixtures import FlakyStore, Ticking

from agentvm.blueprint.image import build, new_session
from agentvm.errors import SessionNotFound, ShuttingDown, StoreFailed
from agentvm.events.base import Event, EventData, EventScope
from agentvm.events.message import SilentMessageEvent, UserMessageEvent
from agentvm.events.stream import TextDelta
from agentvm.events.turn import TurnRequest, TurnResponse, TurnResumed
from agentvm.model import message as model
from agentvm.model.definition import Definition
from agentvm.model.ids import DEFAULT_TENANT, ContainerId, MessageId, SessionId, TurnId, id_factory
from agentvm.model.image import Image, ImageConfig
from agentvm.model.usage import Usage
from agentvm.runtime import journal as journal_module
from agentvm.runtime.chunk import decode_events, named_messages, open_chunk
from agentvm.runtime.journal import Journal, open_journal
from agentvm.runtime.recovery.tails import read_tails
from agentvm.runtime.session_log import SessionLog
from agentvm.storage.engine import open_store
from agentvm.storage.sql.store import Store

C1 = ContainerId("c1")
ONE, TWO = TurnId("turn_1"), TurnId("turn_2")
USAGE = Usage(input_tokens=1, output_tokens=2)
HELLO = model.UserMessage(id=MessageId("m1"), timestamp=10, turn_id=ONE, role="user", content="hi")
EMPTY = model.AssistantMessage(id=MessageId("m2"), timestamp=11, role="assistant", content=())


def begin(turn_id: TurnId = ONE) -> EventData:
    return TurnRequest(turn_id=turn_id, message_id=MessageId("m1"), timestamp=10)


def end(turn_id: TurnId = ONE) -> EventData:
    return TurnResponse(
        turn_id=turn_id,
        message_id=MessageId("m1"),
        outcome="completed",
        stop_reason="end_turn",
        duration=15,
        usage=USAGE,
        timestamp=25,
    )


@dataclass(slots=True, kw_only=True)
class Desk:
    """A journal over a store that may fail, two sessions, and what was told."""

    journal: Journal
    store: Store
    flaky: FlakyStore
    image: Image
    other: SessionId
    told: list[Event] = field(default_factory=list)

    async def open(self, session_id: SessionId | None = None) -> SessionLog:
        return await self.journal.open(DEFAULT_TENANT, C1, session_id or self.image.session_id)

    def scope(self, turn_id: TurnId | None = ONE, session_id: SessionId | None = None) -> EventScope:
        session_id = session_id or self.image.session_id
        return EventScope(container_id=C1, image_id=self.image.image_id, session_id=session_id, turn_id=turn_id)

    async def emit(self, log: SessionLog, *told: EventData, turn_id: TurnId | None = ONE) -> None:
        await self.journal.emit(log, told, self.scope(turn_id, log.session_id))

    def post(self, log: SessionLog, *told: EventData, turn_id: TurnId | None = ONE) -> None:
        self.journal.post(log, told, self.scope(turn_id, log.session_id))

    def cursors(self, session_id: SessionId | None = None) -> list[int]:
        wanted = session_id or self.image.session_id
        return [event.seq for event in self.told if event.scope.session_id == wanted and event.seq]

    async def logged(self, session_id: SessionId | None = None) -> list[Event]:
        log = self.store.tenant(DEFAULT_TENANT).container(C1).log(session_id or self.image.session_id)
        events: list[Event] = []
        for chunk in await log.read(0, 100):
            body = open_chunk(chunk.body)
            found: dict[str, model.Message] = {one.id: one for one in await log.get_messages(named_messages(body))}
            events += decode_events(body, DEFAULT_TENANT, found)
        return events


@asynccontextmanager
async def open_desk(fails: Callable[[int], bool] = lambda number: False) -> AsyncIterator[Desk]:
    clock, numbers = Ticking(), iter(range(1, 1_000_000))
    new_id = id_factory(lambda: 0, lambda bits: next(numbers))
    told: list[Event] = []

    def tell(events: Sequence[Event]) -> None:
        told.extend(events)

    with anyio.fail_after(60):
        async with open_store(None) as store:
            container = store.tenant(DEFAULT_TENANT).container(C1)
            await container.create(1)
            definition, config = Definition(name="default"), ImageConfig(name="Chat")
            image, session = build(definition, config, C1, name="", clock=clock, new_id=new_id)
            await container.add_image(image, session)
            other = new_session(image, SessionId("sess_other"), None, 1)
            await container.add_session(other)
            flaky = FlakyStore(store, fails)
            async with open_journal(flaky, tell, clock) as journal:  # type: ignore[arg-type]  # a double
                yield Desk(journal=journal, store=store, flaky=flaky, image=image, other=other.session_id, told=told)


async def test_messages_and_turns_are_rows_when_their_events_are_told() -> None:
    async with open_desk() as desk:
        container = desk.store.tenant(DEFAULT_TENANT).container(C1)
        log = await desk.open()
        await desk.emit(log, UserMessageEvent(message=HELLO), begin())
        (turn,) = await container.log(log.session_id).list_turns()
        assert (turn.turn_id, turn.outcome, turn.attempts, turn.accepted_at) == (ONE, None, 0, 10)
        again = TurnResumed(turn_id=ONE, message_id=MessageId("m1"), attempt=2, timestamp=20)
        await desk.emit(log, again, TextDelta(text="x"), SilentMessageEvent(message=EMPTY), end())
        (turn,) = await container.log(log.session_id).list_turns()
        assert (turn.outcome, turn.attempts, turn.usage, turn.ended_at) == ("completed", 2, USAGE, 25)
        assert await container.list_messages(log.session_id) == (HELLO, EMPTY)
        assert desk.cursors() == [1, 2, 3, 4, 5]


async def test_a_turn_is_in_the_journal_while_it_runs_and_in_the_log_when_it_has_ended() -> None:
    async with open_desk() as desk:
        log = await desk.open()
        await desk.emit(log, UserMessageEvent(message=HELLO), begin())
        await desk.emit(log, TextDelta(text="a"))
        assert (await desk.logged(), len(await desk.store.read_journal())) == ([], 2)
        (left,) = await read_tails(desk.store)
        assert [event.seq for event in left.tail] == [1, 2, 3]
        await desk.emit(log, TextDelta(text="b"), end())
        assert [(event.seq, event.data) for event in await desk.logged()] == [(event.seq, event.data) for event in desk.told]
        assert await desk.store.read_journal() == ()
        assert (log.tail, log.entry) == ([], 0)
        assert await read_tails(desk.store) == []


async def test_an_entry_is_kept_while_any_session_needs_it_and_not_longer() -> None:
    async with open_desk() as desk:
        one, two = await desk.open(), await desk.open(desk.other)
        await desk.emit(one, begin())
        await desk.emit(two, begin(TWO), turn_id=TWO)
        await desk.emit(one, TextDelta(text="x"))
        await desk.emit(two, end(TWO), turn_id=TWO)
        # The first entry is the oldest and still needed, so the second stays with it.
        assert [log.session_id for log in await read_tails(desk.store)] == [one.session_id]
        assert (await desk.store.read_journal())[0][0] == one.entry
        await desk.emit(one, end())
        assert await desk.store.read_journal() == ()
        await desk.emit(two, begin(TWO), turn_id=TWO)
        assert len(await desk.store.read_journal()) == 1


async def test_what_a_deleted_session_has_in_the_journal_is_dropped_though_no_turn_ends() -> None:
    async with open_desk() as desk:
        one = await desk.open()
        await desk.emit(one, begin(), TextDelta(text="what was said"))
        desk.journal.forget(DEFAULT_TENANT, one.session_id)
        with anyio.fail_after(60):
            while await desk.store.read_journal():
                await anyio.lowlevel.checkpoint()


async def test_what_another_session_has_in_the_journal_stays_when_one_is_deleted() -> None:
    async with open_desk() as desk:
        one, two = await desk.open(), await desk.open(desk.other)
        await desk.emit(one, begin(), TextDelta(text="what was said"))
        await desk.emit(two, begin(TWO), turn_id=TWO)
        desk.journal.forget(DEFAULT_TENANT, one.session_id)
        with anyio.fail_after(60):
            while (await desk.store.read_journal())[0][0] != two.entry:
                await anyio.lowlevel.checkpoint()
        assert [log.session_id for log in await read_tails(desk.store)] == [two.session_id]


async def test_what_happens_outside_a_turn_goes_straight_into_the_log() -> None:
    async with open_desk() as desk:
        log = await desk.open()
        await desk.emit(log, TextDelta(text="x"), turn_id=None)
        assert [event.seq for event in await desk.logged()] == [1]
        assert await desk.store.read_journal() == ()


async def test_a_very_long_turn_is_folded_before_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal_module, "TAIL_EVENTS_MAX", 10)
    async with open_desk() as desk:
        log = await desk.open()
        await desk.emit(log, begin())
        for number in range(25):
            await desk.emit(log, TextDelta(text=str(number)))
            assert len(log.tail) <= 11
        await desk.emit(log, end())
        assert [event.seq for event in await desk.logged()] == desk.cursors() == list(range(1, 28))
        assert await desk.store.read_journal() == ()


async def test_what_many_sessions_post_together_is_one_commit() -> None:
    async with open_desk() as desk:
        one, two = await desk.open(), await desk.open(desk.other)
        for number in range(100):
            desk.post(one, TextDelta(text=str(number)))
            desk.post(two, TextDelta(text=str(number)))
        await desk.journal.settle(one, desk.scope())
        assert desk.flaky.commits == 1
        assert desk.cursors() == desk.cursors(desk.other) == list(range(1, 101))


async def test_a_failed_commit_stores_and_tells_nothing_and_the_numbers_are_used_again() -> None:
    async with open_desk(fails=lambda number: number in (2, 3)) as desk:
        log = await desk.open()
        await desk.emit(log, begin())
        for _ in range(2):
            with pytest.raises(StoreFailed):
                await desk.emit(log, TextDelta(text="lost"), end())
            assert (log.head, list(log.open_turns)) == (1, [ONE])
        await desk.emit(log, TextDelta(text="kept"), end())
        assert desk.cursors() == [1, 2, 3]
        assert [event.seq for event in await desk.logged()] == [1, 2, 3]
        assert not any(isinstance(event.data, TextDelta) and event.data.text == "lost" for event in desk.told)


async def test_who_did_not_wait_hears_of_the_failure_at_the_next_post_and_nobody_else_does() -> None:
    async with open_desk(fails=lambda number: number == 1) as desk:
        log, other = await desk.open(), await desk.open(desk.other)
        desk.post(log, TextDelta(text="lost"))
        with pytest.raises(StoreFailed):
            await desk.emit(log, begin(TWO), turn_id=TWO)
        await desk.emit(log, begin(TWO), turn_id=TWO)
        await desk.emit(other, TextDelta(text="x"), turn_id=None)
        with pytest.raises(StoreFailed):
            desk.post(log, TextDelta(text="more"))
        await desk.emit(log, TextDelta(text="more"))
        assert not log.failed


async def test_what_was_posted_while_a_commit_failed_is_taken_back_too() -> None:
    async with open_desk() as desk:
        log, other = await desk.open(), await desk.open(desk.other)
        commit, reached, go = desk.flaky.commit, anyio.Event(), anyio.Event()

        async def slow(*arguments: object, **named: object) -> object:
            reached.set()
            await go.wait()
            raise StoreFailed("the disk is full")

        desk.flaky.commit = slow  # type: ignore[method-assign, assignment]
        desk.post(log, TextDelta(text="first"))
        await reached.wait()
        desk.post(log, TextDelta(text="builds on it"))
        desk.post(other, TextDelta(text="does not"))
        desk.flaky.commit = commit  # type: ignore[method-assign]
        go.set()
        with pytest.raises(StoreFailed):
            await desk.journal.settle(log, desk.scope())
        await desk.journal.settle(other, desk.scope(ONE, desk.other))
        assert (desk.cursors(), desk.cursors(desk.other), log.head) == ([], [1], 0)


async def test_a_session_that_is_gone_takes_nothing_and_harms_no_other() -> None:
    async with open_desk() as desk:
        log = await desk.open()
        await desk.emit(log, begin())
        desk.flaky.fails = lambda number: False
        gone = SessionLog(DEFAULT_TENANT, C1, SessionId("sess_gone"), 0)
        batch = desk.journal.post(gone, [begin(TWO)], desk.scope(TWO, gone.session_id))
        desk.post(log, end())
        await batch.done.wait()
        with pytest.raises(SessionNotFound):
            await desk.journal.settle(gone, desk.scope(TWO, gone.session_id))
        assert desk.cursors(gone.session_id) == []
        assert desk.cursors() == [1, 2]
        assert await read_tails(desk.store) == []
        await desk.emit(log, begin())
        await desk.emit(log, end())
        assert await desk.store.read_journal() == ()
        with pytest.raises(SessionNotFound):
            await desk.open(SessionId("sess_gone"))


async def test_a_session_has_one_log_however_many_ask_and_it_counts_on_afterwards() -> None:
    async with open_desk() as desk:
        logs: list[SessionLog] = []

        async def ask() -> None:
            logs.append(await desk.open())

        async with anyio.create_task_group() as tasks:
            for _ in range(5):
                tasks.start_soon(ask)
        assert len(set(logs)) == 1
        assert desk.journal.find(DEFAULT_TENANT, logs[0].session_id) is logs[0]
        await desk.emit(logs[0], TextDelta(text="x"), turn_id=None)
        logs.clear()
        await desk.emit(await desk.open(desk.other), TextDelta(text="x"), turn_id=None)
        gc.collect()
        assert desk.journal.find(DEFAULT_TENANT, desk.image.session_id) is None
        assert (await desk.open()).head == 1


async def test_a_log_from_before_is_the_sessions_log() -> None:
    async with open_desk() as desk:
        log = await desk.open()
        await desk.emit(log, begin())
        (left,) = await read_tails(desk.store)
        after = Journal(desk.store, desk.told.extend, Ticking())
        after.adopt(left)
        assert await after.open(DEFAULT_TENANT, C1, log.session_id) is left
        assert left.head == 1


async def test_a_cancelled_poster_sees_its_commit_through() -> None:
    async with open_desk() as desk:
        log = await desk.open()
        with anyio.CancelScope() as scope:
            scope.cancel()
            await desk.emit(log, begin())
        assert desk.cursors() == [1]


async def test_posters_that_clean_up_after_everything_was_cancelled_are_still_served() -> None:
    desks: list[Desk] = []
    with anyio.CancelScope() as everything:
        async with open_desk() as desk:
            desks.append(desk)
            log = await desk.open()
            everything.cancel()
            with anyio.CancelScope(shield=True):
                await desk.emit(log, begin())
    assert desks[0].cursors() == [1]


async def test_leaving_commits_what_was_posted_and_refuses_what_comes_later() -> None:
    async with open_desk() as desk:
        log = await desk.open()
        desk.post(log, begin())
        desk.post(log, TextDelta(text="x"))
    assert desk.cursors() == [1, 2]
    with pytest.raises(ShuttingDown):
        desk.post(log, end())


async def test_a_bug_in_a_listener_or_in_the_store_does_not_stop_the_journal() -> None:
    async with open_desk() as desk:
        log = await desk.open()
        commit = desk.flaky.commit

        async def broken(*arguments: object, **named: object) -> object:
            raise ZeroDivisionError

        desk.flaky.commit = broken  # type: ignore[method-assign, assignment]
        with pytest.raises(StoreFailed):
            await desk.emit(log, begin())
        desk.flaky.commit = commit  # type: ignore[method-assign]
        await desk.emit(log, begin())

        def deaf(events: Sequence[Event]) -> None:
            raise ZeroDivisionError

        desk.journal._broadcast = deaf
        await desk.emit(log, end())
        assert [event.seq for event in await desk.logged()] == [1, 2]


async def test_too_much_that_waits_is_said_to_be_so() -> None:
    async with open_desk() as desk:
        log = await desk.open()
        crowded = [desk.journal.crowded]
        for _ in range(110):
            desk.post(log, *[TextDelta(text="x")] * 100)
        crowded.append(desk.journal.crowded)
        await desk.journal.settle(log, desk.scope())
        assert [*crowded, desk.journal.crowded] == [False, True, False]


async def test_a_turn_without_a_session_is_a_bug_of_its_poster_only() -> None:
    async with open_desk() as desk:
        log = await desk.open()
        with pytest.raises(StoreFailed):
            await desk.journal.emit(log, [begin()], EventScope())
        await desk.emit(log, begin())
        assert desk.cursors() == [1]
