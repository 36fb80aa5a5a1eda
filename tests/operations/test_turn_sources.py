from msgspec.structs import replace
from tests.conformance.records import schedule
from tests.server.http.fixtures import open_world

from agentvm.model.ids import ContainerId, SessionId
from agentvm.operations.schedule import ScheduleUpdate
from agentvm.operations.turn_sources import changed, name_of


async def test_what_is_not_there_is_named() -> None:
    async with open_world() as world:
        for path, said in (
            ("/v1/schedules/sched_x", "Schedule not found: sched_x"),
            ("/v1/schedules/sched_x/runs", "Schedule not found: sched_x"),
            ("/v1/triggers/trig_x", "Trigger not found: trig_x"),
            ("/v1/triggers/trig_x/runs", "Trigger not found: trig_x"),
        ):
            refused = await world.ask("GET", path, key=world.acme.user)
            assert (refused.status, refused.body["error"]["message"]) == (404, said)


def test_a_name_is_the_beginning_of_the_message_if_there_is_none() -> None:
    assert name_of("Mine", "Say hello", "s1") == "Mine"
    assert name_of(None, "Say hello\nto all", "s1") == "Say hello"
    assert name_of(None, "\n", "s1") == "s1"


def test_changes_are_those_that_are_given_and_new_sessions_go_on_in_none() -> None:
    before = replace(schedule("s", ContainerId("c"), message="m"), session_id=SessionId("s1"))
    schedule_id = before.schedule_id
    off = changed(before, ScheduleUpdate(schedule_id=schedule_id, session_mode="new", name="N", enabled=False), 9)
    assert (off.name, off.message, off.updated_at, off.disabled_at, off.session_id) == ("N", "m", 9, 9, None)
    assert changed(off, ScheduleUpdate(schedule_id=schedule_id), 10).disabled_at == 9
    assert changed(off, ScheduleUpdate(schedule_id=schedule_id, enabled=True), 10).disabled_at is None
