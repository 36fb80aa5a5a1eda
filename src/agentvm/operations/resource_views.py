"""Views of resources — how resources and their versions are shown."""

import msgspec

from agentvm.model.base import Record, record_from
from agentvm.model.ids import TenantId
from agentvm.model.resource import Resource, ResourceUri, ResourceVersion
from agentvm.operations.operation import Context
from agentvm.protocol.records import ResourceRecord
from agentvm.protocol.requests import Reply
from agentvm.storage.resources import Published

READ, WRITE = "resources:read", "resources:write"
RESOURCE = "/v1/resources/{resource_id}"


class VersionView(Record):
    version: str
    digest: str
    size: int
    created_at: int
    yanked_at: int | None = None
    created_by: str | None = None
    """The publisher; only shown within the same tenant."""


class ResourceRegisterReply(Reply):
    """`uri` names the exact version. `created` is whether it is new."""

    id: str
    uri: str
    version: str
    digest: str
    record: ResourceRecord
    warnings: tuple[str, ...] = ()
    """Parts of it that this server does not act upon."""
    created: bool = False


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


def resource_record(resource: Resource, viewer: TenantId, *, uses: int | None = None) -> ResourceRecord:
    return record_from(ResourceRecord, resource, id=resource.resource_id, uri=uri_of(resource, viewer), uses=uses)


def uri_of(resource: Resource, viewer: TenantId) -> str:
    """Returns the URI without a version; without an owner for the viewer's own."""
    owner = None if resource.tenant_id == viewer else resource.owner
    return str(ResourceUri(type=resource.type, owner=owner, name=resource.name))


def version_view(version: ResourceVersion, resource: Resource, viewer: TenantId) -> VersionView:
    return record_from(VersionView, version, created_by=version.created_by if resource.tenant_id == viewer else None)


def registered(context: Context, published: Published, warnings: tuple[str, ...] = ()) -> ResourceRegisterReply:
    """Returns the reply about a version."""
    resource, version = published.resource, published.version
    record = resource_record(resource, context.tenant_id)
    return ResourceRegisterReply(
        id=resource.resource_id,
        uri=f"{record.uri}@{version.version}",
        version=version.version,
        digest=version.digest,
        record=record,
        warnings=warnings,
        created=published.created,
    )
