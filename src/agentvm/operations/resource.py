"""Resources — register, publish, search, show, change and delete."""

import re
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from agentvm.errors import DefinitionConflict, InvalidInput, PermissionDenied, PreconditionFailed, shorten
from agentvm.errors.resource import (
    ResourceCycle,
    ResourceExists,
    ResourceInUse,
    ResourceInvalid,
    ResourceNotFound,
    ResourceVersionExists,
)
from agentvm.model.base import Record, record_from
from agentvm.model.resource import Resource, Visibility, describe_versions, digest_of, parse_type, select, selector_of
from agentvm.model.semver import Bump
from agentvm.operations.http_caching import CREDENTIAL, REVALIDATE, matches
from agentvm.operations.http_reply import HttpReply
from agentvm.operations.operation import Context, Empty, Http, OperationGroup
from agentvm.operations.resource_views import (
    READ,
    RESOURCE,
    WRITE,
    ContentView,
    ResourceRegisterReply,
    registered,
    resource_record,
    uri_of,
    version_view,
)
from agentvm.protocol.records import ResourceRecord
from agentvm.protocol.requests import RESOURCE_BOUND, Reply, Request
from agentvm.resources.kind import check_selector
from agentvm.resources.kinds import TypeDescription, describe_types
from agentvm.resources.registry import NewVersion, VersionChange
from agentvm.storage.resources import Changes, Published, Search

operation = OperationGroup("resources")

_ALL = "/v1/resources"
_TAG_SUFFIX = re.compile(r"\.[0-9a-f]{16}(?=\"|,|\s|$)")


class TypesView(Record):
    items: tuple[TypeDescription, ...]


@operation("resource.types", needs=READ, across=False, http=Http("GET", f"{_ALL}/types"))
async def types(context: Context, request: Empty) -> TypesView:
    """List the types of resources, with the JSON Schema of their content."""
    return TypesView(items=describe_types())


class ResourceRegister(Request[ResourceRegisterReply]):
    """`type` may be singular. `version` is 1.0.0 by default; `tag` is a name that shall point to the version."""

    bound = RESOURCE_BOUND
    type: str
    name: str
    content: dict[str, object]
    version: str | None = None
    description: str | None = None
    tags: tuple[str, ...] | None = None
    visibility: Visibility | None = None
    schema: dict[str, object] | None = None
    dependencies: dict[str, str] | None = None
    tag: str | None = None
    dry_run: bool = False
    """Only check it: the reply is the same, and nothing is stored."""


@operation(
    "resource.register",
    needs=WRITE,
    command=True,
    http=Http(
        "POST",
        _ALL,
        statuses=(200, 201),
        status_of=lambda reply: 201 if reply.created else 200,
        rename={"record": "resource"},
        names=("RegisterRequest", "RegisteredView"),
        max_body_bytes=RESOURCE_BOUND.max_bytes,
        max_values=RESOURCE_BOUND.max_values,
    ),
    audit="resource.register",
    raises=(ResourceInvalid, DefinitionConflict, ResourceExists, ResourceVersionExists, ResourceCycle, ResourceNotFound),
)
async def register(context: Context, request: ResourceRegister) -> ResourceRegisterReply:
    """Register a resource.

    Registering an identical version again changes nothing (200 over HTTP). With `dryRun` everything is checked and nothing is
    stored. Fails with `resource_exists`, `resource_invalid`, `resource_not_found` for a reference, `resource_cycle`,
    `quota_exceeded`; `details.path` of the error names the invalid field of the content.
    """
    draft = record_from(NewVersion, request, type=parse_type(request.type), pointer=request.tag)
    context.target, context.is_dry_run = f"{draft.type}/{draft.name}", request.dry_run
    return registered(context, *await context.resources.register(draft, dry_run=request.dry_run))


class ResourcePublish(Request[ResourceRegisterReply]):
    """`uri` may also be an id. Absent fields are those of the latest version; without `version` and `bump` it is a patch."""

    bound = RESOURCE_BOUND
    uri: str
    content: dict[str, object] | None = None
    version: str | None = None
    bump: Bump | None = None
    tag: str | None = None
    description: str | None = None
    tags: tuple[str, ...] | None = None
    visibility: Visibility | None = None
    schema: dict[str, object] | None = None
    dependencies: dict[str, str] | None = None
    dry_run: bool = False
    """Only check it: the reply is the same, and nothing is stored."""


@operation("resource.publish", needs=WRITE, command=True, audit="resource.change")
async def publish(context: Context, request: ResourcePublish) -> ResourceRegisterReply:
    """Publish a new version of the tenant's own resource: `version`, or the next patch, minor or major (`bump`).

    Fails with `resource_not_found`, `resource_version_exists`, `access_denied` for others', and as `resource_register` does.
    """
    context.target = request.uri
    if request.content is None and request.schema is None and request.dependencies is None:
        raise InvalidInput("A new version needs its content, schema or dependencies")
    _check_numbering(request.version, request.bump)
    if "@" in request.uri or "#" in request.uri:
        raise InvalidInput(
            f"uri must name the resource alone, unlike {shorten(request.uri)!r}; its new number goes into version"
        )
    resource = await context.resources.find(request.uri)
    context.target = f"{resource.type}/{resource.name}"
    change = record_from(
        VersionChange,
        request,
        schema=UNSET if request.schema is None else request.schema,
        bump=request.bump or "patch",
        changes=Changes(description=request.description, tags=request.tags, visibility=request.visibility),
        pointer=request.tag,
    )
    context.is_dry_run = request.dry_run
    return registered(context, *await context.resources.publish(resource, change, dry_run=request.dry_run))


class ResourceListReply(Reply):
    """`total` counts all pages."""

    records: tuple[ResourceRecord, ...]
    total: int
    next_cursor: str | None = None


class ResourceList(Request[ResourceListReply]):
    """Every field narrows the search. `cursor` is the `nextCursor` of the previous page."""

    type: str | None = None
    q: str | None = None
    tag: str | None = None
    owner: str | None = None
    visibility: Visibility | None = None
    scope: Literal["own", "public", "all"] = "all"
    depends_on: str | None = None
    limit: Annotated[int, Meta(ge=1, le=100)] = 20
    cursor: str | None = None


@operation(
    "resource.list",
    needs=READ,
    command=True,
    http=Http("GET", _ALL, id="resources_discover", items="records", names=(None, "ResourcePage")),
    raises=(ResourceNotFound,),
)
async def search(context: Context, request: ResourceList) -> ResourceListReply:
    """Search for resources.

    Your own and public ones; the best match first if there is a `q`, else by name.
    """
    target = None if request.depends_on is None else await context.resources.find(request.depends_on)
    query = record_from(
        Search,
        request,
        text=request.q,
        type=None if request.type is None else parse_type(request.type),
        depends_on=None if target is None else target.resource_id,
        after=request.cursor,
    )
    page = await context.resources.store.search(query)
    records = tuple(resource_record(hit.resource, context.tenant_id, uses=hit.uses) for hit in page.items)
    return ResourceListReply(records=records, total=page.total, next_cursor=page.next)


class ResourceGet(Request[ContentView]):
    """`version` is a version, range, tag or digest."""

    resource_id: str
    version: str | None = None


@operation("resource.get", needs=READ, http=Http("GET", RESOURCE, statuses=(200, 304)), raises=(ResourceNotFound,))
async def get(context: Context, request: ResourceGet) -> HttpReply[bytes | ContentView | None]:
    """Show a resource with the content of one version, by default the latest."""
    resource, tenant_id = await context.resources.find(request.resource_id), context.tenant_id
    history = await context.resources.store.history(resource.resource_id)
    selector = selector_of(request.resource_id, request.version)
    selector = None if selector is None else check_selector(resource, selector)
    version = select(history.versions, history.tags, selector)
    if version is None:
        versions = describe_versions(history.versions, history.tags)
        raise ResourceNotFound(f"{uri_of(resource, tenant_id)}@{selector or 'latest'}", versions)
    nodes = await context.resources.store.closure(version.version_id, limit=1)
    if not nodes:
        raise ResourceNotFound(uri_of(resource, tenant_id))
    view = ContentView(
        id=resource.resource_id,
        uri=uri_of(resource, tenant_id),
        resource=resource_record(resource, tenant_id),
        version=version_view(version, resource, tenant_id),
        content=msgspec.json.decode(nodes[version.version_id].content),
        schema=version.schema,
        dependencies=version.dependencies,
        pointers=dict(history.tags),
    )
    body = msgspec.json.encode(view)
    # Begins with the digest of the version, and changes also with the description of the resource.
    tag = f"{version.digest}.{digest_of(body).removeprefix('sha256:')[:16]}"
    headers = {"ETag": f'"{tag}"', "Cache-Control": REVALIDATE, "Vary": CREDENTIAL}
    if context.http.if_none_match is not None and matches(context.http.if_none_match, tag):
        return HttpReply(content=None, status=304, headers=headers)
    return HttpReply(content=body, headers=headers)


class ResourceUpdate(Request[ResourceRegisterReply]):
    """With `content`, `schema` or `dependencies` a new version is published; else only the description of the resource changes.

    Absent fields stay as they are; `schema: null` is a version without one.
    """

    resource_id: str
    content: dict[str, object] | None = None
    schema: dict[str, object] | UnsetType | None = UNSET
    dependencies: dict[str, str] | None = None
    version: str | None = None
    bump: Bump | None = None
    tag: str | None = None
    description: str | UnsetType | None = UNSET
    tags: tuple[str, ...] | UnsetType | None = UNSET
    visibility: Visibility | None = None
    deprecated: str | UnsetType | None = UNSET
    dry_run: bool = False
    """Only check a new version: the reply is the same, and nothing is stored."""


@operation(
    "resource.update",
    needs=WRITE,
    http=Http(
        "PUT",
        RESOURCE,
        id="resources_revise",
        rename={"record": "resource"},
        names=("ReviseRequest", "RegisteredView"),
        max_body_bytes=RESOURCE_BOUND.max_bytes,
        max_values=RESOURCE_BOUND.max_values,
    ),
    audit="resource.change",
    raises=(ResourceInvalid, ResourceVersionExists, ResourceCycle, ResourceNotFound, PreconditionFailed),
)
async def update(context: Context, request: ResourceUpdate) -> ResourceRegisterReply:
    """Publish a new version, or change the description of the resource.

    With `If-Match: "<digest>"` only if the latest version still has that digest.
    """
    resource = await context.resources.find(request.resource_id)
    changes = Changes(
        description=_cleared(request.description, ""),
        tags=_cleared(request.tags, ()),
        visibility=request.visibility,
        deprecated=_cleared(request.deprecated, ""),
    )
    if request.content is None and request.schema is UNSET and request.dependencies is None:
        return await _describe(context, request, resource, changes)
    _check_numbering(request.version, request.bump)
    change = record_from(
        VersionChange,
        request,
        bump=request.bump or "patch",
        changes=changes,
        pointer=request.tag,
        expected=None if context.http.if_match is None else _one_digest(context.http.if_match),
    )
    context.is_dry_run = request.dry_run
    return registered(context, *await context.resources.publish(resource, change, dry_run=request.dry_run))


class ResourceDelete(Request[None]):
    resource_id: str
    force: bool = False


@operation(
    "resource.delete",
    needs=WRITE,
    http=Http("DELETE", RESOURCE),
    audit="resource.delete",
    raises=(ResourceInUse, ResourceNotFound),
)
async def delete(context: Context, request: ResourceDelete) -> None:
    """Delete a resource.

    One that images or other resources refer to is kept, unless an administrator gives `force`: then it is hidden, and
    everything that is locked to it keeps working.
    """
    if request.force and not context.principal.may("tenants:admin"):
        raise PermissionDenied("tenants:admin")
    resource = await context.resources.find(request.resource_id)
    await context.resources.registry.delete(context.resources.author, resource.resource_id, force=request.force)


async def _describe(context: Context, request: ResourceUpdate, resource: Resource, changes: Changes) -> ResourceRegisterReply:
    if request.dry_run:
        raise InvalidInput("dryRun is for a new version: send its content, schema or dependencies too")
    if request.version is not None or request.bump is not None:
        raise InvalidInput("version and bump are for a new version: send its content, schema or dependencies too")
    if changes == Changes() and request.tag is None:
        raise InvalidInput("There is nothing to change: give content, description, tags, visibility or another field")
    store, if_match = context.resources.store, context.http.if_match
    if if_match is not None:
        history = await store.history(resource.resource_id)
        latest = select(history.versions, history.tags, None)
        if latest is None or not matches(_TAG_SUFFIX.sub("", if_match), latest.digest):
            raise PreconditionFailed("The resource has changed since you read it; read it again")
    if request.tag is not None:
        raise InvalidInput("tag is for a new version; to move a tag: PUT /v1/resources/{id}/tags/{tag}")
    changed = await context.resources.registry.change(context.resources.author, resource.resource_id, changes)
    history = await store.history(resource.resource_id)
    latest = select(history.versions, history.tags, None) or history.versions[-1]
    return registered(context, Published(changed, latest, False))


def _check_numbering(version: str | None, bump: Bump | None) -> None:
    if version is not None and bump is not None:
        raise InvalidInput("Give version or bump, not both")


def _one_digest(header: str) -> str | None:
    """The digest in an `If-Match`; it may be an `ETag`, which begins with one."""
    tag = _TAG_SUFFIX.sub("", header).strip().removeprefix("W/").strip('"')
    if "," in tag:
        raise InvalidInput("If-Match must name one digest here")
    return None if tag == "*" else tag


def _cleared(value: Any, empty: Any) -> Any:
    """An absent field stays; null clears it."""
    return None if value is UNSET else empty if value is None else value
