"""A dialect for tests: short frames, and a record of which events were encoded."""

from agentvm.events.base import Event
from agentvm.events.stream import TextDelta
from agentvm.protocol.codec import Frame


class Counted:
    """An `Encode` that keeps count. `skips` leaves out text, as a dialect without deltas would."""

    def __init__(self, prefix: str, *, skips: bool = False) -> None:
        self.prefix = prefix
        self.skips = skips
        self.calls: list[int] = []

    def __call__(self, event: Event) -> Frame | None:
        self.calls.append(event.seq)
        if self.skips and isinstance(event.data, TextDelta):
            return None
        return Frame(f"{self.prefix}{event.seq}", event.scope.session_id, event.seq)
