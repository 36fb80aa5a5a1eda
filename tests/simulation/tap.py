"""Tap — hears every event of the servers, so that the checks know what has ended."""

from collections.abc import Collection
from dataclasses import dataclass, field

from agentvm.events.base import Event, EventData
from agentvm.events.message import UserMessageEvent
from agentvm.events.turn import TurnResponse


@dataclass(slots=True)
class Tap:
    """Hears every event in the process, and knows which turns have an end that is stored."""

    said: dict[str, str] = field(default_factory=dict)
    """What the user said, by turn."""
    ended: set[str] = field(default_factory=set)
    accepted: int = 0
    thinned: set[str] = field(default_factory=set)
    """Sessions of which something may have been dropped because it was old."""

    @property
    def kinds(self) -> Collection[type[EventData]]:
        return UserMessageEvent, TurnResponse

    def react(self, event: Event) -> None:
        turn_id = event.scope.turn_id
        if turn_id is None or not event.seq:
            return
        if isinstance(event.data, UserMessageEvent):
            self.accepted += 1
            self.said[turn_id] = str(getattr(event.data.message, "content", ""))
            if event.scope.session_id in self.thinned:
                # Its key went with it, so it may be said again.
                self.ended.discard(self.said[turn_id])
        elif isinstance(event.data, TurnResponse):
            self.ended.add(self.said.get(turn_id, ""))
