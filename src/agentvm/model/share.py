"""Share — a link by which the people of a tenant read a conversation as it was."""

from agentvm.model.base import Record
from agentvm.model.ids import ContainerId, SessionId, ShareId

DAYS_MAX = 365


class Share(Record):
    """A link to a conversation. Messages after `created_at` are not shown."""

    share_id: ShareId
    session_id: SessionId
    container_id: ContainerId
    created_by: str
    created_at: int
    expires_at: int | None = None
