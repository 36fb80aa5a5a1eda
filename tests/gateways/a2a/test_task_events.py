import json
from typing import Any

from a2a.types.a2a_pb2 import StreamResponse, Task
from a2a.utils.proto_utils import parse_lenient
from hypothesis import given, settings
from tests.conformance.records import turn
from tests.gateways.scene import turns

from agentvm.gateways.a2a.task_events import STATES, WAITING, TaskEvents
from agentvm.gateways.turn_parts import CallWaits, TextAdded, TurnEnded, TurnPart, TurnWaits
from agentvm.model.wait import WaitId


def written(events: TaskEvents, parts: list[TurnPart]) -> list[dict[str, Any]]:
    raw = events.begin() + b"".join(events.write(part, 0) for part in parts)
    return [json.loads(line.removeprefix("data: "))["result"] for line in raw.decode().split("\n\n") if line]


@settings(max_examples=30)
@given(parts=turns)
def test_any_order_of_parts_is_a_stream_that_the_official_types_take(parts: list[TurnPart]) -> None:
    events = TaskEvents("1", turn("turn_1"), "c")
    told = written(events, parts)
    for item in told:
        parse_lenient(item, StreamResponse())
    assert "task" in told[0]
    assert events.is_done
    artifacts = [item["artifactUpdate"] for item in told if "artifactUpdate" in item]
    assert [update.get("append", False) for update in artifacts] == [index > 0 for index in range(len(artifacts))]
    said = "".join(part["text"] for update in artifacts for part in update["artifact"]["parts"])
    whole = parse_lenient(events.task(), Task())
    assert "".join(part.text for artifact in whole.artifacts for part in artifact.parts) == said
    assert told[-1]["statusUpdate"]["status"]["state"] in {*STATES.values(), WAITING}


def test_a_wait_ends_the_stream_unless_it_was_answered() -> None:
    wait = CallWaits("k", "refund", {"n": 1}, "approval", WaitId("w1"), "f", "a rule")
    parts: list[TurnPart] = [wait, TurnWaits((WaitId("w1"),)), TextAdded("Done."), TurnEnded("completed", "end_turn")]
    (*_, last) = written(TaskEvents(1, turn("t"), "c"), parts)
    status = last["statusUpdate"]["status"]
    assert status["state"] == "TASK_STATE_INPUT_REQUIRED"
    assert status["message"]["parts"] == [
        {"text": "refund: a rule"},
        {"data": {"waitId": "w1", "kind": "approval", "tool": "refund", "input": {"n": 1}}},
    ]
    (*_, last) = written(TaskEvents(1, turn("t"), "c", answered=frozenset({WaitId("w1")})), parts)
    assert last["statusUpdate"]["status"]["state"] == "TASK_STATE_COMPLETED"
