"""Container commands — isolation boundaries."""

from typing import Annotated

import msgspec

from agentvm.model.ids import ContainerId
from agentvm.protocol.commands.base import Command, Reply
from agentvm.protocol.records import OwnedRecord


class ContainerIdReply(Reply):
    container_id: ContainerId | None = None


class ContainerCreate(Command[ContainerIdReply]):
    """Get-or-create."""

    name = "container_create"
    reply_type = ContainerIdReply
    container_id: str

    def refused(self) -> Reply:
        return ContainerIdReply(container_id=ContainerId(self.container_id))


class ContainerGetReply(Reply):
    exists: bool
    container_id: ContainerId | None = None


class ContainerGet(Command[ContainerGetReply]):
    name = "container_get"
    reply_type = ContainerGetReply
    container_id: str

    def refused(self) -> Reply:
        return ContainerGetReply(exists=False)


class ContainerDeleteReply(Reply):
    """`owned` is what would go, for a dry run."""

    container_id: ContainerId
    deleted: bool
    owned: OwnedRecord | None = None


class ContainerDelete(Command[ContainerDeleteReply]):
    """With all that is in it, for good. A dry run only counts that."""

    name = "container_delete"
    reply_type = ContainerDeleteReply
    container_id: str
    dry_run: bool = False

    def refused(self) -> Reply:
        return ContainerDeleteReply(container_id=ContainerId(self.container_id), deleted=False)


CONTAINERS_PER_PAGE_MAX = 1_000


class ContainerListReply(Reply):
    """`next_cursor` is there if there are more: the `cursor` of the next page."""

    container_ids: tuple[ContainerId, ...]
    next_cursor: str | None = None


class ContainerList(Command[ContainerListReply]):
    """A page of the containers within reach, oldest first."""

    name = "container_list"
    reply_type = ContainerListReply
    cursor: str | None = None
    limit: Annotated[int, msgspec.Meta(ge=1, le=CONTAINERS_PER_PAGE_MAX)] = CONTAINERS_PER_PAGE_MAX

    def refused(self) -> Reply:
        return ContainerListReply(container_ids=())
