"""Calls — the life of one tool call as a pure function, which returns its next step.

    planned -> denied
            -> waiting -> answered -> started -> finished | lost | waiting
            -> started -> finished | lost | waiting

A call without a wait is `started` with the commit before it runs. One that has waited is started with a commit of its own, so
after a crash it is known of each call whether it can have taken effect. A call whose tool needs a person waits again, in the
next round, and is then made again with the answer.
"""

from dataclasses import dataclass

import msgspec

from agentvm.events.tool import ToolCharged
from agentvm.model.long_json import unfolded
from agentvm.model.message import (
    ContentOutput,
    DeniedOutput,
    ErrorJsonOutput,
    ErrorTextOutput,
    JsonOutput,
    OutputPart,
    TextOutput,
    ToolCall,
    ToolOutput,
)
from agentvm.model.session_file import FileChange
from agentvm.model.wait import QuestionAnswer, ToolWait, WaitKind
from agentvm.runtime.policy import Verdict
from agentvm.tools.base import Resumption

LOST = "The server was restarted while this tool ran. Whether it took effect is unknown; it was not run again."
EDITED = "A person changed the input of this call before it ran."
EXPIRED = "Nobody answered in time, so the call was not made."
NOBODY_TO_ASK = "The tool requires an answer, but no person is available."
ASKS_TOO_OFTEN = "The tool asked for input too often and was stopped."
NOT_BEGUN = "The turn was stopped before this call began, so it was not made."
STOPPED = "The turn was stopped while this tool ran. Whether it took effect is unknown."
SUPERSEDED = "The user sent another message without answering, so the call was not made."


@dataclass(frozen=True, slots=True)
class ToolOutcome:
    """The result of a call: a JSON value, parts with pictures and files, or an error."""

    result: object
    is_error: bool
    is_denied: bool = False
    """The call was not approved, so it was not made."""
    tainted: bool = False
    """The result holds untrusted text, although the tool itself has no access to the outside."""
    parts: tuple[OutputPart, ...] = ()
    """Parts that are the result instead of `result`; their bytes are stored."""
    files: tuple[FileChange, ...] = ()
    """Changes of the session's files, which are stored with the result."""
    agent: str | None = None
    """The agent that answers from here on, after a handoff."""
    charges: tuple[ToolCharged, ...] = ()
    """Entries of the ledger, which are committed with the result."""

    @property
    def output(self) -> ToolOutput:
        """The result as a message holds it."""
        text = self.result if isinstance(self.result, str) else None
        if self.is_denied:
            return DeniedOutput(reason=text or "")
        if self.parts:
            return ContentOutput(value=self.parts)
        if self.is_error:
            return ErrorJsonOutput(value=unfolded(self.result)) if text is None else ErrorTextOutput(value=text)
        return JsonOutput(value=unfolded(self.result)) if text is None else TextOutput(value=text)


@dataclass(frozen=True, slots=True)
class Run:
    """The call is to be made. `note` tells the model that a person has changed the input."""

    call: ToolCall
    wait: ToolWait | None = None
    note: str | None = None
    resumption: Resumption | None = None
    """Answers that the tool has asked for."""


@dataclass(frozen=True, slots=True)
class Held:
    """The call waits for an answer."""

    wait: ToolWait


Action = Run | ToolOutcome | Held
"""The next step of a call; an outcome when it is not made: it was denied, or its answer is the result."""


def begin(call: ToolCall, verdict: Verdict, waits_for: WaitKind | None) -> Run | ToolOutcome | WaitKind:
    """Returns the next step of a call that was just planned: the kind of its wait, if it has to wait."""
    if verdict.do == "deny":
        return ToolOutcome(denied(verdict.why), True, is_denied=True)
    if waits_for is not None:
        return waits_for
    return Run(call) if verdict.do == "allow" else "approval"


def resume(call: ToolCall, wait: ToolWait, *, repeatable: bool) -> Action:
    """Returns the next step of a call that has waited or still does."""
    answer = wait.answer
    if answer is None:
        return Held(wait)
    if wait.started_at is not None and not repeatable:
        return ToolOutcome(LOST, True)
    match answer.decision:
        case "answer" if wait.kind == "child":
            return _run(call, wait)
        case "answer" if wait.kind == "client":
            return ToolOutcome(answer.result, False)
        case "answer":
            answers = msgspec.convert(answer.result, dict[str, QuestionAnswer])
            return _run(call, wait, Resumption(answers=answers, state=wait.state))
        case "approve" if wait.kind == "consent":
            return _run(call, wait, Resumption(answers={}, state=wait.state))
        case "approve" | "edit":
            return _run(call, wait)
        case "deny":
            return ToolOutcome(denied(answer.reason), True, is_denied=True)
        case "expired":
            return ToolOutcome(EXPIRED, True, is_denied=True)
        case "superseded":
            return ToolOutcome(SUPERSEDED, True, is_denied=True)


def _run(call: ToolCall, wait: ToolWait, resumption: Resumption | None = None) -> Run:
    """Returns the call with the input that people have left it with."""
    edited = wait.answer.input if wait.answer is not None else None
    if edited is None and not wait.is_edited:
        return Run(call, wait, resumption=resumption)
    changed = ToolCall(id=call.id, name=call.name, input=wait.input if edited is None else edited)
    return Run(changed, wait, EDITED, resumption)


def denied(reason: str | None) -> str:
    return "The call was denied" + (f": {reason}" if reason else "; no reason was given")
