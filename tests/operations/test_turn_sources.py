import pytest
from tests.conformance.records import schedule
from tests.server.http.fixtures import open_world

from agentvm.errors import NotFound
from agentvm.model.ids import ContainerId
from agentvm.operations.schedule import ScheduleUpdate
from agentvm.operations.turn_sources import changed, found, given_changes, name_of


async def test_what_is_not_there_is_named() -> None:
    async with open_world() as world:
        for path, said in (
            ("/v1/schedules/sched_x", "There is no schedule sched_x"),
            ("/v1/schedules/sched_x/runs", "There is no schedule sched_x"),
            ("/v1/triggers/trig_x", "There is no trigger trig_x"),
            ("/v1/triggers/trig_x/runs", "There is no trigger trig_x"),
        ):
            refused = await world.ask("GET", path, key=world.acme.user)
            assert (refused.status, refused.body["error"]["message"]) == (404, said)
    with pytest.raises(NotFound, match="There is no trigger t1"):
        found(None, "trigger", "t1")


def test_a_name_is_the_beginning_of_the_message_if_there_is_none() -> None:
    assert name_of("Mine", "Say hello", "s1") == "Mine"
    assert name_of(None, "Say hello\nto all", "s1") == "Say hello"
    assert name_of(None, "\n", "s1") == "s1"


def test_changes_are_those_that_are_given_and_new_sessions_go_on_in_none() -> None:
    request = ScheduleUpdate(schedule_id=schedule("s", ContainerId("c"), message="m").schedule_id, session_mode="new", name="N")
    given = given_changes(request, ("name", "message", "session_mode"))
    assert given == {"name": "N", "session_mode": "new", "session_id": None}
    off = changed(schedule("s", ContainerId("c"), message="m"), given, False, 9)
    assert (off.name, off.updated_at, off.disabled_at) == ("N", 9, 9)
    assert changed(off, {}, None, 10).disabled_at == 9
    assert changed(off, {}, True, 10).disabled_at is None
