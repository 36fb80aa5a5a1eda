"""Versions of resources — `/v1/resources/{id}/versions`, tags, and what depends on what."""

from typing import Annotated

from msgspec import Meta

from agentvm.commands.resource import shown
from agentvm.errors.resource import ResourceNotFound
from agentvm.model.base import Record
from agentvm.model.resource import DEPTH_MAX, ResourceUri, VersionId
from agentvm.operations.http_reply import NO_CONTENT
from agentvm.protocol.records import ResourceRecord
from agentvm.resources.kind import exact_uri
from agentvm.resources.resolver import VersionClosure, Warned, in_order, warnings_of
from agentvm.server.http.resource_views import (
    READ,
    WRITE,
    VersionView,
    author_of,
    selector_of,
    version_shown,
    view_of,
)
from agentvm.server.http.route import Answer, Ask, Given, Nothing, Routes

routes = Routes()

_ONE = "/v1/resources/{resource_id:str}"
_VERSION, _TAG = _ONE + "/versions/{version:str}", _ONE + "/tags/{tag:str}"


class YankGiven(Given):
    yanked: bool


class PointGiven(Given):
    version: str


class DependenciesGiven(Given):
    """`version` is a version, range, tag or digest; `depth` 1 shows what it names itself."""

    version: str | None = None
    depth: Annotated[int, Meta(ge=1, le=DEPTH_MAX)] = DEPTH_MAX


class VersionsView(Record):
    """Highest first. `pointers` are tags and the versions they point to; `latest` is among them, if there is one."""

    items: list[VersionView]
    pointers: dict[str, str]


class DependencyView(Record):
    """`uri` as it was written; `depth` is how far down it is first named."""

    uri: str
    resolved: str
    digest: str
    depth: int


class DependenciesView(Record):
    """Each before what depends on it. `duplicates` are resources of which more than one version is used."""

    uri: str
    items: list[DependencyView]
    duplicates: list[Warned]


class DependentView(Record):
    resource: ResourceRecord
    version: str


class DependentsView(Record):
    """Who is locked to a version of it. Of other tenants only how many; images are named to those who reach all containers."""

    resources: list[DependentView]
    images: list[str]
    image_count: int
    foreign: int


@routes.add("GET", _ONE + "/versions", needs=READ, takes=Nothing, raises=(ResourceNotFound,))
async def list_versions(ask: Ask[Nothing]) -> VersionsView:
    """List the versions of a resource, also those that were withdrawn."""
    resource = await ask.vm.resources.registry.find(ask.tenant_id, ask.path["resource_id"])
    history = await view_of(ask).history(resource.resource_id)
    pointers = dict(history.tags)
    if resource.latest is not None:
        pointers["latest"] = resource.latest
    items = [version_shown(version, resource, ask.tenant_id) for version in reversed(history.versions)]
    return VersionsView(items=items, pointers=pointers)


@routes.add("DELETE", _VERSION, needs=WRITE, takes=Nothing, action="resource.yank", raises=(ResourceNotFound,))
async def yank(ask: Ask[Nothing]) -> Answer[None]:
    """Withdraw a version.

    Nobody is given it any more who does not name it exactly; what is locked to it goes on.
    """
    resource = await ask.vm.resources.registry.find(ask.tenant_id, ask.path["resource_id"])
    await ask.vm.resources.registry.yank(author_of(ask), resource.resource_id, ask.path["version"], yanked=True)
    return NO_CONTENT


@routes.add("PUT", _VERSION, needs=WRITE, takes=YankGiven, action="resource.yank", raises=(ResourceNotFound,))
async def set_yanked(ask: Ask[YankGiven]) -> VersionView:
    """Withdraw a version, or bring it back."""
    registry = ask.vm.resources.registry
    resource = await registry.find(ask.tenant_id, ask.path["resource_id"])
    version = await registry.yank(author_of(ask), resource.resource_id, ask.path["version"], yanked=ask.given.yanked)
    return version_shown(version, resource, ask.tenant_id)


@routes.add("PUT", _TAG, needs=WRITE, takes=PointGiven, action="resource.tag", raises=(ResourceNotFound,))
async def point(ask: Ask[PointGiven]) -> Answer[None]:
    """Let a tag point to a version."""
    registry = ask.vm.resources.registry
    resource = await registry.find(ask.tenant_id, ask.path["resource_id"])
    await registry.point(author_of(ask), resource.resource_id, ask.path["tag"], ask.given.version)
    return NO_CONTENT


@routes.add("DELETE", _TAG, needs=WRITE, takes=Nothing, action="resource.untag", raises=(ResourceNotFound,))
async def unpoint(ask: Ask[Nothing]) -> Answer[None]:
    """Remove a tag."""
    registry = ask.vm.resources.registry
    resource = await registry.find(ask.tenant_id, ask.path["resource_id"])
    await registry.point(author_of(ask), resource.resource_id, ask.path["tag"], None)
    return NO_CONTENT


@routes.add("GET", _ONE + "/dependencies", needs=READ, takes=DependenciesGiven, raises=(ResourceNotFound,))
async def dependencies(ask: Ask[DependenciesGiven]) -> DependenciesView:
    """List what a version is locked to."""
    resource = await ask.vm.resources.registry.find(ask.tenant_id, ask.path["resource_id"])
    wanted = ask.given.version
    uri = ResourceUri(
        type=resource.type,
        owner=resource.owner,
        name=resource.name,
        selector=None if wanted is None else selector_of(resource, wanted),
    )
    found = await ask.vm.resources.resolver.find(ask.tenant_id, uri)
    depths = _depths(found)
    items = [
        DependencyView(
            uri=written,
            resolved=exact_uri(node, ask.tenant_id),
            digest=node.version.digest,
            depth=depths[node.version.version_id],
        )
        for node, written in in_order(found)
        if depths[node.version.version_id] <= ask.given.depth
    ]
    duplicates = [warned for warned in warnings_of(found, ask.tenant_id) if warned.code == "duplicate"]
    return DependenciesView(uri=exact_uri(found.root, ask.tenant_id), items=items, duplicates=duplicates)


@routes.add("GET", _ONE + "/dependents", needs=READ, takes=Nothing, raises=(ResourceNotFound,))
async def dependents(ask: Ask[Nothing]) -> DependentsView:
    """List who depends on a resource."""
    resource = await ask.vm.resources.registry.find(ask.tenant_id, ask.path["resource_id"])
    found = await view_of(ask).dependents(resource.resource_id)
    named = ask.principal.containers is None
    return DependentsView(
        resources=[
            DependentView(resource=shown(dependent, ask.tenant_id), version=version) for dependent, version in found.resources
        ],
        images=list(found.images) if named else [],
        image_count=len(found.images),
        foreign=found.foreign,
    )


def _depths(found: VersionClosure) -> dict[VersionId, int]:
    """How far below the root each version is first named."""
    depths: dict[VersionId, int] = {found.root.version.version_id: 0}
    level = [found.root]
    while level:
        named = [(node, link.target) for node in level for link in node.links if link.target not in depths]
        level = []
        for node, target in named:
            if target not in depths:
                depths[target] = depths[node.version.version_id] + 1
                level.append(found.nodes[target])
    return depths
