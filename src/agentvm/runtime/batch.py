"""Batch — the events that the journal commits together."""

import math
from collections.abc import Mapping, Sequence

import anyio

from agentvm.errors import AgentVMError
from agentvm.events.base import Event
from agentvm.model.ids import TurnId
from agentvm.runtime.session_log import SessionLog


class BatchPart:
    """One session's part of a batch."""

    __slots__ = ("events", "turns")

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.turns: set[TurnId | None] = set()
        """The turns that posted them, which hear of a failure."""

    @property
    def last(self) -> int:
        """The number of the last event that has one; 0 for none. A recovered session may post nothing but its claim."""
        return next((event.seq for event in reversed(self.events) if event.seq), 0)


class Batch:
    """The events that are committed together, by session."""

    __slots__ = ("count", "done", "errors", "parts")

    def __init__(self) -> None:
        self.parts: dict[SessionLog, BatchPart] = {}
        self.count = 0
        self.done = anyio.Event()
        self.errors: dict[tuple[SessionLog, TurnId | None], AgentVMError] = {}

    def add(self, log: SessionLog, turn_id: TurnId | None, events: Sequence[Event]) -> None:
        part = self.parts.get(log)
        if part is None:
            part = self.parts[log] = BatchPart()
        part.events += events
        part.turns.add(turn_id)
        self.count += len(events)

    def fail(self, errors: Mapping[SessionLog, AgentVMError]) -> None:
        """Takes these logs' events out."""
        for log, error in errors.items():
            part = self.parts.pop(log, None)
            for turn_id in () if part is None else part.turns:
                self.errors[log, turn_id] = log.failed[turn_id] = error


async def wait_for(batch: Batch) -> None:
    """Returns when the batch was committed or has failed."""
    try:
        await batch.done.wait()
    except anyio.get_cancelled_exc_class():
        # Not abandoned: a commit that was begun will be told, so its poster must see it through.
        with anyio.CancelScope(shield=True):
            await batch.done.wait()
        if anyio.current_effective_deadline() != -math.inf:
            # Of no scope that would cancel again what comes next.
            raise
