"""Memory — a short note in every prompt of the agents of a container."""

from typing import Literal, NewType

from agentvm.model.base import Record
from agentvm.model.ids import ContainerId, MessageId, SessionId

MemoryId = NewType("MemoryId", str)

MEMORY_TEXT_MAX = 500
"""Characters of one memory."""
MEMORIES_MAX = 200
"""Memories of one container."""
MEMORY_ID_MAX = 64


class Memory(Record):
    """A note, and where it comes from.

    A proposed one was written after an agent had read untrusted text: no model receives it until a person has accepted it.
    """

    memory_id: MemoryId
    text: str
    by: Literal["user", "agent"]
    proposed: bool = False
    pinned: bool = False
    session_id: SessionId | None = None
    """The session in which an agent wrote it."""
    message_id: MessageId | None = None
    """The call by which an agent wrote it, or the answer after which it was written. Rewinding that takes it back, unless a
    person has changed it."""
    created_at: int
    updated_at: int


class ContainerMemory(Memory):
    """A memory that goes from one container to another."""

    container_id: ContainerId
