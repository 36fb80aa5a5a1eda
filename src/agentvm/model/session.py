"""Session — a history that belongs to an image. It has no status: it only holds messages and a title."""

from agentvm.model.base import Record
from agentvm.model.ids import ContainerId, ImageId, SessionId


class Session(Record):
    session_id: SessionId
    image_id: ImageId
    container_id: ContainerId
    title: str | None
    created_at: int
    updated_at: int
    quarantine: str | None = None
    """Why it takes no messages until it is released; None for nearly every session."""
