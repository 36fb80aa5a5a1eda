"""Event — the fact, its scope and its time.

The catalogue is closed: every kind of event is one `EventData` subclass in this package, declared once, with the field names
clients see. `Event` carries it together with its scope.
"""

from typing import ClassVar, Literal, Self

import msgspec

from agentvm.model.base import Record
from agentvm.model.ids import AgentId, ContainerId, ImageId, SessionId, TenantId, TurnId

EventSource = Literal["agent", "session", "container", "command", "sandbox"]
EventCategory = Literal["stream", "state", "message", "turn", "error", "lifecycle", "persist", "workdir"]
EventIntent = Literal["notification", "result"]


class EventData(Record):
    """One kind of event; the subclass is the kind, and its fields are the event's data."""

    type: ClassVar[str]
    source: ClassVar[EventSource]
    category: ClassVar[EventCategory]
    intent: ClassVar[EventIntent] = "notification"
    told: ClassVar[bool] = True
    """False for an event that is only stored: clients do not receive it, so it has no place in their order."""
    needs: ClassVar[str | None] = None
    """The permission required to receive it, besides access to its container."""

    @classmethod
    def of(cls, record: Record, **more: object) -> Self:
        """Returns an event about a record, with the record's fields of the same names."""
        fields = {name: getattr(record, name) for name in cls.__struct_fields__ if name not in more}
        return cls(**fields, **more)


class EventScope(Record):
    """The ids an event belongs to; clients see them as `context`. With a session id it goes to that session's subscribers."""

    container_id: ContainerId | None = None
    image_id: ImageId | None = None
    agent_id: AgentId | None = None
    session_id: SessionId | None = None
    turn_id: TurnId | None = None


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """An event. `tenant_id` decides who may receive it and never leaves the process.

    `seq` numbers the events of one session without a gap; 0 for events that belong to no session.
    """

    data: EventData
    scope: EventScope
    timestamp: int
    tenant_id: TenantId
    seq: int = 0
