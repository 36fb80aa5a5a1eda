"""Interrupts — tool calls that wait for an answer, as LangChain's clients show and answer them. Pure."""

from collections.abc import Sequence
from typing import Any

from agentvm.errors import Unprocessable
from agentvm.gateways.turn_parts import CallWaits
from agentvm.model.wait import AnswerDecision, WaitKind
from agentvm.operations.tool import ToolAnswer, WaitView

NOTHING_WAITS = "Nothing of this thread waits for an answer"
_DECISIONS: dict[WaitKind, tuple[str, ...]] = {
    "approval": ("approve", "edit", "reject"),
    "client": ("respond", "reject"),
    "question": ("respond", "reject"),
    "elicitation": ("respond", "reject"),
    "consent": ("approve", "reject"),
    "timer": ("respond", "reject"),
    "child": ("reject",),
}
_MEANT: dict[str, AnswerDecision] = {
    "approve": "approve",
    "accept": "approve",
    "edit": "edit",
    "reject": "deny",
    "ignore": "deny",
    "respond": "answer",
    "response": "answer",
    "answer": "answer",
}


def interrupt_of(wait: WaitView | CallWaits) -> dict[str, Any]:
    """Returns a wait as the request of LangChain's human in the loop; a tool that the client runs, also as a headless tool."""
    name = wait.tool if isinstance(wait, WaitView) else wait.name
    arguments = wait.input or {}
    review = {"action_name": name, "allowed_decisions": list(_DECISIONS[wait.kind])}
    action = {"name": name, "args": arguments, "description": wait.kind}
    tool = {"type": "tool", "toolCall": {"id": wait.call_id, "name": name, "args": arguments}} if wait.kind == "client" else {}
    return {"id": wait.wait_id, "value": {**tool, "action_requests": [action], "review_configs": [review]}}


def read_resume(resume: Any, waits: Sequence[WaitView]) -> list[ToolAnswer]:
    """Returns the answers to waits: one for all of them, one for each, or by the ids of interrupts."""
    if not waits:
        raise Unprocessable(NOTHING_WAITS)
    if isinstance(resume, dict) and resume and set(resume) <= {wait.wait_id for wait in waits}:
        return [_answer(wait, resume[wait.wait_id]) for wait in waits if wait.wait_id in resume]
    raw_decisions = resume.get("decisions") if isinstance(resume, dict) else resume
    decisions = raw_decisions if isinstance(raw_decisions, list) else [resume] * len(waits)
    if len(decisions) != len(waits):
        raise Unprocessable(f"{len(waits)} calls wait for an answer, and there are {len(decisions)} decisions")
    return [_answer(wait, decision) for wait, decision in zip(waits, decisions, strict=True)]


def _answer(wait: WaitView, resumed: Any) -> ToolAnswer:
    decision, value = _read_answer(wait, resumed)
    return ToolAnswer(
        wait_id=wait.wait_id,
        fingerprint=wait.fingerprint,
        decision=decision,
        input=value if decision == "edit" and isinstance(value, dict) else None,
        result=value if decision == "answer" else None,
        reason=value if decision == "deny" and isinstance(value, str) else None,
    )


def _read_answer(wait: WaitView, value: Any) -> tuple[AnswerDecision, Any]:
    if isinstance(value, dict) and set(value) == {wait.call_id}:
        # Clients that run a tool answer by the id of its call.
        return "answer", value[wait.call_id]
    return _read(value)


def _read(resumed: Any) -> tuple[AnswerDecision, Any]:
    """Returns a decision with its content: the changed input, the answer or the reason."""
    match resumed:
        case bool():
            return ("approve" if resumed else "deny"), None
        case {"decisions": [one]} | [one]:
            return _read(one)
        case {"type": str(kind)} if kind in _MEANT:
            edited = resumed.get("edited_action", resumed.get("args"))
            value = edited.get("args", edited) if isinstance(edited, dict) else edited
            return _MEANT[kind], resumed.get("message") if value is None else value
        case str(kind) if kind in _MEANT:
            return _MEANT[kind], None
        case _:
            return "answer", resumed
