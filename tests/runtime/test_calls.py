"""The life of a call, over every answer and every moment of a crash."""

from typing import get_args

import pytest

from agentvm.model.ids import ContainerId, SessionId, TurnId
from agentvm.model.message import ToolCall
from agentvm.model.wait import ToolWait, WaitAnswer, WaitDecision, WaitId
from agentvm.runtime.calls import LOST, Held, Run, ToolOutcome, resume

CALL = ToolCall(id="c1", name="hammer", input={"n": 1})


def wait(decision: WaitDecision | None = None, *, started: bool = False, **more: object) -> ToolWait:
    answer = None if decision is None else WaitAnswer(decision=decision, **more)  # type: ignore[arg-type]
    return ToolWait(
        wait_id=WaitId("w"),
        container_id=ContainerId("c"),
        session_id=SessionId("s"),
        turn_id=TurnId("t"),
        call_id="c1",
        kind="approval",
        tool="hammer",
        fingerprint="f",
        input={"n": 1},
        why="",
        audience="sender",
        asked_at=0,
        expires_at=1,
        answer=answer,
        started_at=5 if started else None,
    )


@pytest.mark.parametrize("repeatable", [True, False])
def test_a_call_without_an_answer_waits(repeatable: bool) -> None:
    assert resume(CALL, wait(), repeatable=repeatable) == Held(wait())


@pytest.mark.parametrize("decision", get_args(WaitDecision))
def test_a_call_runs_only_if_somebody_approved_it(decision: WaitDecision) -> None:
    action = resume(CALL, wait(decision, input={"n": 2}), repeatable=False)
    assert isinstance(action, Run) is (decision in ("approve", "edit"))
    assert not isinstance(action, Held)


def test_an_edited_call_keeps_its_id_and_has_the_new_input() -> None:
    action = resume(CALL, wait("edit", input={"n": 2}), repeatable=False)
    assert isinstance(action, Run)
    assert action.call == ToolCall(id="c1", name="hammer", input={"n": 2})
    assert action.note is not None


def test_an_answer_is_the_result() -> None:
    assert resume(CALL, wait("answer", result={"photo": 1}), repeatable=False) == ToolOutcome({"photo": 1}, False)


@pytest.mark.parametrize("decision", ["deny", "expired", "superseded"])
def test_a_call_that_was_not_approved_says_so(decision: WaitDecision) -> None:
    action = resume(CALL, wait(decision), repeatable=True)
    assert isinstance(action, ToolOutcome)
    assert (action.is_error, action.is_denied) == (True, True)


def test_a_call_that_had_begun_is_made_again_only_if_that_does_no_harm() -> None:
    started = wait("approve", started=True)
    assert resume(CALL, started, repeatable=True) == Run(CALL, started)
    assert resume(CALL, started, repeatable=False) == ToolOutcome(LOST, True)
