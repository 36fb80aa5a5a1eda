import json
from typing import Any

import pytest

from agentvm.errors import InvalidInput
from agentvm.model.ids import ContainerId, ImageId, SessionId, TenantId
from agentvm.model.memory import ContainerMemory, MemoryId
from agentvm.model.principal import EVERYTHING, Principal
from agentvm.model.schedule import Schedule, ScheduleId, Trigger, TriggerId
from agentvm.sessions.container_lines import Importer, of_item, place_items, to_item
from agentvm.sessions.line import Unfit
from agentvm.sessions.placement import Placement

HOME = ContainerId("c1")
MEMORY = ContainerMemory(
    container_id=HOME, memory_id=MemoryId("mem_1"), text="喜欢茶", by="agent", session_id=SessionId("s1"), created_at=1,
    updated_at=2,
)  # fmt: skip
SCHEDULE = Schedule(
    schedule_id=ScheduleId("sched_1"), name="daily", container_id=HOME, image_id=ImageId("img_1"), message="go",
    cron="0 9 * * *", zone="UTC", created_by="alice", created_at=1, updated_at=2, next_at=5, wake_at=5, day=3, day_runs=1,
)  # fmt: skip
TRIGGER = Trigger(
    trigger_id=TriggerId("trig_1"), name="orders", container_id=HOME, image_id=ImageId("img_1"), message="go",
    created_by="alice", created_at=1, updated_at=2, secret=b"sealed",
)  # fmt: skip
IMPORTER = Importer(
    TenantId("acme"), Principal(tenant_id=TenantId("acme"), permissions=EVERYTHING, key_id=None), 9, lambda _: b"new"
)


def said(item: ContainerMemory | Schedule | Trigger) -> tuple[str, dict[str, Any]]:
    line = json.loads(of_item(item))
    return line["type"], line[line["type"]]


def test_a_memory_comes_out_of_its_line_as_it_went_in() -> None:
    assert to_item(*said(MEMORY)) == MEMORY


@pytest.mark.parametrize("item", [SCHEDULE, TRIGGER])
def test_a_line_has_nothing_of_the_server(item: Schedule | Trigger) -> None:
    kind, line = said(item)
    assert not {"secret", "createdBy", "nextAt", "wakeAt", "day", "dayRuns"} & line.keys()
    again = to_item(kind, line)
    assert (again.name, again.message, again.created_at) == (item.name, item.message, item.created_at)  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("kind", "changes"),
    [
        ("memory", {"text": ""}),
        ("memory", {"text": "x" * 501}),
        ("memory", {"memoryId": "x" * 65}),
        ("memory", {"memoryId": "../etc"}),
        ("memory", {"by": "operator"}),
        ("memory", {"secret": "x"}),
        ("memory", {"createdAt": -1}),
        ("schedule", {"message": "x" * 40_000}),
        ("schedule", {"jitterSeconds": 10**9}),
        ("schedule", {"wakeAt": 1}),
        ("schedule", {"cron": ""}),
        ("schedule", {"budget": {"steps": 0}}),
        ("trigger", {"secret": "c2VjcmV0"}),
        ("trigger", {"userId": "bob"}),
        ("trigger", {"runsPerDay": 0}),
        ("wish", {}),
    ],
)
def test_a_hostile_line_is_refused(kind: str, changes: dict[str, Any]) -> None:
    line = {"memory": said(MEMORY)[1], "schedule": said(SCHEDULE)[1], "trigger": said(TRIGGER)[1]}.get(kind, {})
    with pytest.raises(Unfit):
        to_item(kind, {**line, **changes})


def test_the_name_of_a_container_is_checked() -> None:
    with pytest.raises(InvalidInput):
        to_item("memory", {**said(MEMORY)[1], "containerId": "../x"})


def test_what_is_here_is_not_added_again_and_the_rest_refers_to_what_it_became() -> None:
    placement = Placement(images={"img_1": "img_2"}, sessions={"s1": "s2"}, container=ContainerId("copy"))
    memory, schedule, trigger = place_items([MEMORY, SCHEDULE, TRIGGER], placement, (), IMPORTER)
    assert isinstance(schedule, Schedule)
    assert isinstance(trigger, Trigger)
    assert (memory.session_id, memory.container_id) == ("s2", "copy")
    assert (schedule.image_id, schedule.disabled_at, schedule.wake_at, trigger.secret) == ("img_2", 9, None, b"new")
    assert schedule.schedule_id != SCHEDULE.schedule_id
    here = {("copy", "mem_1"), ("copy", schedule.schedule_id), ("copy", "trig_1")}
    assert place_items([MEMORY, SCHEDULE, TRIGGER], placement, here, IMPORTER) == []
