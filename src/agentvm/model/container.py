"""Container — a user's isolation boundary; holds images, sessions and agents."""

from agentvm.model.base import Record
from agentvm.model.ids import ContainerId


class Container(Record):
    container_id: ContainerId
    created_at: int
    updated_at: int
