"""Ecosystem — carries each event to its effectors, in fixed order.

A Receptor is where events enter, an Effector where they leave. Between the two lies the commit: the runtime's journal
hands an event on only when it is stored, so no effector hears of what a crash could take back.
"""

from collections.abc import Sequence
from typing import Protocol

from agentvm.events.base import Event


class Receptor(Protocol):
    """Takes in what happened, in order."""

    def tell(self, events: Sequence[Event]) -> None: ...


class Effector(Protocol):
    """Something an event has an effect on. Never waits: it is called between two tokens of an answer."""

    def react(self, event: Event) -> None: ...


class Ecosystem:
    """A Receptor with its effectors."""

    def __init__(self, effectors: Sequence[Effector]) -> None:
        self._effectors = tuple(effectors)

    def tell(self, events: Sequence[Event]) -> None:
        for event in events:
            for effector in self._effectors:
                effector.react(event)
