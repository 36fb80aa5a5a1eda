"""Ecosystem — carries each event to its effectors in fixed order: stored first, then told.

A Receptor is where events enter, an Effector where they leave. The recorder is the one effector that may wait
and may refuse: what it cannot store is told to nobody.
"""

from collections.abc import Sequence
from typing import Protocol

from agentvm.events.base import Event


class Receptor(Protocol):
    """Takes in what happened."""

    async def emit(self, events: Sequence[Event]) -> None:
        """Returns when the events' durable facts are committed and every listener was told."""


class Recorder(Protocol):
    """The effector that makes events durable."""

    async def record(self, events: Sequence[Event]) -> None: ...


class Effector(Protocol):
    """Something an event has an effect on. Never waits: it is called between two tokens of an answer."""

    def react(self, event: Event) -> None: ...


class Ecosystem:
    """A Receptor with its effectors. One batch of events is one commit."""

    def __init__(self, recorder: Recorder, effectors: Sequence[Effector]) -> None:
        self._recorder = recorder
        self._effectors = tuple(effectors)

    async def emit(self, events: Sequence[Event]) -> None:
        await self._recorder.record(events)
        self.tell(events)

    def tell(self, events: Sequence[Event]) -> None:
        """Tells without storing: only for events that store nothing, or when the store itself has failed."""
        for event in events:
            for effector in self._effectors:
                effector.react(event)
