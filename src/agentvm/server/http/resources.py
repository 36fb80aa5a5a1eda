"""Resources — `/v1/resources`: register, discover, read, change and delete."""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from agentvm.commands.resource import add, add_version, check_numbering, shown, uri_of, warnings_about
from agentvm.errors import DefinitionConflict, InvalidInput, PermissionDenied, PreconditionFailed
from agentvm.errors.resource import (
    ResourceCycle,
    ResourceExists,
    ResourceInUse,
    ResourceInvalid,
    ResourceNotFound,
    ResourceVersionExists,
)
from agentvm.model.resource import Resource, Visibility, describe_versions, parse_type, select
from agentvm.model.semver import Bump
from agentvm.operations.http_reply import NO_CONTENT
from agentvm.protocol.commands.resource import RESOURCE_BOUND
from agentvm.resources.kinds import describe_types
from agentvm.resources.registry import NewVersion, VersionChange
from agentvm.server.http.resource_views import (
    ASK_AGAIN,
    CREDENTIAL,
    READ,
    WRITE,
    ContentView,
    RegisteredView,
    ResourcePage,
    TypesView,
    author_of,
    digests_of,
    entity_tag,
    matches,
    registered,
    selector_of,
    version_shown,
    view_of,
)
from agentvm.server.http.route import Answer, Ask, Given, Nothing, Routes
from agentvm.storage.resources import Changes, Published, Search

routes = Routes()

MAX_RESOURCE_BODY, MAX_VALUES = RESOURCE_BOUND.max_bytes, RESOURCE_BOUND.max_values

_ALL, _ONE = "/v1/resources", "/v1/resources/{resource_id:str}"


class RegisterGiven(Given):
    """`type` may be singular. Without a `version` it is 1.0.0; `tag` is a name that shall point to the version."""

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


class ReviseGiven(Given):
    """With `content`, `schema` or `dependencies` it makes a new version; else it changes what is no part of a version.

    What is not given stays; `schema: null` is a version without one.
    """

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


class DiscoverGiven(Given):
    """Every member narrows the search. `cursor` is the `nextCursor` of the page before."""

    type: str | None = None
    q: str | None = None
    tag: str | None = None
    owner: str | None = None
    visibility: Visibility | None = None
    scope: Literal["own", "public", "all"] = "all"
    depends_on: str | None = None
    limit: Annotated[int, Meta(ge=1, le=100)] = 20
    cursor: str | None = None


class GetGiven(Given):
    """`version` is a version, range, tag or digest."""

    version: str | None = None


class DeleteGiven(Given):
    force: bool = False


@routes.add("GET", "/v1/resources/types", needs=READ, takes=Nothing, across=False)
async def types(ask: Ask[Nothing]) -> TypesView:
    """List the types of resources, with the JSON Schema of their content."""
    return TypesView(items=describe_types())


@routes.add(
    "POST", _ALL, needs=WRITE, takes=RegisterGiven, action="resource.register", most_body=MAX_RESOURCE_BODY,
    max_values=MAX_VALUES, statuses=(200, 201),
    raises=(ResourceInvalid, DefinitionConflict, ResourceExists, ResourceVersionExists, ResourceCycle, ResourceNotFound),
)  # fmt: skip
async def register(ask: Ask[RegisterGiven]) -> Answer[RegisteredView]:
    """Register a resource.

    The very same version again is answered with 200, and changes nothing.
    """
    given = ask.given
    draft = NewVersion(
        type=parse_type(given.type),
        name=given.name,
        content=given.content,
        version=given.version,
        schema=given.schema,
        dependencies=given.dependencies,
        description=given.description,
        tags=given.tags,
        visibility=given.visibility,
        pointer=given.tag,
    )
    ask.target = f"{draft.type}/{draft.name}"
    vm = ask.vm
    done = await add(ask.tenancy, vm.resources, vm.definitions, author_of(ask), ask.principal.user_id, draft)
    warnings = warnings_about(draft.type, draft.content, vm.runtime.tools.names(ask.tenant_id))
    return Answer(content=registered(done, ask.tenant_id, warnings), status=201 if done.created else 200)


@routes.add("GET", _ALL, needs=READ, takes=DiscoverGiven, raises=(ResourceNotFound,))
async def discover(ask: Ask[DiscoverGiven]) -> ResourcePage:
    """Search for resources.

    Your own and those that are public; the best first if there is a `q`, else by name.
    """
    given = ask.given
    registry = ask.vm.resources.registry
    target = None if given.depends_on is None else await registry.find(ask.tenant_id, given.depends_on)
    found = await view_of(ask).search(
        Search(
            text=given.q,
            type=None if given.type is None else parse_type(given.type),
            tag=given.tag,
            owner=given.owner,
            visibility=given.visibility,
            scope=given.scope,
            depends_on=None if target is None else target.resource_id,
            after=given.cursor,
            limit=given.limit,
        )
    )
    items = [shown(hit.resource, ask.tenant_id, uses=hit.uses) for hit in found.items]
    return ResourcePage(items=items, total=found.total, next_cursor=found.next)


@routes.add("GET", _ONE, needs=READ, takes=GetGiven, statuses=(200, 304), raises=(ResourceNotFound,))
async def get(ask: Ask[GetGiven]) -> Answer[bytes | ContentView | None]:
    """Show a resource with the content of one version, by default the latest."""
    resource = await ask.vm.resources.registry.find(ask.tenant_id, ask.path["resource_id"])
    history = await view_of(ask).history(resource.resource_id)
    wanted = ask.given.version
    version = select(history.versions, history.tags, None if wanted is None else selector_of(resource, wanted))
    if version is None:
        there = describe_versions(history.versions, history.tags)
        raise ResourceNotFound(f"{uri_of(resource, ask.tenant_id)}@{wanted or 'latest'}", there)
    found = await view_of(ask).closure(version.version_id, limit=1)
    if not found:
        raise ResourceNotFound(uri_of(resource, ask.tenant_id))
    view = ContentView(
        id=resource.resource_id,
        uri=uri_of(resource, ask.tenant_id),
        resource=shown(resource, ask.tenant_id),
        version=version_shown(version, resource, ask.tenant_id),
        content=msgspec.json.decode(found[version.version_id].content),
        schema=version.schema,
        dependencies=version.dependencies,
        pointers=dict(history.tags),
    )
    body = msgspec.json.encode(view)
    tag = entity_tag(version.digest, body)
    headers = {"ETag": f'"{tag}"', "Cache-Control": ASK_AGAIN, "Vary": CREDENTIAL}
    if ask.if_none_match is not None and matches(ask.if_none_match, tag):
        return Answer(content=None, status=304, headers=headers)
    return Answer(content=body, headers=headers)


@routes.add(
    "PUT", _ONE, needs=WRITE, takes=ReviseGiven, action="resource.change", most_body=MAX_RESOURCE_BODY, max_values=MAX_VALUES,
    raises=(ResourceInvalid, ResourceVersionExists, ResourceCycle, ResourceNotFound, PreconditionFailed),
)  # fmt: skip
async def revise(ask: Ask[ReviseGiven]) -> RegisteredView:
    """Publish a new version, or change what is said about the resource.

    With `If-Match: "<digest>"` only if the latest version still has that digest.
    """
    given, registry, author = ask.given, ask.vm.resources.registry, author_of(ask)
    resource = await registry.find(ask.tenant_id, ask.path["resource_id"])
    changes = Changes(
        description=_kept(given.description, ""),
        tags=_kept(given.tags, ()),
        visibility=given.visibility,
        deprecated=_kept(given.deprecated, ""),
    )
    if given.content is None and given.schema is UNSET and given.dependencies is None:
        if given.version is not None or given.bump is not None:
            raise InvalidInput("version and bump are for a new version: send its content, schema or dependencies too")
        if changes == Changes() and given.tag is None:
            raise InvalidInput("There is nothing to change: give content, description, tags, visibility or another member")
        await _check_match(ask, resource)
        if given.tag is not None:
            raise InvalidInput("tag is for a new version; to move a tag: PUT /v1/resources/{id}/tags/{tag}")
        changed = await registry.change(author, resource.resource_id, changes)
        return await _as_it_is(ask, changed)
    check_numbering(given.version, given.bump)
    revision = VersionChange(
        content=given.content,
        schema=given.schema,
        dependencies=given.dependencies,
        version=given.version,
        bump=given.bump or "patch",
        changes=changes,
        pointer=given.tag,
        expected=None if ask.if_match is None else _one_digest(ask.if_match),
    )
    done = await add_version(ask.tenancy, ask.vm.resources, author, ask.principal.user_id, resource.resource_id, revision)
    return registered(
        done, ask.tenant_id, warnings_about(resource.type, given.content, ask.vm.runtime.tools.names(ask.tenant_id))
    )


@routes.add("DELETE", _ONE, needs=WRITE, takes=DeleteGiven, action="resource.delete", raises=(ResourceInUse, ResourceNotFound))
async def delete(ask: Ask[DeleteGiven]) -> Answer[None]:
    """Delete a resource.

    What images or other resources refer to is kept, unless `force` is given by an administrator: then it is out of view, but
    those that are locked to it can go on.
    """
    if ask.given.force and not ask.principal.may("tenants:admin"):
        raise PermissionDenied("tenants:admin")
    registry = ask.vm.resources.registry
    resource = await registry.find(ask.tenant_id, ask.path["resource_id"])
    await registry.delete(author_of(ask), resource.resource_id, force=ask.given.force)
    return NO_CONTENT


async def _as_it_is(ask: Ask[Any], resource: Resource) -> RegisteredView:
    history = await view_of(ask).history(resource.resource_id)
    latest = select(history.versions, history.tags, None) or history.versions[-1]
    return registered(Published(resource, latest, False), ask.tenant_id)


async def _check_match(ask: Ask[Any], resource: Resource) -> None:
    if ask.if_match is None:
        return
    history = await view_of(ask).history(resource.resource_id)
    latest = select(history.versions, history.tags, None)
    if latest is None or not matches(digests_of(ask.if_match), latest.digest):
        raise PreconditionFailed("The resource has changed since you read it; read it again")


def _one_digest(header: str) -> str | None:
    tag = digests_of(header).strip().removeprefix("W/").strip('"')
    if "," in tag:
        raise InvalidInput("If-Match must name one digest here")
    return None if tag == "*" else tag


def _kept(value: Any, empty: Any) -> Any:
    """What was not given stays; what was given as null is emptied."""
    return None if value is UNSET else empty if value is None else value
