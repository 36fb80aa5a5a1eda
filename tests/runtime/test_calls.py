"""The life of a call, over every answer and every moment of a crash."""

from typing import get_args

import msgspec
import pytest

from agentvm.model.ids import ContainerId, SessionId, TurnId
from agentvm.model.message import ToolCall
from agentvm.model.wait import QuestionAnswer, ToolWait, WaitAnswer, WaitDecision, WaitId, WaitKind
from agentvm.runtime.calls import LOST, Held, Run, ToolOutcome, resume
from agentvm.tools.base import Resumption

CALL = ToolCall(id="c1", name="hammer", input={"n": 1})


def wait(
    decision: WaitDecision | None = None, *, kind: WaitKind = "approval", started: bool = False, **more: object
) -> ToolWait:
    answer = None if decision is None else WaitAnswer(decision=decision, **more)  # type: ignore[arg-type]
    return ToolWait(
        wait_id=WaitId("w"),
        container_id=ContainerId("c"),
        session_id=SessionId("s"),
        turn_id=TurnId("t"),
        call_id="c1",
        kind=kind,
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


@pytest.mark.parametrize("decision", [decision for decision in get_args(WaitDecision) if decision != "answer"])
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
    answered = wait("answer", kind="client", result={"photo": 1})
    assert resume(CALL, answered, repeatable=False) == ToolOutcome({"photo": 1}, False)


def test_a_call_goes_on_with_the_answers_that_its_tool_asked_for_and_with_its_state() -> None:
    asked = msgspec.structs.replace(
        wait("answer", kind="elicitation", result={"size": {"action": "accept", "content": {"n": 3}}}),
        state="sealed",
        input={"n": 9},
        is_edited=True,
    )
    action = resume(CALL, asked, repeatable=False)
    assert isinstance(action, Run)
    answers = {"size": QuestionAnswer(action="accept", content={"n": 3})}
    assert action.resumption == Resumption(answers=answers, state="sealed")
    # With the input that a person has given it in an earlier round.
    assert (action.call.input, action.note is not None) == ({"n": 9}, True)
    consented = msgspec.structs.replace(wait("approve", kind="consent"), state="oauth")
    action = resume(CALL, consented, repeatable=False)
    assert isinstance(action, Run)
    assert action.resumption == Resumption(answers={}, state="oauth")


@pytest.mark.parametrize("kind", ["elicitation", "question", "consent"])
def test_a_started_call_that_may_not_run_twice_is_lost_and_another_is_resumed_with_the_answers(kind: WaitKind) -> None:
    answered = (
        wait("approve", kind=kind, started=True) if kind == "consent" else wait("answer", kind=kind, result={}, started=True)
    )
    assert resume(CALL, answered, repeatable=False) == ToolOutcome(LOST, True)
    again = resume(CALL, answered, repeatable=True)
    assert isinstance(again, Run)
    assert again.resumption is not None


@pytest.mark.parametrize("decision", ["deny", "expired", "superseded"])
def test_a_call_that_was_not_approved_says_so(decision: WaitDecision) -> None:
    action = resume(CALL, wait(decision), repeatable=True)
    assert isinstance(action, ToolOutcome)
    assert (action.is_error, action.is_denied) == (True, True)


def test_a_call_that_had_begun_is_made_again_only_if_that_does_no_harm() -> None:
    started = wait("approve", started=True)
    assert resume(CALL, started, repeatable=True) == Run(CALL, started)
    assert resume(CALL, started, repeatable=False) == ToolOutcome(LOST, True)
