"""Open questions — questions of a tool whose call is held open for the answer, because its server cannot wait for days.

The wait is a row as any other, so it is answered as any other. It lasts a minute: then, and when its call ends before, it has
no answer. The turn is not parked in the meantime. After a crash the call counts as one that has begun.
"""

from typing import Protocol

import anyio
import msgspec

from agentvm.events.base import EventData
from agentvm.model.ids import Clock
from agentvm.model.message import ToolCall
from agentvm.model.wait import ToolWait, WaitAnswer
from agentvm.runtime.accepted import Accepted
from agentvm.runtime.waiting import answer_events
from agentvm.tools.base import Question, QuestionAnswer, decline

KEY = "answer"
"""The key of the only question of such a wait."""


class QuestionSteps(Protocol):
    """The steps of a turn that a question needs."""

    def hold_open(self, call: ToolCall, question: Question) -> ToolWait | None:
        """Opens the wait for a question of a call that runs; None where no person can answer."""

    async def announce_wait(self, wait: ToolWait) -> None:
        """Stores the wait, and tells people of it."""

    def post_end(self, *events: EventData) -> None:
        """Lets the end of a wait be stored and sent soon."""


class OpenQuestions:
    """The questions of one call while it runs, one at a time."""

    def __init__(self, steps: QuestionSteps, accepted: Accepted, call: ToolCall, clock: Clock) -> None:
        self._steps, self._accepted, self._call, self._clock = steps, accepted, call, clock
        self._open: ToolWait | None = None
        self._is_closed = False

    async def ask(self, question: Question) -> QuestionAnswer:
        """Returns the answer of a person; a refusal if there is none in time, or if no person is present."""
        wait = None if self._is_closed or self._open else self._steps.hold_open(self._call, question)
        if wait is None:
            return await decline(question)
        self._open, answered = wait, anyio.Event()
        self._accepted.listening[wait.wait_id] = answered
        try:
            await self._steps.announce_wait(wait)
            await answered.wait()
        finally:
            self._end()
        answer = self._accepted.waits[wait.call_id].answer
        if answer is None or answer.decision != "answer":
            return await decline(question)
        return msgspec.convert(answer.result, dict[str, QuestionAnswer])[KEY]

    def close(self) -> None:
        """Ends the question that is open, because its call has ended; no further one is asked."""
        self._is_closed = True
        self._end()

    def _end(self) -> None:
        open_wait, self._open = self._open, None
        if open_wait is None:
            return
        if (answered := self._accepted.listening.pop(open_wait.wait_id, None)) is not None:
            answered.set()
        wait = self._accepted.waits[open_wait.call_id]
        if wait.wait_id == open_wait.wait_id and wait.answer is None:
            end, at = WaitAnswer(decision="expired"), self._clock()
            self._accepted.waits[wait.call_id] = msgspec.structs.replace(wait, answer=end, answered_at=at)
            self._steps.post_end(*answer_events(wait, end, None, at))
