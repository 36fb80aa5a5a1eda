"""A2A tasks — a turn as a task, whole or as events of its stream. Pure."""

from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from agentvm.gateways.sse import event
from agentvm.gateways.turn_parts import CallMade, CallWaits, TextAdded, TurnEnded, TurnPart, TurnWaits
from agentvm.model.turn import Turn, TurnOutcome
from agentvm.model.wait import WaitId

ANSWER: Final = "answer"
"""The id of the one artifact of a task."""
SUBMITTED, WORKING, WAITING = "TASK_STATE_SUBMITTED", "TASK_STATE_WORKING", "TASK_STATE_INPUT_REQUIRED"
STATES: Final[dict[TurnOutcome, str]] = {
    "completed": "TASK_STATE_COMPLETED",
    "failed": "TASK_STATE_FAILED",
    "interrupted": "TASK_STATE_CANCELED",
}

_encode = msgspec.json.Encoder().encode


class TaskEvents:
    """Writes the parts of a turn as events of a task. Waits that are `answered` do not end the stream."""

    def __init__(
        self, call_id: str | int | None, turn: Turn, context_id: str, *, answered: frozenset[WaitId] = frozenset()
    ) -> None:
        self._turn, self._context_id, self._answered = turn, context_id, answered
        self._names = {"taskId": turn.turn_id, "contextId": context_id}
        self._head = b'{"jsonrpc":"2.0","id":%b,"result":' % _encode(call_id)
        artifact = b'{"artifactUpdate":{"taskId":%b,"contextId":%b,"artifact":{"artifactId":"answer","parts":[{"text":'
        self._delta = self._head + artifact % (_encode(turn.turn_id), _encode(context_id))
        self._texts: list[str] = []
        self._is_apart = False
        self._state = SUBMITTED
        self._about: dict[str, Any] | None = None
        self._waits: dict[WaitId, CallWaits] = {}
        self.is_done = False

    def begin(self) -> bytes:
        return self._event({"task": self.task()})

    def write(self, part: TurnPart, cursor: int) -> bytes:
        if self.is_done:
            return b""
        match part:
            case TextAdded(text=text):
                return self._begin_work() + self._write_text(text) if text else b""
            case CallMade(name=name):
                self._is_apart = bool(self._texts)
                self._state = WORKING
                return self._status({"tool": name})
            case CallWaits(wait_id=wait_id):
                self._waits[wait_id] = part
            case TurnWaits(waits=waits) if not set(waits) <= self._answered:
                self._state, self._about = WAITING, self._message(self._questions(waits))
                self.is_done = True
                return self._status()
            case TurnEnded(outcome=outcome, error=error):
                self._state, self.is_done = STATES[outcome], True
                self._about = None if error is None else self._message([{"text": error[1]}])
                last = b"" if not self._texts else event(self._delta + b'""}]},"append":true,"lastChunk":true}}}')
                return last + self._status()
            case _:
                pass
        return b""

    def task(self, *, artifacts: bool = True) -> dict[str, Any]:
        """Returns the task as it is now."""
        turn = self._turn
        task: dict[str, Any] = {"id": turn.turn_id, "contextId": self._context_id, "status": self._status_now()}
        if self._texts and artifacts:
            task["artifacts"] = [{"artifactId": ANSWER, "parts": [{"text": "".join(self._texts)}]}]
        return task

    def result(self, content: object) -> dict[str, Any]:
        """Returns the answer to the call."""
        return msgspec.json.decode(self._head + _encode(content) + b"}", type=dict[str, Any])

    def settle(self) -> None:
        """Takes the state from the record of the turn, where its events do not tell it."""
        turn = self._turn
        if turn.outcome is not None:
            self._state = STATES[turn.outcome]
        elif self._state == SUBMITTED:
            self._state = WORKING

    def _begin_work(self) -> bytes:
        if self._state == WORKING:
            return b""
        self._state = WORKING
        return self._status()

    def _write_text(self, text: str) -> bytes:
        if self._is_apart:
            # What the model says after a call is another paragraph.
            text, self._is_apart = f"\n\n{text}", False
        begins = not self._texts
        self._texts.append(text)
        return event(self._delta + _encode(text) + (b"}]}}}}" if begins else b'}]},"append":true}}}'))

    def _status_now(self) -> dict[str, Any]:
        at = self._turn.ended_at or self._turn.accepted_at
        timestamp = datetime.fromtimestamp(at / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        status: dict[str, Any] = {"state": self._state, "timestamp": timestamp}
        return status if self._about is None else {**status, "message": self._about}

    def _status(self, metadata: dict[str, Any] | None = None) -> bytes:
        update: dict[str, Any] = {**self._names, "status": self._status_now()}
        return self._event({"statusUpdate": update if metadata is None else {**update, "metadata": metadata}})

    def _message(self, parts: list[dict[str, Any]]) -> dict[str, Any]:
        named = {"messageId": f"{self._turn.turn_id}-status", "role": "ROLE_AGENT"}
        return {**named, **self._names, "parts": parts}

    def _questions(self, waits: tuple[WaitId, ...]) -> list[dict[str, Any]]:
        """Returns the questions that the task waits for: a text for people, and data with the ids to answer with."""
        parts: list[dict[str, Any]] = []
        for wait in (self._waits[wait_id] for wait_id in waits if wait_id in self._waits):
            messages = [question.message for question in (wait.questions or {}).values()]
            parts.append({"text": "\n".join(messages) or f"{wait.name}: {wait.why}"})
            data = {"waitId": wait.wait_id, "kind": wait.kind, "tool": wait.name, "input": wait.input, "url": wait.url}
            parts.append({"data": {name: value for name, value in data.items() if value is not None}})
        return parts or [{"text": "The task waits for an answer"}]

    def _event(self, content: object) -> bytes:
        return event(self._head + _encode(content) + b"}")
