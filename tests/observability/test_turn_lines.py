from collections.abc import Iterator, MutableMapping
from typing import Any

import pytest

from agentvm import log
from agentvm.events.base import Event, EventData, EventScope
from agentvm.events.turn import TurnParked, TurnRequest, TurnResponse, TurnResumed
from agentvm.model.ids import ContainerId, MessageId, SessionId, TenantId, TurnId, UserId
from agentvm.model.usage import Usage
from agentvm.observability.turn_lines import TurnLines

SCOPE = EventScope(container_id=ContainerId("c1"), session_id=SessionId("s1"), turn_id=TurnId("t1"))


@pytest.fixture
def entries() -> Iterator[list[dict[str, Any]]]:
    kept: list[dict[str, Any]] = []

    def keep(name: str, level: str, entry: MutableMapping[str, Any]) -> None:
        kept.append({"level": level, **entry})

    log.sinks.append(keep)
    log.set_level("info")
    yield kept
    log.sinks.remove(keep)


def told(data: EventData) -> Event:
    return Event(data=data, scope=SCOPE, timestamp=5, tenant_id=TenantId("acme"))


def test_a_turn_that_ends_is_one_line_with_who_how_long_and_how_much(entries: list[dict[str, Any]]) -> None:
    lines, message_id = TurnLines(), MessageId("m1")
    lines.react(told(TurnRequest(turn_id=TurnId("t1"), message_id=message_id, timestamp=1, user_id=UserId("u1"))))
    end = TurnResponse(
        turn_id=TurnId("t1"),
        message_id=message_id,
        outcome="completed",
        stop_reason="end_turn",
        duration=1_234,
        usage=Usage(input_tokens=10, output_tokens=5),
        timestamp=9,
        model="m",
    )
    for _ in range(2):
        lines.react(told(end))
    first, second = entries
    assert (first["event"], first["level"], first["tenant_id"], first["user_id"]) == ("turn_ended", "info", "acme", "u1")
    assert (first["outcome"], first["duration_ms"], first["input_tokens"], first["output_tokens"]) == (
        "completed",
        1_234,
        10,
        5,
    )
    assert (first["session_id"], first["turn_id"], first["model"]) == ("s1", "t1", "m")
    assert "user_id" not in second, "nothing is kept of a turn that has ended"


def test_a_parked_turn_keeps_nothing_in_memory_and_its_user_is_known_when_it_goes_on(entries: list[dict[str, Any]]) -> None:
    lines, turn_id, message_id = TurnLines(), TurnId("t1"), MessageId("m1")
    lines.react(told(TurnRequest(turn_id=turn_id, message_id=message_id, timestamp=1, user_id=UserId("u1"))))
    lines.react(told(TurnParked(turn_id=turn_id, message_id=message_id, waits=(), active=5, timestamp=2)))
    assert lines._users == {}
    lines.react(told(TurnResumed(turn_id=turn_id, message_id=message_id, attempt=0, timestamp=3, user_id=UserId("u1"))))
    end = TurnResponse(
        turn_id=turn_id,
        message_id=message_id,
        outcome="completed",
        stop_reason="end_turn",
        duration=1,
        usage=Usage(input_tokens=1, output_tokens=1),
        timestamp=9,
    )
    lines.react(told(end))
    assert [entry["user_id"] for entry in entries] == ["u1"]
    assert lines._users == {}
