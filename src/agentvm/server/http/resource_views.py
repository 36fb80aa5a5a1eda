"""What the routes of resources show, and what they all need: who writes, and whose view it is."""

import re
from typing import Any

import msgspec

from agentvm.commands.resource import shown, uri_of
from agentvm.errors.resource import ResourceUriInvalid
from agentvm.model.base import Record
from agentvm.model.ids import TenantId
from agentvm.model.resource import Resource, ResourceUri, ResourceVersion, digest_of, parse_uri
from agentvm.protocol.records import ResourceRecord
from agentvm.resources.kinds import TypeDescription
from agentvm.resources.registry import Author
from agentvm.server.http.route import Ask
from agentvm.storage.resources import Published
from agentvm.storage.sql.resources import ResourceStore

READ, WRITE = ("resources:read",), ("resources:write",)
ASK_AGAIN = "private, no-cache"
CREDENTIAL = "Authorization"
"""What the same URL means depends on whose key it is, so no cache may answer the one with what the other was given."""


class VersionView(Record):
    version: str
    digest: str
    size: int
    created_at: int
    yanked_at: int | None = None
    created_by: str | None = None
    """Who published it, for those of the same tenant."""


class RegisteredView(Record):
    id: str
    uri: str
    version: str
    digest: str
    resource: ResourceRecord
    warnings: tuple[str, ...] = ()
    """What of it this server does not act upon."""


class ContentView(Record):
    """A resource with one of its versions, as it was published."""

    id: str
    uri: str
    resource: ResourceRecord
    version: VersionView
    content: object
    schema: dict[str, object] | None = None
    dependencies: dict[str, str] = msgspec.field(default_factory=dict)
    pointers: dict[str, str] = msgspec.field(default_factory=dict)
    """The tags, and the versions they point to."""


class ResourcePage(Record):
    """`total` is how many there are on all pages."""

    items: list[ResourceRecord]
    total: int
    next_cursor: str | None = None


class TypesView(Record):
    items: tuple[TypeDescription, ...]


def author_of(ask: Ask[Any]) -> Author:
    one = ask.principal
    return Author(tenant_id=ask.tenant_id, actor=one.actor, may_publish=one.may("resources:publish"))


def view_of(ask: Ask[Any]) -> ResourceStore:
    return ask.vm.resources.store.resources(ask.tenant_id)


def version_shown(version: ResourceVersion, resource: Resource, viewer: TenantId) -> VersionView:
    return VersionView(
        version=version.version,
        digest=version.digest,
        size=version.size,
        created_at=version.created_at,
        yanked_at=version.yanked_at,
        created_by=version.created_by if resource.tenant_id == viewer else None,
    )


def selector_of(resource: Resource, text: str) -> str:
    """Checked and in its canonical form, as in a URI."""
    if "#" in text:
        raise ResourceUriInvalid(text, "a version, range, tag or digest is wanted here")
    uri = ResourceUri(type=resource.type, name=resource.name, selector=text)
    return parse_uri(str(uri)).selector or text


def matches(header: str, digest: str) -> bool:
    """Whether an `If-Match` or `If-None-Match` names the digest."""
    tags = {tag.strip().removeprefix("W/").strip('"') for tag in header.split(",")}
    return "*" in tags or digest in tags


def entity_tag(digest: str, body: bytes) -> str:
    """Of an answer about a version: begins with its digest, and changes also with what is said about it."""
    return f"{digest}.{digest_of(body).removeprefix('sha256:')[:16]}"


def digests_of(header: str) -> str:
    """An `If-Match` that names digests, or the `ETag`s that begin with them, with the digests alone."""
    return re.sub(r"\.[0-9a-f]{16}(?=\"|,|\s|$)", "", header)


def registered(done: Published, viewer: TenantId, warnings: tuple[str, ...] = ()) -> RegisteredView:
    return RegisteredView(
        id=done.resource.resource_id,
        uri=f"{uri_of(done.resource, viewer)}@{done.version.version}",
        version=done.version.version,
        digest=done.version.digest,
        resource=shown(done.resource, viewer),
        warnings=warnings,
    )
