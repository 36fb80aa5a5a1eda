"""Turns that schedules and triggers begin: in whose name, with which rights, and who is asked in them."""

import pytest
from tests.schedules.fixtures import HOUR, open_times
from tests.server.http.fixtures import open_world

from agentvm.drivers.scripted import ScriptedDriver, in_turn, reply, tool_calls
from agentvm.model.definition import Definition
from agentvm.model.schedule import ScheduleId

pytestmark = pytest.mark.anyio

ASKER = Definition(name="asker", tools=("ask_user", "current_time"))


@pytest.mark.parametrize(("on_ask", "state"), [("deny", "completed"), ("wait", None)])
async def test_nobody_is_asked_in_a_run_unless_the_schedule_may_wait(on_ask: str, state: str | None) -> None:
    driver = ScriptedDriver(in_turn(tool_calls(("c1", "ask_user", {"question": "Which?"})), reply("done")))
    async with open_times(driver, definitions=[ASKER]) as (times, clock):
        made = await times.create(agent="asker", onAsk=on_ask)
        await times.pass_time(clock, HOUR)
        if state is None:
            await times.desk.hear("turn_parked")
            assert len((await times.desk.ask("tool_waits", state="open"))["waits"]) == 1
        else:
            (turn,) = await times.turns(made)
            assert turn.outcome == state
            assert (await times.desk.ask("tool_waits", state="open"))["waits"] == []


async def test_a_budget_ends_a_run_that_needs_more() -> None:
    driver = ScriptedDriver(in_turn(tool_calls(("c1", "current_time", {})), reply("done")))
    async with open_times(driver, definitions=[ASKER]) as (times, clock):
        made = await times.create(agent="asker", budget={"steps": 1})
        await times.pass_time(clock, HOUR)
        (turn,) = await times.turns(made)
        assert turn.outcome == "failed"


async def test_runs_are_billed_to_their_maker_and_end_with_its_rights() -> None:
    async with open_world() as world:
        acme = world.acme
        body = {"agent": "default", "cron": "0 * * * *", "message": "go", "container": "shared", "overlap": "queue"}
        made = await world.ask("POST", "/v1/schedules", body, key=acme.user)
        assert made.status == 201, made.raw
        schedule_id = ScheduleId(made.body["scheduleId"])
        world.clock.now = made.body["nextAt"]
        assert await world.vm.schedules.run_due(world.vm.starter, world.vm.runtime.broadcast) == 1
        store = world.vm.store.tenant(acme.tenant_id)
        (run,) = await store.schedules(None).runs(schedule_id)
        assert run.turn_id is not None
        turn = await store.find_turn(run.turn_id)
        assert turn is not None
        assert turn.user_id == acme.user_id
        await world.vm.tenancy.people.unbind(acme.tenant_id, acme.user_id, turn.container_id)
        world.clock.now += HOUR
        await world.vm.schedules.run_due(world.vm.starter, world.vm.runtime.broadcast)
        last = (await store.schedules(None).runs(schedule_id))[0]
        assert (last.state, (last.reason or "").partition(":")[0]) == ("failed", "access_denied")


async def test_a_colleague_or_another_tenant_finds_no_schedule_of_a_container_it_may_not_use() -> None:
    async with open_world() as world:
        body = {"agent": "default", "cron": "0 * * * *", "message": "go", "container": "private"}
        made = await world.ask("POST", "/v1/schedules", body, key=world.acme.admin)
        assert made.status == 201, made.raw
        one = f"/v1/schedules/{made.body['scheduleId']}"
        for key in (world.acme.user, world.bolt.admin, world.bolt.user):
            for method, path in (("GET", one), ("DELETE", one), ("POST", f"{one}/run"), ("GET", f"{one}/runs")):
                assert (await world.ask(method, path, key=key)).status == 404
            assert (await world.ask("GET", "/v1/schedules", key=key)).items == []
        assert (await world.ask("POST", "/v1/schedules", body, key=world.acme.user)).status == 403
