"""Containers — isolation boundaries: create, list, show and delete them."""

from agentvm.errors import AccessDenied, ContainerForbidden, ContainerNotFound
from agentvm.model.base import Record
from agentvm.model.ids import ContainerId
from agentvm.operations.operation import Context, Http, OperationGroup
from agentvm.operations.pages import PAGE_MAX, Limit, Page, PageRequest
from agentvm.protocol.records import OwnedRecord
from agentvm.protocol.requests import Reply, Request

operation = OperationGroup("containers")

USE = "agent:use"
_ALL, _ONE = "/v1/containers", "/v1/containers/{container_id}"


class ContainerIdReply(Reply):
    container_id: ContainerId | None = None


class ContainerCreate(Request[ContainerIdReply]):
    container_id: str

    def refused(self) -> Reply:
        return ContainerIdReply(container_id=ContainerId(self.container_id))


@operation("container.create", needs=USE, command=True)
async def create(context: Context, request: ContainerCreate) -> ContainerIdReply:
    """Create a container, if there is none.

    Emits `container_created` when the container is new.
    """
    return ContainerIdReply(container_id=await ensure(context, request.container_id))


class ContainerGetReply(Reply):
    exists: bool
    container_id: ContainerId | None = None


class ContainerGet(Request[ContainerGetReply]):
    container_id: str

    def refused(self) -> Reply:
        return ContainerGetReply(exists=False)


@operation("container.get", needs=USE, command=True)
async def get(context: Context, request: ContainerGet) -> ContainerGetReply:
    """Ask whether a container exists.

    `containerId` is absent when it does not.
    """
    container_id = context.workspace.container_id(request.container_id)
    if await context.store.container(container_id).get() is None:
        return ContainerGetReply(exists=False)
    context.join(container_id)
    return ContainerGetReply(exists=True, container_id=container_id)


class ContainerListReply(Reply):
    """`nextCursor` is absent on the last page."""

    container_ids: tuple[ContainerId, ...]
    next_cursor: str | None = None


class ContainerList(Request[ContainerListReply]):
    """`cursor` is the `nextCursor` of the previous page."""

    cursor: str | None = None
    limit: Limit = PAGE_MAX

    def refused(self) -> Reply:
        return ContainerListReply(container_ids=())


@operation("container.list", needs=USE, command=True)
async def list_ids(context: Context, request: ContainerList) -> ContainerListReply:
    """List the containers that you may use, oldest first, page by page."""
    container_ids, next_cursor = await context.store.page_containers(request.cursor, request.limit)
    return ContainerListReply(container_ids=container_ids, next_cursor=next_cursor)


class ContainerNameView(Record):
    container_id: ContainerId


@operation("container.browse", needs=USE, http=Http("GET", _ALL, id="containers_list_all"))
async def browse(context: Context, request: PageRequest) -> Page[ContainerNameView]:
    """List the containers that you may use, oldest first."""
    container_ids, next_cursor = await context.store.page_containers(request.cursor, request.limit)
    return Page(items=[ContainerNameView(container_id=name) for name in container_ids], next_cursor=next_cursor)


class ContainerView(Record):
    """`owned` counts the data that would be deleted with it."""

    container_id: ContainerId
    created_at: int
    updated_at: int
    owned: OwnedRecord


class ContainerShow(Request[ContainerView]):
    container_id: str


@operation(
    "container.show", needs=USE, http=Http("GET", _ONE, id="containers_get"), raises=(ContainerForbidden, ContainerNotFound)
)
async def show(context: Context, request: ContainerShow) -> ContainerView:
    """Show a container, and count its data."""
    container_id = context.workspace.container_id(request.container_id)
    container = await context.containers.get(container_id)
    return ContainerView(
        container_id=container_id,
        created_at=container.created_at,
        updated_at=container.updated_at,
        owned=await context.containers.weigh(container_id),
    )


class ContainerDeleteReply(Reply):
    """`owned` counts the data that would be deleted, for a dry run."""

    container_id: ContainerId
    deleted: bool
    owned: OwnedRecord | None = None


class ContainerDelete(Request[ContainerDeleteReply]):
    """With `dryRun` nothing is deleted."""

    container_id: str
    dry_run: bool = False

    def refused(self) -> Reply:
        return ContainerDeleteReply(container_id=ContainerId(self.container_id), deleted=False)


@operation(
    "container.delete",
    needs=USE,
    command=True,
    audit="container.delete",
    http=Http("DELETE", _ONE, result="owned", statuses=(200, 204)),
    raises=(AccessDenied, ContainerForbidden, ContainerNotFound),
)
async def delete(context: Context, request: ContainerDelete) -> ContainerDeleteReply:
    """Delete a container.

    Everything in it is deleted, which cannot be undone; its turns are stopped first. Emits `container_deleted`. A user may
    delete a container that no other user is bound to. With `dryRun` nothing is deleted, and the reply counts the data that
    would be. Until the contents are erased, creating a container of the same id fails with `container_erasing`.
    """
    context.target = request.container_id
    container_id = context.workspace.container_id(request.container_id)
    if request.dry_run:
        context.is_dry_run = True
        owned = await context.containers.weigh(container_id)
        return ContainerDeleteReply(container_id=container_id, deleted=False, owned=owned)
    await context.containers.delete(container_id)
    return ContainerDeleteReply(container_id=container_id, deleted=True)


async def ensure(context: Context, name: str) -> ContainerId:
    """Returns the container, created if it does not exist; the peer receives its events from now on, including its
    creation."""
    container_id = context.workspace.container_id(name)
    context.join(container_id)
    await context.containers.ensure(container_id)
    return container_id
