"""Events — the one catalogue of everything that happens."""

from agentvm.events import error, file, lifecycle, message, schedule, state, stream, tool, turn
from agentvm.events.base import Event, EventData, EventScope


def _leaves(kind: type[EventData]) -> list[type[EventData]]:
    children = kind.__subclasses__()
    return [kind] if not children else [leaf for child in children for leaf in _leaves(child)]


CATALOGUE: dict[str, type[EventData]] = {kind.type: kind for kind in _leaves(EventData) if kind.told}
"""Every kind of event a client can receive, by its type."""

__all__ = [
    "CATALOGUE",
    "Event",
    "EventData",
    "EventScope",
    "error",
    "file",
    "lifecycle",
    "message",
    "schedule",
    "state",
    "stream",
    "tool",
    "turn",
]
