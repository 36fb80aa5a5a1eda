"""Waiting — the waits of a turn's calls: how one is opened, shown to people, and ended. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from agentvm.events.base import EventData
from agentvm.events.tool import ProgramChanged, ToolAnswered, ToolDenied, ToolWaitExpired, ToolWaiting, WaitChanged
from agentvm.model.base import record_from
from agentvm.model.ids import ContainerId, SessionId, UserId
from agentvm.model.message import ToolCall
from agentvm.model.policy import Approval
from agentvm.model.program import ProgramEnded
from agentvm.model.wait import AnsweredWait, ToolWait, WaitAnswer, WaitId, WaitKind, fingerprint_of
from agentvm.runtime import calls, turn
from agentvm.runtime.accepted import Accepted
from agentvm.runtime.calls import Run, ToolOutcome
from agentvm.runtime.policy import CallFacts, Verdict
from agentvm.tools.base import ConsentRequired, InputRequired

_WHY: Mapping[WaitKind, str] = {
    "client": "the tool is run by the client",
    "question": "the agent asks a question",
    "elicitation": "the tool asks for input",
    "consent": "the tool needs your consent to act for you",
    "timer": "the agent continues later",
    "child": "a sub-agent waits for an answer",
}


@dataclass(frozen=True, slots=True)
class Waiting:
    """Opens the waits of one turn."""

    container_id: ContainerId
    session_id: SessionId
    accepted: Accepted

    def hold(
        self, wait_id: str, at: int, call: ToolCall, facts: CallFacts, kind: WaitKind, verdict: Verdict, seconds: float | None
    ) -> ToolWait:
        """Returns the first wait of a call; `seconds` for one that says itself how long it lasts."""
        approval = verdict.approval
        lasts = approval.expires_seconds if seconds is None else seconds
        return ToolWait(
            wait_id=WaitId(wait_id),
            container_id=self.container_id,
            session_id=self.session_id,
            turn_id=self.accepted.state.turn_id,
            call_id=call.id,
            kind=kind,
            tool=call.name,
            version=facts.version,
            fingerprint=fingerprint_of(call.name, facts.version, call.input),
            input=call.input,
            asked=fingerprint_of(call.name, "", call.input),
            why=verdict.why if kind == "approval" else _WHY[kind],
            audience=approval.audience,
            not_sender=approval.not_sender,
            may_remember=approval.remember,
            sender=self.accepted.bill.user_id,
            sender_key=self.accepted.bill.key_id if approval.not_sender else None,
            asked_at=at,
            expires_at=at + int(lasts * 1000),
        )

    def ask(self, wait_id: str, at: int, run: Run, facts: CallFacts, needs: InputRequired | ConsentRequired) -> ToolWait:
        """Returns the wait for the input that the tool of a call requires; only the person that it acts for can answer."""
        call = run.call
        before = self.accepted.waits.get(call.id)
        kind: WaitKind = needs.kind if isinstance(needs, InputRequired) else "consent"
        questions = needs.questions or None if isinstance(needs, InputRequired) else None
        url = None if isinstance(needs, InputRequired) else needs.url
        until = needs.until if isinstance(needs, InputRequired) else None
        seconds = None if until is None else max(0.0, (until - at) / 1000)
        wait = self.hold(wait_id, at, call, facts, kind, Verdict("ask", "", Approval()), seconds)
        return msgspec.structs.replace(
            wait,
            round=0 if before is None else before.round + 1,
            asked=wait.asked if before is None else before.asked,
            is_edited=run.note is not None,
            questions=questions,
            url=url,
            state=needs.state,
            fingerprint=fingerprint_of(call.name, facts.version, call.input, questions, url),
        )


def waiting_events(wait: ToolWait) -> tuple[EventData, ...]:
    """Returns the beginning of a wait: for its row, and for those who watch. A wait for a sub-agent cannot be answered by a
    person."""
    if wait.kind == "child":
        return (WaitChanged(change=wait),)
    # The session is named only where the wait of a sub-agent is told at the top.
    named = {"tool_id": wait.call_id, "tool_name": wait.tool, "session_id": None}
    event = record_from(ToolWaiting, wait, **named, decisions=wait.decisions)
    return WaitChanged(change=wait), event


def answer_events(wait: ToolWait, answer: WaitAnswer, by: UserId | None, at: int) -> tuple[EventData, ...]:
    """Returns the end of a wait: for its row, and for those who watch."""
    changed = WaitChanged(change=AnsweredWait(wait_id=wait.wait_id, turn_id=wait.turn_id, answer=answer, by=by, at=at))
    if wait.kind == "child":
        return (changed,)
    named = {"wait_id": wait.wait_id, "turn_id": wait.turn_id, "tool_id": wait.call_id, "tool_name": wait.tool}
    event = ToolAnswered(**named, decision=answer.decision, by=by, reason=answer.reason)  # type: ignore[arg-type]
    if answer.decision == "expired":
        return changed, event, ToolWaitExpired(**named)  # type: ignore[arg-type]
    return changed, event


def denied_event(accepted: Accepted, call: ToolCall, outcome: ToolOutcome) -> EventData:
    """Returns the event of a call that is not made because a rule or a person says so."""
    return ToolDenied(turn_id=accepted.state.turn_id, tool_id=call.id, tool_name=call.name, reason=str(outcome.result))


def close_calls(accepted: Accepted, at: int) -> turn.Step:
    """Gives each open call of a turn that does not continue its result, so that no call is left without one.

    Calls of a message that has not ended were never begun, and do not count.
    """
    now, events = accepted.state, list[EventData]()
    for call in now.pending if now.message_id is None else ():
        if (held := accepted.open_wait(call.id)) is not None:
            events += answer_events(held, WaitAnswer(decision="superseded"), None, at)
            outcome = ToolOutcome(calls.SUPERSEDED, True, is_denied=True)
        elif call.id in accepted.started:
            outcome = ToolOutcome(calls.STOPPED, True)
        else:
            outcome = ToolOutcome(calls.NOT_BEGUN, True, is_denied=True)
        now, finished = turn.tool_finished(now, call, outcome, at)
        events += finished
    # Of a turn that could not be read it is not known whether it has run programs.
    may_have_run = accepted.resumed and (accepted.state.pending or accepted.left is not None)
    if accepted.programs or may_have_run:
        events.append(ProgramChanged(change=ProgramEnded(turn_id=now.turn_id)))
    return now, tuple(events)
