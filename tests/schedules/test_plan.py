"""What becomes of a schedule that is due."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from tests.schedules.fixtures import DAY, HOUR, MINUTE, START

from agentvm.model.ids import ContainerId, ImageId
from agentvm.model.schedule import MissedPolicy, Schedule, ScheduleId
from agentvm.schedules.plan import COUNTED_MAX, LATE_MS, RunPlan, plan, wake_time


def schedule(cron: str = "0 * * * *", **fields: Any) -> Schedule:
    about = {"next_at": START, **fields}
    return Schedule(
        schedule_id=ScheduleId("sched_1"),
        name="s",
        container_id=ContainerId("c"),
        image_id=ImageId("i"),
        message="m",
        cron=cron,
        zone="UTC",
        created_by="u",
        created_at=0,
        updated_at=0,
        **about,
    )


def test_a_run_on_time_begins_and_the_next_is_the_one_after() -> None:
    assert plan(schedule(), START + 10) == RunPlan(missed_from=START, due_at=START, next_at=START + HOUR)
    assert plan(schedule(), START - 1) == RunPlan(next_at=START)


def test_after_an_outage_of_a_day_nothing_old_is_made_up_for_unless_it_is_wanted() -> None:
    now = START + DAY + 30 * MINUTE
    assert plan(schedule(missed="skip"), now) == RunPlan(missed=25, missed_from=START, next_at=START + 25 * HOUR)
    once = plan(schedule(missed="once"), now)
    assert (once.missed, once.due_at, once.is_catch_up, once.next_at) == (24, START + DAY, True, START + 25 * HOUR)
    daily = plan(schedule("0 0 * * *", missed="once"), START + 12 * HOUR)
    assert (daily.missed, daily.due_at) == (1, None)
    wide = plan(schedule("0 0 * * *", missed="once", catch_up_seconds=86_400), START + 12 * HOUR)
    assert (wide.missed, wide.due_at, wide.is_catch_up) == (0, START, True)


def test_all_makes_up_for_the_newest_in_order() -> None:
    now = START + DAY + 30 * MINUTE
    first = plan(schedule(missed="all", catch_up=3, catch_up_seconds=86_400), now)
    assert (first.missed, first.due_at, first.next_at) == (22, START + 22 * HOUR, START + 23 * HOUR)
    then = plan(schedule(missed="all", catch_up=3, catch_up_seconds=86_400, next_at=first.next_at), now)
    assert (then.missed, then.due_at, then.next_at) == (0, START + 23 * HOUR, START + 24 * HOUR)


def test_a_run_that_is_due_just_now_stands_for_those_before_it() -> None:
    planned = plan(schedule("* * * * *", missed="once"), START + 10 * MINUTE)
    assert (planned.due_at, planned.is_catch_up, planned.missed) == (START + 10 * MINUTE, False, 10)


def test_an_outage_of_years_is_not_counted_to_the_end() -> None:
    now = START + 3 * 365 * DAY
    planned = plan(schedule("* * * * *", missed="once"), now)
    assert COUNTED_MAX <= planned.missed <= COUNTED_MAX + 100
    assert planned.due_at == now
    assert planned.next_at == now + MINUTE


def test_jitter_puts_off_when_a_schedule_is_looked_at_and_is_not_lateness() -> None:
    put_off = schedule(jitter_seconds=600)
    at = wake_time(put_off, START)
    assert at is not None
    assert START <= at <= START + 600_000
    assert plan(put_off, START + 600_000).is_catch_up is False
    assert wake_time(put_off, None) is None


@given(
    behind=st.integers(0, 3 * DAY),
    missed=st.sampled_from(["skip", "once", "all"]),
    catch_up=st.integers(1, 100),
    cron=st.sampled_from(["0 * * * *", "*/7 * * * *", "0 0 * * *"]),
)
def test_every_plan_moves_on_and_passes_over_nothing_twice(behind: int, missed: MissedPolicy, catch_up: int, cron: str) -> None:
    now = START + behind
    state = schedule(cron, missed=missed, catch_up=catch_up, catch_up_seconds=86_400)
    begun: list[int] = []
    for _ in range(200):
        planned = plan(state, now)
        if planned.due_at is not None and not planned.missed:
            begun.append(planned.due_at)
            following = planned.next_at
        else:
            following = planned.due_at or planned.next_at
        if following == state.next_at:
            break
        assert following is not None
        assert state.next_at is not None
        assert following > state.next_at
        state = schedule(cron, missed=missed, catch_up=catch_up, catch_up_seconds=86_400, next_at=following)
    assert state.next_at is not None
    assert state.next_at > now
    assert begun == sorted(set(begun))
    assert len(begun) <= (catch_up if missed == "all" else 1)
    assert missed != "skip" or all(now - at <= LATE_MS for at in begun)
