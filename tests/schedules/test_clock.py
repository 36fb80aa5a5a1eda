"""Runs of schedules: begun once, made up for, left out, and told."""

import pytest
from tests.schedules.fixtures import DAY, HOUR, MINUTE, START, open_times

from agentvm.drivers.scripted import ScriptedDriver, in_turn, reply
from agentvm.errors import StoreFailed
from agentvm.model.ids import DEFAULT_TENANT, ContainerId, TenantId
from agentvm.model.schedule import ScheduleId
from agentvm.schedules.clock import CATCH_UP_EVERY_MS, CATCH_UPS_MAX, CatchUpRate
from agentvm.schedules.starter import TurnStarter

pytestmark = pytest.mark.anyio


async def test_a_schedule_runs_when_it_is_due_and_once_however_often_it_is_looked_at() -> None:
    async with open_times() as (times, clock):
        made = await times.create("30 * * * *", name="Hourly")
        assert (made["nextAt"], made["upcoming"][1]) == (START + 30 * MINUTE, START + 90 * MINUTE)
        await times.pass_time(clock, 29 * MINUTE)
        assert await times.runs(made) == ()
        await times.pass_time(clock, MINUTE)
        assert await times.look() == 0
        (run,) = await times.runs(made)
        assert (run.state, run.due_at, run.count) == ("started", START + 30 * MINUTE, 1)
        (turn,) = await times.turns(made)
        assert turn.client_key == f"sched:{made['scheduleId']}:{START + 30 * MINUTE}"
        assert turn.origin is not None
        assert (turn.origin.kind, turn.origin.unattended) == ("schedule", True)
        shown = (await times.desk.ask("schedule_get", scheduleId=made["scheduleId"]))["schedule"]
        assert (shown["nextAt"], shown["lastAt"], shown["lastTurnId"]) == (START + 90 * MINUTE, clock(), turn.turn_id)


async def test_runs_share_a_session_or_have_one_each() -> None:
    async with open_times() as (times, clock):
        same, new = await times.create(sessionMode="same"), await times.create(sessionMode="new", name="Each its own")
        for _ in range(3):
            await times.pass_time(clock, HOUR)
            await times.turns(same)
            await times.turns(new)
        assert len({run.session_id for run in await times.runs(same)}) == 1
        assert len({run.session_id for run in await times.runs(new)}) == 3


async def test_a_run_that_was_accepted_before_the_row_could_move_is_not_begun_again() -> None:
    async with open_times() as (times, clock):
        made = await times.create()
        await times.pass_time(clock, HOUR)
        (turn,) = await times.turns(made)
        # As if the row had been put back by a restore of a backup.
        store = times.vm.store.tenant(DEFAULT_TENANT).schedules(None)
        back = "UPDATE schedules SET next_at = ?, wake_at = ?"
        await store._database.write(lambda connection: connection.execute(back, (START + HOUR, START + HOUR)))
        assert await times.look() == 1
        assert [run.turn_id for run in await times.runs(made)] == [turn.turn_id]
        assert await times.look() == 0


async def test_after_a_day_off_one_run_is_made_up_for_and_the_others_are_told() -> None:
    async with open_times() as (times, clock):
        hourly = await times.create()
        daily = await times.create("0 12 * * *", name="Noon")
        await times.pass_time(clock, DAY + 30 * MINUTE)
        assert sorted(times.missed) == [(1, "outage"), (23, "outage")]
        assert [(run.state, run.count) for run in await times.runs(hourly)] == [("missed", 23), ("started", 1)]
        assert [(run.state, run.count) for run in await times.runs(daily)] == [("missed", 1)]
        assert len(await times.turns(hourly)) == 1


async def test_all_runs_can_be_made_up_for_each_under_its_own_key() -> None:
    async with open_times() as (times, clock):
        made = await times.create(missed="all", catchUp=4, catchUpSeconds=86_400, overlap="queue")
        await times.pass_time(clock, 6 * HOUR + 30 * MINUTE)
        turns = await times.turns(made)
        assert [turn.client_key for turn in turns] == [
            f"sched:{made['scheduleId']}:{START + hour * HOUR}" for hour in (3, 4, 5, 6)
        ]


async def test_a_tenant_makes_up_for_five_runs_at_once_and_then_one_at_a_time() -> None:
    async with open_times() as (times, clock):
        for number in range(8):
            await times.create(name=f"s{number}", sessionMode="new")
        await times.pass_time(clock, HOUR + 30 * MINUTE)

        async def count() -> int:
            rows = await times.vm.store._database.read(lambda connection: connection.fetch("SELECT 1 FROM turns"))
            return len(rows)

        assert await count() == CATCH_UPS_MAX
        await times.pass_time(clock, CATCH_UP_EVERY_MS)
        assert await count() == CATCH_UPS_MAX + 1
        await times.pass_time(clock, 2 * CATCH_UP_EVERY_MS)
        assert await count() == 8


def test_the_rate_of_one_tenant_is_no_other_ones() -> None:
    rate, one, other = CatchUpRate(), TenantId("a"), TenantId("b")
    assert [rate.take(one, 1_000) for _ in range(CATCH_UPS_MAX)] == [1_000] * CATCH_UPS_MAX
    assert rate.take(one, 1_000) == 1_000 + CATCH_UP_EVERY_MS
    assert rate.take(other, 1_000) == 1_000
    rate.forget(10 * MINUTE)
    assert rate.take(one, 10 * MINUTE) == 10 * MINUTE


async def test_a_run_is_left_out_while_the_one_before_goes_on_unless_it_may_wait() -> None:
    driver = ScriptedDriver(in_turn(reply("first"), reply("second"), reply("third")))
    async with open_times(driver) as (times, clock):
        made = await times.create()
        await times.pass_time(clock, HOUR)
        (turn,) = await times.turns(made)
        unend = "UPDATE turns SET outcome = NULL WHERE turn_id = ?"
        await times.vm.store._database.write(lambda connection: connection.execute(unend, (turn.turn_id,)))
        await times.pass_time(clock, HOUR)
        assert [(run.state, run.reason) for run in await times.runs(made)] == [("started", None), ("skipped", "overlap")]
        assert times.missed == [(1, "overlap")]
        await times.desk.ask("schedule_update", scheduleId=made["scheduleId"], overlap="queue")
        await times.pass_time(clock, HOUR)
        assert [run.state for run in await times.runs(made)] == ["started", "skipped", "started"]


async def test_runs_of_a_day_are_bounded_and_each_has_a_budget_of_its_own() -> None:
    async with open_times() as (times, clock):
        made = await times.create(runsPerDay=2, budget={"steps": 1, "cost": 5})
        for _ in range(3):
            await times.pass_time(clock, HOUR)
            await times.turns(made)
        assert [run.reason for run in await times.runs(made)] == [None, None, "budget"]
        (turn, _) = await times.turns(made)
        assert turn.origin is not None
        assert turn.origin.budget is not None
        assert (turn.origin.budget.steps, turn.origin.budget.cost) == (1, 5)
        clock.now = START + DAY
        await times.pass_time(clock, HOUR)
        assert (await times.runs(made))[-1].state == "started"


async def test_a_schedule_whose_agent_is_gone_is_disabled_with_the_reason() -> None:
    async with open_times() as (times, clock):
        made = await times.create()
        await times.desk.ask("image_delete", imageId=made["imageId"])
        await times.pass_time(clock, HOUR)
        shown = (await times.desk.ask("schedule_get", scheduleId=made["scheduleId"]))["schedule"]
        assert (shown["enabled"], shown["disabledReason"]) == (False, "agent_gone")
        (run,) = await times.runs(made)
        assert run.state == "failed"
        assert times.missed == [(1, "image_not_found")]
        await times.pass_time(clock, HOUR)
        assert len(await times.runs(made)) == 1


async def test_while_the_store_fails_a_run_stays_due(monkeypatch: pytest.MonkeyPatch) -> None:
    async def fail(*_: object, **__: object) -> None:
        raise StoreFailed("full")

    async with open_times() as (times, clock):
        made = await times.create()
        clock.now += HOUR
        with monkeypatch.context() as broken:
            broken.setattr(TurnStarter, "start", fail)
            assert await times.look() == 0
        assert await times.look() == 1
        assert [run.state for run in await times.runs(made)] == ["started"]


async def test_a_schedule_that_is_disabled_or_deleted_does_not_run() -> None:
    async with open_times() as (times, clock):
        off, gone = await times.create(), await times.create()
        await times.desk.ask("schedule_update", scheduleId=off["scheduleId"], enabled=False)
        assert "error" not in await times.desk.ask("schedule_delete", scheduleId=gone["scheduleId"])
        assert await times.vm.store.due_schedules.next_due() is None
        await times.pass_time(clock, 2 * HOUR)
        assert await times.runs(off) == ()
        again = (await times.desk.ask("schedule_update", scheduleId=off["scheduleId"], enabled=True))["schedule"]
        assert again["nextAt"] == START + 3 * HOUR


async def test_a_deleted_container_leaves_no_schedule_and_no_run() -> None:
    async with open_times() as (times, clock):
        made = await times.create(containerId="doomed")
        await times.pass_time(clock, HOUR)
        await times.turns(made)
        store = times.vm.store.tenant(DEFAULT_TENANT)
        assert await store.schedules((ContainerId("doomed"),)).get(ScheduleId(made["scheduleId"])) is not None
        assert "error" not in await times.desk.ask("container_delete", containerId="doomed")
        clock.now += 2 * HOUR
        assert await times.look() == 0
