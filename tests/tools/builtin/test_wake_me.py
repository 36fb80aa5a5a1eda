"""Calls that wait for a time, through the server's own faces."""

from datetime import UTC, datetime
from typing import Any

import pytest
from tests.operations.fixtures import open_desk
from tests.server.http.fixtures import Clock

from agentvm.drivers.scripted import ScriptedDriver, in_turn, reply, tool_calls
from agentvm.errors import ToolFailed
from agentvm.model.definition import Definition
from agentvm.resources.schema import check_schema
from agentvm.tools.builtin.wake_me import WakeMe, wake_time

pytestmark = pytest.mark.anyio
NOW = 1_795_000_000_000


def script(**given: object) -> ScriptedDriver:
    return ScriptedDriver(in_turn(tool_calls(("c1", "wake_me", {"note": "look again", **given})), reply("done")))


DEFINITION = Definition(name="waiter", tools=("wake_me",))


def test_the_input_schema_is_one_that_models_can_be_given() -> None:
    check_schema("inputSchema", WakeMe(lambda: NOW).spec.input_schema, of_object=True)


async def test_a_turn_waits_without_a_task_and_goes_on_when_its_time_has_come() -> None:
    async with open_desk(script(**{"in": 1}), definitions=[DEFINITION]) as desk:
        image = await desk.create_image(definition="waiter")
        await desk.ask("message_send", imageId=image["imageId"], content="go")
        await desk.hear("turn_parked")
        # The desk has a clock of its own, which hardly moves.
        ((tenant_id, wait),) = await desk.vm.store.due_waits.list_due(2**60, 10)
        assert wait.expires_at - wait.asked_at in range(900, 1_001)
        assert await desk.vm.runtime.expire_wait(tenant_id, wait)
        heard = await desk.hear("turn_response")
        (waiting,) = [event["data"] for event in heard if event["type"] == "tool_waiting"]
        assert (waiting["kind"], waiting["decisions"]) == ("timer", ["answer", "deny"])
        assert any(event["type"] == "turn_parked" for event in heard)
        (told,) = [event["data"] for event in heard if event["type"] == "tool_completed"]
        assert told["result"].endswith("Your note: look again")


async def test_somebody_may_let_it_go_on_earlier_or_not_at_all() -> None:
    for decision, event in (("answer", "tool_completed"), ("deny", "tool_failed")):
        async with open_desk(script(**{"in": 86_400}), definitions=[DEFINITION]) as desk:
            image = await desk.create_image(definition="waiter")
            await desk.ask("message_send", imageId=image["imageId"], content="go")
            await desk.hear("turn_parked")
            (wait,) = (await desk.ask("tool_waits", state="open"))["waits"]
            named: Any = {"waitId": wait["waitId"], "fingerprint": wait["fingerprint"]}
            assert "error" not in await desk.ask("tool_answer", **named, decision=decision)
            heard = await desk.hear("turn_response")
            assert event in [each["type"] for each in heard]


def test_a_time_is_given_in_one_way_with_an_offset_and_within_a_year() -> None:
    clock = Clock(NOW)
    assert wake_time({"in": 90}, clock()) == NOW + 90_000
    assert wake_time({"at": "2026-12-01T01:00:00+01:00"}, clock()) == int(datetime(2026, 12, 1, tzinfo=UTC).timestamp() * 1000)
    for wrong, said in (
        ({}, "either"),
        ({"in": 1, "at": "2027-01-01T00:00:00Z"}, "either"),
        ({"at": "tomorrow"}, "such as"),
        ({"at": "2027-01-01T00:00:00"}, "offset"),
        ({"at": "2020-01-01T00:00:00Z"}, "future"),
        ({"at": "2099-01-01T00:00:00Z"}, "future"),
    ):
        with pytest.raises(ToolFailed, match=said):
            wake_time(wrong, clock())
