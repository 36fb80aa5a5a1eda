"""Schedules, over the management API."""

import pytest
from tests.server.http.fixtures import open_world

ALL = "/v1/schedules"
NEW = {
    "agent": "default",
    "cron": "0 9 * * MON-FRI",
    "message": "Report\nplease",
    "container": "shared",
    "zone": "Asia/Shanghai",
}


async def test_a_schedule_is_created_listed_changed_run_and_deleted() -> None:
    async with open_world() as world:
        user = world.acme.user
        made = (await world.ask("POST", ALL, NEW, key=user)).body
        assert (made["name"], made["enabled"], made["missed"], len(made["upcoming"])) == ("Report", True, "once", 3)
        one = f"{ALL}/{made['scheduleId']}"
        assert (await world.ask("GET", ALL, key=user)).items == [made]
        assert (await world.ask("GET", f"{ALL}?container=shared&limit=1", key=user)).items == [made]
        changed = (await world.ask("PUT", one, {"cron": "@daily", "zone": "UTC", "budget": {"cost": 5}}, key=user)).body
        assert (changed["cron"], changed["budget"], changed["message"]) == ("@daily", {"cost": 5}, made["message"])
        assert changed["nextAt"] != made["nextAt"]
        ran = await world.ask("POST", f"{one}/run", key=user)
        assert ran.status == 202
        (run,) = (await world.ask("GET", f"{one}/runs", key=user)).items
        assert (run["turnId"], run["state"]) == (ran.body["turnId"], "started")
        assert (await world.ask("GET", one, key=user)).body["nextAt"] == changed["nextAt"]
        off = (await world.ask("PUT", one, {"enabled": False}, key=user)).body
        assert (off["enabled"], "nextAt" in off, "upcoming" in off) == (False, False, False)
        assert (await world.ask("DELETE", one, key=user)).status in (200, 204)
        assert (await world.ask("GET", one, key=user)).status == 404
        actions = [action for action, target, _ in await world.audit(world.acme.tenant_id) if target == made["scheduleId"]]
        assert actions[::-1] == ["schedule.create", "schedule.update", "schedule.run", "schedule.update", "schedule.delete"]


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        ({"cron": "* * * * * *"}, 400),
        ({"cron": "every day"}, 400),
        ({"zone": "Europe/Atlantis"}, 400),
        ({"message": ""}, 400),
        ({"message": "x" * 40_000}, 400),
        ({"agent": "nobody"}, 404),
        ({"container": "private"}, 403),
        ({"sessionId": "sess_none"}, 404),
        ({"sessionMode": "new", "sessionId": "sess_none"}, 400),
        ({"jitterSeconds": 100_000}, 400),
        ({"catchUp": 0}, 400),
        ({"budget": {"steps": 0}}, 400),
        ({"budget": {"dollars": 1}}, 400),
        ({"runsPerDay": 0}, 400),
        ({"missed": "never"}, 400),
        ({"name": "a\nb"}, 400),
    ],
)
async def test_what_cannot_be_scheduled_is_refused(fields: dict[str, object], status: int) -> None:
    async with open_world() as world:
        refused = await world.ask("POST", ALL, {**NEW, **fields}, key=world.acme.user)
        assert refused.status == status, refused.raw
        assert (await world.ask("GET", ALL, key=world.acme.user)).items == []


async def test_a_schedule_goes_on_in_a_session_of_its_agent_and_in_no_other() -> None:
    async with open_world() as world:
        user = world.acme.user
        foreign = await world.say(world.acme, "earlier", container="shared")
        assert (await world.ask("POST", ALL, {**NEW, "sessionId": foreign}, key=user)).status == 404
        image_id = (await world.ask("GET", f"/v1/sessions/{foreign}", key=user)).body["imageId"]
        made = await world.ask("POST", ALL, {**NEW, "agent": image_id, "sessionId": foreign}, key=user)
        assert made.status == 201, made.raw
        started = (await world.ask("POST", f"{ALL}/{made.body['scheduleId']}/run", key=user)).body
        assert started["sessionId"] == foreign
