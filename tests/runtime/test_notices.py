from agentvm.events.base import Event, EventData, EventScope
from agentvm.events.lifecycle import QuotaWarning
from agentvm.events.stream import TextDelta
from agentvm.events.tool import WaitChanged
from agentvm.events.turn import TurnResponse
from agentvm.model.ids import ContainerId, ImageId, MessageId, SessionId, TenantId, TurnId
from agentvm.model.usage import Usage
from agentvm.model.wait import StartedWait, ToolWait, WaitId
from agentvm.runtime.notices import notices_of

SCOPE = EventScope(container_id=ContainerId("c"), image_id=ImageId("img"), session_id=SessionId("s"), turn_id=TurnId("turn_1"))
WAIT = ToolWait(
    wait_id=WaitId("wait_1"), container_id=ContainerId("c"), session_id=SessionId("s"), turn_id=TurnId("turn_1"), call_id="k",
    kind="approval", tool="refund", fingerprint="f", input={"secret": 1}, why="a rule", audience="sender", asked_at=3,
    expires_at=9,
)  # fmt: skip


def event(data: EventData) -> Event:
    return Event(data=data, scope=SCOPE, timestamp=7, tenant_id=TenantId("t"), seq=1)


def test_ends_waits_and_warnings_are_told_and_nothing_else_is() -> None:
    ended = TurnResponse(
        turn_id=TurnId("turn_1"), message_id=MessageId("m"), outcome="failed", stop_reason="error", duration=5,
        usage=Usage(input_tokens=1, output_tokens=2), timestamp=8,
    )  # fmt: skip
    warned = QuotaWarning(metric="tokens_per_day", limit=10, used=11, reset_at=99)
    started = WaitChanged(change=StartedWait(wait_id=WAIT.wait_id, at=1))
    told = (event(TextDelta(text="x")), event(WaitChanged(change=WAIT)), event(started), event(warned), event(ended))
    wait, warning, end = notices_of(told)
    assert (wait.type, wait.event_id, wait.at) == ("wait.created", "evt_wait_1", 3)
    assert wait.data["tool"] == "refund"
    assert "input" not in wait.data
    assert (warning.type, warning.event_id) == ("quota.warning", "evt_turn_1_tokens_per_day")
    assert (end.type, end.event_id, end.at, end.container_id) == ("turn.failed", "evt_turn_1", 8, "c")
    assert (end.data["sessionId"], end.data["outcome"]) == ("s", "failed")
