"""Containers — `/v1/containers`: which there are, what is in them, and how they are deleted for good."""

from typing import Any

from agentvm.errors import AccessDenied, ContainerForbidden, ContainerNotFound
from agentvm.model.base import Record
from agentvm.model.ids import ContainerId, check_container_id
from agentvm.operations.http_reply import NO_CONTENT
from agentvm.protocol.records import OwnedRecord
from agentvm.server.http.route import Answer, Ask, Given, Nothing, Page, PageGiven, Routes, page_of
from agentvm.sessions.containers import Containers
from agentvm.tenants.scoped_store import ScopedStore

routes = Routes()

USE = ("agent:use",)
_ALL, _ONE = "/v1/containers", "/v1/containers/{container_id:str}"


class DryRun(Given):
    """With `dryRun` nothing is deleted: what would go is counted."""

    dry_run: bool = False


class ContainerNameView(Record):
    container_id: ContainerId


class ContainerView(Record):
    """`owned` is what would go with it."""

    container_id: ContainerId
    created_at: int
    updated_at: int
    owned: OwnedRecord


@routes.add("GET", _ALL, needs=USE, takes=PageGiven)
async def list_all(ask: Ask[PageGiven]) -> Page[ContainerNameView]:
    """List the containers that you may reach.

    The oldest first.
    """
    found = await _reach(ask).list_containers()
    return page_of([ContainerNameView(container_id=name) for name in found], ask.given, found)


@routes.add("GET", _ONE, needs=USE, takes=Nothing, raises=(ContainerForbidden, ContainerNotFound))
async def get(ask: Ask[Nothing]) -> ContainerView:
    """Show a container, and count what is in it."""
    containers, container_id = _containers(ask), _named(ask)
    found = await containers.get(container_id)
    return ContainerView(
        container_id=found.container_id,
        created_at=found.created_at,
        updated_at=found.updated_at,
        owned=await containers.weigh(container_id),
    )


@routes.add(
    "DELETE",
    _ONE,
    needs=USE,
    takes=DryRun,
    action="container.delete",
    statuses=(200, 204),
    raises=(AccessDenied, ContainerForbidden, ContainerNotFound),
)
async def delete(ask: Ask[DryRun]) -> Answer[None] | Answer[OwnedRecord]:
    """Delete a container.

    With all that is in it, for good. A user may delete those that no other user is bound to. With `dryRun` it only counts what
    would go.
    """
    containers, container_id = _containers(ask), _named(ask)
    if ask.given.dry_run:
        ask.looked_only = True
        return Answer(content=await containers.weigh(container_id))
    await containers.delete(container_id)
    return NO_CONTENT


def _containers(ask: Ask[Any]) -> Containers:
    return Containers(ask.workspace)


def _reach(ask: Ask[Any]) -> ScopedStore:
    return ScopedStore(ask.tenancy.store.tenant(ask.tenant_id), ask.principal)


def _named(ask: Ask[Any]) -> ContainerId:
    return check_container_id(ask.path["container_id"])
