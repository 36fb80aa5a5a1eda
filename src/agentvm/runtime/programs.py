"""Programs — calls whose code calls other tools of the agent, and that outlive every wait.

Theory of operation. A program runs in a sandbox and has no effect of its own but the calls it makes and the files it leaves,
which are stored with its result. Each of its calls is decided, announced and made as a call of the model is, and its result is
journalled with the events that tell it. When a call has to wait, the program is killed, and the turn waits for that call. When
it is answered, or after a crash, the program is run again from its beginning: calls in the journal get the results that they
had, and the first one that is not there is made. A program that makes another call than before has diverged; the model gets an
error, and nothing further is made.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import NoReturn, Protocol

import anyio
import msgspec

from agentvm.drivers.base import ToolSpec
from agentvm.errors import ToolFailed, shorten
from agentvm.events.base import EventData
from agentvm.events.state import ToolCompleted, ToolExecuting, ToolFailedEvent
from agentvm.events.tool import ProgramChanged
from agentvm.model.message import ToolCall
from agentvm.model.program import JOURNAL_MAX_BYTES, ProgramCall
from agentvm.model.session_file import SessionFile
from agentvm.model.tier import KnownAnswer
from agentvm.model.wait import fingerprint_of
from agentvm.runtime import calls
from agentvm.runtime.accepted import Accepted
from agentvm.runtime.call_files import CallFiles
from agentvm.runtime.call_run import Ended
from agentvm.runtime.calls import Action, Held, Run, ToolOutcome
from agentvm.tools.base import ConsentRequired, InputRequired

PREVIEW_CHARACTERS = 2_000
"""Characters of an input or a result that are told; the program itself gets all of it."""
ENDED = "The program ended without waiting for this call."


class CallSteps(Protocol):
    """The steps of an ordinary call of the turn."""

    async def decide(self, call: ToolCall, *, tainted: bool) -> Action: ...
    async def announce(self, actions: Sequence[tuple[ToolCall, Action]]) -> None: ...
    async def make(self, run: Run, *, tainted: bool) -> Ended:
        """Makes a call of a program; its result is whole, however long."""

    def ask(self, run: Run, needs: InputRequired | ConsentRequired) -> ToolOutcome | None:
        """Opens a wait for the input that the tool of a call requires; an outcome if no person can answer."""

    def explain(self, call: ToolCall, outcome: ToolOutcome, *, is_nested: bool) -> EventData:
        """Returns why the call was decided as it was, and where it ran."""

    def post(self, *events: EventData) -> None: ...
    async def flush(self) -> None:
        """Returns when all that was posted is stored."""

    def may_repeat(self, name: str) -> bool: ...
    def is_open(self, call: ToolCall) -> bool:
        """Returns whether results of the call are untrusted text."""


class Program:
    """One run of a program. `tools` are those that it may call."""

    def __init__(
        self, steps: CallSteps, accepted: Accepted, call: ToolCall, tools: Sequence[ToolSpec], journal: Sequence[ProgramCall]
    ) -> None:
        self.tools = tuple(tools)
        self.scope = anyio.CancelScope()
        """Cancelled to kill the program."""
        self.tainted = False
        """Whether it has got untrusted text."""
        self.is_held = False
        """Whether it was killed because a call of it waits."""
        self.diverged: str | None = None
        self.notes: list[str] = []
        """Changes of its calls by people, for the model."""
        self._steps = steps
        self._accepted = accepted
        self._call = call
        self._journal = {entry.number: entry for entry in journal}
        start = self._journal.get(0)
        self._files = None if start is None else msgspec.convert(start.result, tuple[SessionFile, ...])
        """The files of the session when the program began."""
        self._is_begun = start is not None
        self._bytes = sum(len(msgspec.json.encode(entry)) for entry in journal)
        self._count = 0
        # The sandbox asks for one call at a time; code that writes to its line itself may not.
        self._one = anyio.Lock(fast_acquire=True)
        self._is_closed = False

    @property
    def known_answers(self) -> tuple[KnownAnswer, ...]:
        """The results of its first calls, which were made in an earlier run."""
        answers = list[KnownAnswer]()
        while (entry := self._journal.get(len(answers) + 1)) is not None:
            answers.append(KnownAnswer(value=msgspec.json.encode(entry.result), error=entry.error))
        return tuple(answers)

    def close(self) -> None:
        """Ends the program for its turn: one that was abandoned makes no further call, and nothing is told of it any more."""
        self._is_closed = True

    def _post(self, *events: EventData) -> None:
        if not self._is_closed:
            self._steps.post(*events)

    async def take_files(self, files: CallFiles) -> None:
        """Notes the files that the program begins with, or shows it those that it began with in its first run."""
        if self._files is None:
            self._files = await files.list()
        else:
            files.show(self._files)
        # Its code may read any of them.
        self.tainted = any(file.tainted for file in self._files)

    async def call(self, name: str, input: dict[str, object]) -> object:
        """Returns the result of a call; `ToolFailed` for one that failed or was not made. Does not return if it has to wait."""
        async with self._one:
            if self._is_closed:
                raise ToolFailed(ENDED)
            self._count += 1
            child = ToolCall(id=f"{self._call.id}.{self._count}", name=name, input=input)
            digest = fingerprint_of(name, "", input)
            # A program that is run again makes the same calls.
            self._accepted.nested.add(child.id)
            entry, wait = self._journal.get(self._count), self._accepted.waits.get(child.id)
            if entry is not None and entry.digest != digest:
                await self._kill(diverged=_divergence(self._count, entry.tool, child))
            if entry is None:
                # An answer is for the call that people were shown.
                if wait is not None and wait.asked != digest:
                    await self._kill(diverged=_divergence(self._count, wait.tool, child))
                entry = await self._make(child, self._count, digest)
            self.tainted = self.tainted or entry.tainted
            self.notes += [] if entry.note is None else [entry.note]
            if entry.error is not None:
                raise ToolFailed(entry.error)
            return entry.result

    async def _make(self, child: ToolCall, number: int, digest: str) -> ProgramCall:
        """Makes a call that is not in the journal, and journals it."""
        if not self._is_begun:
            self._is_begun = True
            start = ProgramCall(
                turn_id=self._accepted.state.turn_id, program=self._call.id, number=0, tool="", digest="", result=self._files
            )
            self._post(ProgramChanged(change=start))
        if child.id not in self._accepted.waits:
            preview = child.input if len(msgspec.json.encode(child.input)) <= PREVIEW_CHARACTERS else {}
            self._post(ToolExecuting(tool_id=child.id, tool_name=child.name, input=preview, parent_id=self._call.id))
        ended = False
        try:
            outcome, note = await self._execute(child)
            ended = True
        finally:
            if not (ended or self.is_held):
                self._post(_failed(child, self._call, ENDED))
        entry = self._keep(child, number, digest, outcome, note)
        if not self._steps.may_repeat(child.name):
            # The next process could not ask for it again.
            await self._steps.flush()
        return entry

    async def _execute(self, child: ToolCall) -> tuple[ToolOutcome, str | None]:
        """Returns the outcome of a call, and the change that a person has made to it."""
        steps, accepted = self._steps, self._accepted
        if child.id in accepted.started and child.id not in accepted.waits and not steps.may_repeat(child.name):
            return ToolOutcome(calls.LOST, True), None
        action = await steps.decide(child, tainted=self.tainted)
        match action:
            case ToolOutcome():
                return action, None
            case Run(wait=wait):
                if wait is not None or not steps.may_repeat(child.name):
                    await steps.announce([(child, action)])
                ended = await steps.make(action, tainted=self.tainted)
                if isinstance(ended, ToolOutcome):
                    return ended, None if action.note is None else f"{child.id} ({child.name}): {action.note}"
                if (refused := steps.ask(action, ended)) is not None:
                    return refused, None
            case Held():
                await steps.announce([(child, action)])
        await self._kill(held=True)

    def _keep(self, child: ToolCall, number: int, digest: str, outcome: ToolOutcome, note: str | None) -> ProgramCall:
        error = str(outcome.result) if outcome.is_error else None
        entry = ProgramCall(
            turn_id=self._accepted.state.turn_id,
            program=self._call.id,
            number=number,
            tool=child.name,
            digest=digest,
            result=None if outcome.is_error else outcome.result,
            error=error,
            note=note,
            tainted=outcome.tainted or (not outcome.is_denied and self._steps.is_open(child)),
        )
        size = len(msgspec.json.encode(entry))
        if self._bytes + size > JOURNAL_MAX_BYTES:
            text = f"The call was made, but the results of one program have at most {JOURNAL_MAX_BYTES:,} bytes in all"
            entry, error = msgspec.structs.replace(entry, result=None, error=text), text
            size = len(msgspec.json.encode(entry))
        self._bytes += size
        ended: EventData = _completed(child, self._call, entry.result) if error is None else _failed(child, self._call, error)
        self._post(*outcome.charges, ProgramChanged(change=entry), ended, self._steps.explain(child, outcome, is_nested=True))
        return entry

    async def _kill(self, *, held: bool = False, diverged: str | None = None) -> NoReturn:
        self.is_held, self.diverged = held, diverged
        self.scope.cancel()
        while True:
            await anyio.sleep_forever()

    def outcome(self, ended: ToolOutcome) -> ToolOutcome:
        """Returns the outcome of the program as the model is told."""
        if self.diverged is not None:
            return ToolOutcome(self.diverged, True, tainted=self.tainted)
        result = {**ended.result, "notes": self.notes} if self.notes and isinstance(ended.result, dict) else ended.result
        return replace(ended, result=result, tainted=ended.tainted or self.tainted)


def _divergence(number: int, before: str, now: ToolCall) -> str:
    input_text = shorten(msgspec.json.encode(now.input).decode())
    return (
        f"The program was run again after an interruption, and its call {number} is not the one of the first run: that was "
        f"{before}, this is {now.name} with {input_text}. It was stopped; the calls before were made once. Its calls must not "
        "depend on the time, on threads or on anything else that changes from run to run."
    )


def _completed(child: ToolCall, program: ToolCall, result: object) -> EventData:
    text = result if isinstance(result, str) else msgspec.json.encode(result).decode()
    preview = result if len(text) <= PREVIEW_CHARACTERS else f"{text[:PREVIEW_CHARACTERS]}… [{len(text)} characters]"
    return ToolCompleted(tool_id=child.id, tool_name=child.name, result=preview, parent_id=program.id)


def _failed(child: ToolCall, program: ToolCall, text: str) -> EventData:
    return ToolFailedEvent(tool_id=child.id, tool_name=child.name, error=text[:PREVIEW_CHARACTERS], parent_id=program.id)
