"""Schedules, triggers and runs as rows, in both engines."""

import msgspec
import pytest
from tests.conformance.records import HOME, image, schedule, session, trigger, turn
from tests.conformance.store import ACME, RIVAL, settle

from agentvm.errors import Conflict
from agentvm.model.ids import ContainerId, SessionId
from agentvm.model.schedule import Schedule, SourceRun, TriggerId
from agentvm.model.turn import TurnBudget, TurnOrigin
from agentvm.storage.base import SessionWrite
from agentvm.storage.sql import schedules
from agentvm.storage.sql.schedules import RUNS_MAX
from agentvm.storage.sql.store import Store

OTHER = ContainerId("other")


def started(name: str, due_at: int = 100, **about: object) -> SourceRun:
    run = SourceRun(source_id="a", client_key=name, due_at=due_at, at=200, state="started", next_at=300, wake_at=310)
    return msgspec.structs.replace(run, **about)


@pytest.fixture
async def filled(store: Store) -> Store:
    home = await settle(store, image("img"), tenant=ACME)
    await home.add_session(session("s1", "img"))
    await store.tenant(ACME).schedules(None).add(schedule("a", message="m"))
    return store


async def test_a_schedule_is_read_as_it_was_written_by_its_own_tenant_and_container(filled: Store) -> None:
    own = filled.tenant(ACME).schedules((HOME,))
    full = schedule("b", message="m", budget=TurnBudget(steps=3, cost=7), runs_per_day=2, session_mode="new", user_id="u")
    await own.add(full)
    assert await own.get("b") == full
    assert [each.schedule_id for _, each in await own.list(after=0, limit=9)] == ["a", "b"]
    place, _ = (await own.list(after=0, limit=1))[0]
    assert [each.schedule_id for _, each in await own.list(after=place, limit=9)] == ["b"]
    for foreign in (
        filled.tenant(RIVAL).schedules(None),
        filled.tenant(ACME).schedules((OTHER,)),
        filled.tenant(ACME).schedules(()),
    ):
        assert await foreign.get("b") is None
        assert await foreign.list(after=0, limit=9) == ()
        assert await foreign.change("b", lambda one: one) is None
        assert not await foreign.remove("b")
    assert await own.get("b") == full


async def test_the_commit_that_accepts_a_turn_moves_its_schedule_on_and_holds_the_run(filled: Store) -> None:
    run = started("k", turn_id="turn_1", session_id="s1")
    origin = TurnOrigin(kind="schedule", id="a", budget=TurnBudget(tokens=5))
    accepted = msgspec.structs.replace(turn("turn_1"), origin=origin)
    write = SessionWrite(tenant_id=ACME, container_id=HOME, session_id=SessionId("s1"), now=200, turns=[accepted], runs=[run])
    await filled.commit([write])
    own = filled.tenant(ACME).schedules(None)
    moved = await own.get("a")
    assert moved is not None
    assert (moved.next_at, moved.wake_at, moved.last_at, moved.last_turn_id, moved.day_runs) == (300, 310, 200, "turn_1", 1)
    (past,) = await own.runs("a")
    assert (past.state, past.turn_id, past.session_id, past.outcome) == ("started", "turn_1", "s1", None)
    assert await own.find_run("a", "k") == msgspec.structs.replace(run, next_at=None, wake_at=None)
    stored = await filled.tenant(ACME).find_turn(accepted.turn_id)
    assert stored is not None
    assert stored.origin == origin


async def test_a_schedule_that_was_changed_meanwhile_keeps_the_time_that_it_was_given(filled: Store) -> None:
    own = filled.tenant(ACME).schedules(None)
    await own.change("a", lambda one: msgspec.structs.replace(one, next_at=777, wake_at=777))
    await filled.due_schedules.pass_over([(ACME, HOME, started("k", state="skipped"))])
    kept = await own.get("a")
    assert kept is not None
    assert (kept.next_at, kept.last_at) == (777, None)


async def test_due_schedules_of_all_tenants_come_in_the_order_of_their_times(filled: Store) -> None:
    await filled.tenant(RIVAL).schedules(None).add(schedule("b", message="m", wake_at=50))
    await filled.tenant(ACME).schedules(None).add(schedule("off", message="m", wake_at=None))
    due = filled.due_schedules
    assert [(each.tenant_id, each.schedule.schedule_id) for each in await due.list_due(100, 9)] == [(RIVAL, "b"), (ACME, "a")]
    assert [each.schedule.schedule_id for each in await due.list_due(99, 9)] == ["b"]
    assert await due.next_due() == 50
    (first, _) = await due.list_due(100, 9)
    await due.postpone([(first, 500)])
    assert await due.next_due() == 100
    await filled.tenant(ACME).schedules(None).disable("a", "agent_gone", 9)
    assert await due.next_due() == 500


async def test_only_the_newest_runs_are_kept_and_they_go_with_their_schedule(filled: Store) -> None:
    own = filled.tenant(ACME).schedules(None)
    for number in range(RUNS_MAX + 5):
        await filled.due_schedules.pass_over([(ACME, HOME, started(f"k{number}", due_at=number, state="missed", count=number))])
    runs = await own.runs("a")
    assert [run.count for run in runs] == list(range(RUNS_MAX + 4, 4, -1))
    assert await own.remove("a")
    assert await own.runs("a") == ()


async def test_runs_are_counted_by_day(filled: Store) -> None:
    own, day = filled.tenant(ACME).schedules(None), 86_400_000
    for number, at in enumerate((day, day + 5, 2 * day)):
        await filled.due_schedules.pass_over([(ACME, HOME, started(f"k{number}", at=at))])
    counted = await own.get("a")
    assert counted is not None
    assert (counted.day, counted.day_runs) == (2, 1)
    limited = msgspec.structs.replace(counted, runs_per_day=1)
    assert limited.is_used_up(2 * day + 9)
    assert not limited.is_used_up(3 * day)


async def test_a_container_has_a_bounded_number(filled: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schedules, "SOURCES_MAX", 2)
    own = filled.tenant(ACME).schedules(None)
    await own.add(schedule("b", message="m"))
    with pytest.raises(Conflict, match="at most 2 schedules"):
        await own.add(schedule("c", message="m"))
    await own.add(schedule("d", OTHER, message="m"))


async def test_a_trigger_is_found_by_its_id_in_any_tenant(filled: Store) -> None:
    made = trigger("t", message="m")
    await filled.tenant(RIVAL).triggers(None).add(made)
    assert await filled.due_schedules.find_trigger(TriggerId("t")) == (RIVAL, made)
    assert await filled.due_schedules.find_trigger(TriggerId("u")) is None
    await filled.tenant(RIVAL).triggers(None).disable("t", "agent_gone", 9)
    found = await filled.due_schedules.find_trigger(TriggerId("t"))
    assert found is not None
    assert (found[1].disabled_at, found[1].disabled_reason) == (9, "agent_gone")


def test_every_field_of_a_schedule_has_a_column() -> None:
    assert set(schedules._SCHEDULE.names) == set(Schedule.__struct_fields__)
