"""Ecosystem — carries each event to its effectors, in fixed order.

A Receptor is where events enter, an Effector where they leave. Between the two lies the commit: the runtime's journal
hands an event on only when it is stored, so no effector sees an event that a crash could undo.
"""

from collections.abc import Callable, Collection, Sequence
from typing import Protocol

from agentvm.events.base import Event, EventData


class Receptor(Protocol):
    """Receives events in order."""

    def broadcast(self, events: Sequence[Event]) -> None: ...


class Effector(Protocol):
    """Reacts to certain kinds of events. It must not wait: it is called between two tokens of an answer."""

    @property
    def kinds(self) -> Collection[type[EventData]]:
        """The kinds of events that it is called for."""

    def react(self, event: Event) -> None: ...


class Ecosystem:
    """A receptor that passes all events on to the peers, and some to its effectors."""

    def __init__(self, peers: Receptor, effectors: Sequence[Effector]) -> None:
        self._peers = peers
        self._effectors = tuple(effectors)
        self.elsewhere: Callable[[Sequence[Event]], None] | None = None
        """In a cluster: carries events that no log holds to the other nodes."""
        # By kind: most events are deltas, which only the peers receive.
        self._reactions: dict[type[EventData], tuple[Callable[[Event], None], ...]] = {}
        for effector in effectors:
            for kind in effector.kinds:
                self._reactions[kind] = (*self._reactions.get(kind, ()), effector.react)

    def announce(self, events: Sequence[Event]) -> None:
        """Tells events that no log holds: here, and on other nodes."""
        self.broadcast(events)
        if self.elsewhere is not None:
            self.elsewhere(events)

    def broadcast(self, events: Sequence[Event]) -> None:
        self._peers.broadcast(events)
        for event in events:
            for react in self._reactions.get(type(event.data), ()):
                react(event)
