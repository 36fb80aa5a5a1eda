from typing import Any

import pytest

from agentvm.errors import Unprocessable
from agentvm.gateways.langgraph.interrupts import interrupt_of, read_resume
from agentvm.gateways.turn_parts import CallWaits
from agentvm.model.ids import ContainerId, SessionId, TurnId
from agentvm.model.wait import DECISIONS, WaitId, WaitKind
from agentvm.operations.tool import WaitView


def wait(name: str, kind: WaitKind = "approval") -> WaitView:
    return WaitView(
        wait_id=WaitId(name), container_id=ContainerId("c"), session_id=SessionId("s"), turn_id=TurnId("t"), call_id="x",
        round=0, kind=kind, tool="f", version="1", fingerprint=f"print {name}", decisions=DECISIONS[kind], why="",
        audience="sender", not_sender=False, may_remember=False, asked_at=1, expires_at=2,
    )  # fmt: skip


def test_a_wait_is_the_request_of_a_human_in_the_loop() -> None:
    value = interrupt_of(CallWaits("x", "f", {"a": 1}, "approval", WaitId("w"), "p"))["value"]
    assert "toolCall" not in value
    assert value["action_requests"][0]["args"] == {"a": 1}
    assert value["review_configs"][0]["allowed_decisions"] == ["approve", "edit", "reject"]


def test_a_tool_that_the_client_runs_is_a_headless_tool() -> None:
    value = interrupt_of(wait("w", "client"))["value"]
    assert (value["type"], value["toolCall"]) == ("tool", {"id": "x", "name": "f", "args": {}})
    (answer,) = read_resume({"w": {"x": "42"}}, [wait("w", "client")])
    assert (answer.decision, answer.result) == ("answer", "42")


@pytest.mark.parametrize(
    ("resume", "decision", "about"),
    [
        (True, "approve", (None, None, None)),
        (False, "deny", (None, None, None)),
        ("approve", "approve", (None, None, None)),
        ({"decisions": [{"type": "approve"}]}, "approve", (None, None, None)),
        ({"decisions": [{"type": "reject", "message": "no"}]}, "deny", (None, None, "no")),
        ([{"type": "edit", "edited_action": {"name": "f", "args": {"a": 2}}}], "edit", ({"a": 2}, None, None)),
        ({"w": {"type": "respond", "args": "42"}}, "answer", (None, "42", None)),
        ({"city": "Oslo"}, "answer", (None, {"city": "Oslo"}, None)),
    ],
)
def test_an_answer_is_read_in_every_spelling(resume: Any, decision: str, about: tuple[Any, Any, Any]) -> None:
    (answer,) = read_resume(resume, [wait("w")])
    assert (answer.wait_id, answer.fingerprint, answer.decision) == ("w", "print w", decision)
    assert (answer.input, answer.result, answer.reason) == about


def test_answers_are_as_many_as_the_waits() -> None:
    waits = [wait("v"), wait("w")]
    assert [answer.decision for answer in read_resume([True, False], waits)] == ["approve", "deny"]
    assert [answer.wait_id for answer in read_resume({"w": True}, waits)] == ["w"]
    assert [answer.decision for answer in read_resume(True, waits)] == ["approve", "approve"]
    with pytest.raises(Unprocessable):
        read_resume([True], waits)
    with pytest.raises(Unprocessable):
        read_resume(True, [])
