"""Versions of resources — list, yank, tag, dependencies and dependents."""

from typing import Annotated

from msgspec import Meta

from agentvm.errors.resource import ResourceInvalid, ResourceNotFound
from agentvm.errors.tool import McpConsentRequired
from agentvm.model.base import Record
from agentvm.model.resource import DEPTH_MAX, VersionId, selector_of
from agentvm.model.semver import Bump
from agentvm.operations.operation import Context, Http, OperationGroup
from agentvm.operations.resource_views import READ, RESOURCE, WRITE, VersionView, resource_record, uri_of, version_view
from agentvm.protocol.records import ResourceRecord
from agentvm.protocol.requests import Request
from agentvm.resources.kind import exact_uri
from agentvm.resources.resolver import VersionClosure, Warned, in_order, warnings_of
from agentvm.resources.tool_set import ToolChange

operation = OperationGroup("resources")

_VERSION, _TAG = f"{RESOURCE}/versions/{{version}}", f"{RESOURCE}/tags/{{tag}}"


class VersionsView(Record):
    """Highest first. `pointers` are tags and the versions they point to; `latest` is among them, if there is one."""

    items: list[VersionView]
    pointers: dict[str, str]


class ResourceVersions(Request[VersionsView]):
    resource_id: str


@operation(
    "resource.versions",
    needs=READ,
    http=Http("GET", f"{RESOURCE}/versions", id="resources_list_versions"),
    raises=(ResourceNotFound,),
)
async def list_versions(context: Context, request: ResourceVersions) -> VersionsView:
    """List the versions of a resource, also yanked ones."""
    resource = await context.resources.find(request.resource_id)
    history = await context.resources.store.history(resource.resource_id)
    pointers = dict(history.tags)
    if resource.latest is not None:
        pointers["latest"] = resource.latest
    items = [version_view(version, resource, context.tenant_id) for version in reversed(history.versions)]
    return VersionsView(items=items, pointers=pointers)


class ResourceYank(Request[None]):
    resource_id: str
    version: str


@operation("resource.yank", needs=WRITE, http=Http("DELETE", _VERSION), audit="resource.yank", raises=(ResourceNotFound,))
async def yank(context: Context, request: ResourceYank) -> None:
    """Yank a version.

    From then on only references to its exact number resolve to it; locks keep working.
    """
    resources = context.resources
    resource = await resources.find(request.resource_id)
    await resources.registry.yank(resources.author, resource.resource_id, request.version, yanked=True)


class ResourceSetYanked(Request[VersionView]):
    resource_id: str
    version: str
    yanked: bool


@operation(
    "resource.set_yanked",
    needs=WRITE,
    http=Http("PUT", _VERSION, names=("YankRequest", None)),
    audit="resource.yank",
    raises=(ResourceNotFound,),
)
async def set_yanked(context: Context, request: ResourceSetYanked) -> VersionView:
    """Yank a version, or restore it."""
    resources = context.resources
    resource = await resources.find(request.resource_id)
    version = await resources.registry.yank(resources.author, resource.resource_id, request.version, yanked=request.yanked)
    return version_view(version, resource, context.tenant_id)


class PinView(Record):
    """`uri` names the version that has these tools; it is a new one if `created`."""

    uri: str
    created: bool
    tools: tuple[ToolChange, ...]
    warnings: tuple[str, ...] = ()


class ResourcePin(Request[PinView]):
    """`dryRun` only reports the changes; the new version is the next patch unless `bump` says otherwise."""

    resource_id: str
    bump: Bump = "patch"
    dry_run: bool = False


@operation(
    "resource.pin",
    needs=WRITE,
    http=Http("POST", f"{RESOURCE}/pin", names=("PinRequest", None)),
    audit="resource.pin",
    raises=(ResourceNotFound, ResourceInvalid, McpConsentRequired),
)
async def pin(context: Context, request: ResourcePin) -> PinView:
    """Read the tools of a set from its source again.

    If they have changed a new version is published with them; images that are locked to the old version keep it.
    """
    resource = await context.resources.find(request.resource_id)
    context.target, context.is_dry_run = f"{resource.type}/{resource.name}", request.dry_run
    published, changes, warnings = await context.resources.pin(resource, request.bump, dry_run=request.dry_run)
    version = resource.latest if published is None else published.version.version
    uri = f"{uri_of(resource, context.tenant_id)}@{version}"
    return PinView(uri=uri, created=published is not None, tools=changes, warnings=warnings)


class ResourceTag(Request[None]):
    resource_id: str
    tag: str
    version: str


@operation(
    "resource.tag",
    needs=WRITE,
    http=Http("PUT", _TAG, id="resources_point", names=("PointRequest", None)),
    audit="resource.tag",
    raises=(ResourceNotFound,),
)
async def set_tag(context: Context, request: ResourceTag) -> None:
    """Set a tag of a version."""
    resources = context.resources
    resource = await resources.find(request.resource_id)
    await resources.registry.point(resources.author, resource.resource_id, request.tag, request.version)


class ResourceUntag(Request[None]):
    resource_id: str
    tag: str


@operation(
    "resource.untag",
    needs=WRITE,
    http=Http("DELETE", _TAG, id="resources_unpoint"),
    audit="resource.untag",
    raises=(ResourceNotFound,),
)
async def delete_tag(context: Context, request: ResourceUntag) -> None:
    """Delete a tag."""
    resources = context.resources
    resource = await resources.find(request.resource_id)
    await resources.registry.point(resources.author, resource.resource_id, request.tag, None)


class DependencyView(Record):
    """`uri` as it was written; `depth` is the smallest number of steps to it."""

    uri: str
    resolved: str
    digest: str
    depth: int


class DependenciesView(Record):
    """Each before its dependents. `duplicates` are resources of which more than one version is used."""

    uri: str
    items: list[DependencyView]
    duplicates: list[Warned]


class ResourceDependencies(Request[DependenciesView]):
    """`version` is a version, range, tag or digest; `depth` 1 shows only direct dependencies."""

    resource_id: str
    version: str | None = None
    depth: Annotated[int, Meta(ge=1, le=DEPTH_MAX)] = DEPTH_MAX


@operation("resource.dependencies", needs=READ, http=Http("GET", f"{RESOURCE}/dependencies"), raises=(ResourceNotFound,))
async def dependencies(context: Context, request: ResourceDependencies) -> DependenciesView:
    """List the versions that a version is locked to."""
    resource, tenant_id = await context.resources.find(request.resource_id), context.tenant_id
    closure = await context.resources.closure(resource, selector_of(request.resource_id, request.version))
    depths = _depths(closure)
    items = [
        DependencyView(
            uri=written,
            resolved=exact_uri(node, tenant_id),
            digest=node.version.digest,
            depth=depths[node.version.version_id],
        )
        for node, written in in_order(closure)
        if depths[node.version.version_id] <= request.depth
    ]
    duplicates = [warning for warning in warnings_of(closure, tenant_id) if warning.code == "duplicate"]
    return DependenciesView(uri=exact_uri(closure.root, tenant_id), items=items, duplicates=duplicates)


class DependentView(Record):
    resource: ResourceRecord
    version: str


class DependentsView(Record):
    """The dependents of a resource: images and versions that are locked to one of its versions.

    Other tenants are only counted (`foreign`); images are named if you may use all containers.
    """

    resources: list[DependentView]
    images: list[str]
    image_count: int
    foreign: int
    image_names: list[str]
    """The names of `images`, in their order."""


class ResourceDependents(Request[DependentsView]):
    resource_id: str


@operation("resource.dependents", needs=READ, http=Http("GET", f"{RESOURCE}/dependents"), raises=(ResourceNotFound,))
async def dependents(context: Context, request: ResourceDependents) -> DependentsView:
    """List the dependents of a resource."""
    resource = await context.resources.find(request.resource_id)
    dependents = await context.resources.store.dependents(resource.resource_id)
    names_images = context.principal.containers is None
    return DependentsView(
        resources=[
            DependentView(resource=resource_record(dependent, context.tenant_id), version=version)
            for dependent, version in dependents.resources
        ],
        images=list(dependents.images) if names_images else [],
        image_count=len(dependents.images),
        foreign=dependents.foreign,
        image_names=list(dependents.image_names) if names_images else [],
    )


def _depths(closure: VersionClosure) -> dict[VersionId, int]:
    """The smallest number of steps from the root to each version."""
    depths: dict[VersionId, int] = {closure.root.version.version_id: 0}
    level = [closure.root]
    while level:
        links = [(node, link.target) for node in level for link in node.links if link.target not in depths]
        level = []
        for node, target in links:
            if target not in depths:
                depths[target] = depths[node.version.version_id] + 1
                level.append(closure.nodes[target])
    return depths
