"""Bundles of resources — export, import, binary parts; and the search of knowledge, which is not available yet."""

from typing import Literal

from agentvm.errors import InvalidInput, NotAvailable
from agentvm.errors.resource import ResourceInvalid, ResourceNotFound
from agentvm.model.base import Record
from agentvm.model.resource import is_digest
from agentvm.operations.http_reply import HttpReply
from agentvm.operations.operation import Context, Http, OperationGroup
from agentvm.operations.resource_views import READ, RESOURCE, WRITE
from agentvm.protocol.requests import Request
from agentvm.resources.archive import BUNDLE_MAX_BYTES
from agentvm.resources.bundle import ImportedEntry, export_bundle
from agentvm.resources.kind import versioned_uri

operation = OperationGroup("resources")


class ResourceExport(Request[None]):
    """`version` is a version, range, tag or digest; `deps` is whether the versions that it is locked to are included."""

    resource_id: str
    version: str | None = None
    deps: bool = True


@operation(
    "resource.export",
    needs=READ,
    http=Http("GET", f"{RESOURCE}/export", media_type="application/gzip"),
    raises=(ResourceNotFound,),
)
async def export(context: Context, request: ResourceExport) -> HttpReply[bytes]:
    """Export a version as an archive.

    The same version always gives the same bytes.
    """
    resource = await context.resources.find(request.resource_id)
    uri = versioned_uri(resource, request.version)
    body = await export_bundle(context.vm.resources, context.tenant_id, uri, deps=request.deps)
    name = f"{resource.type}-{resource.name}.tar.gz"
    return HttpReply(
        content=body, media_type="application/gzip", headers={"Content-Disposition": f'attachment; filename="{name}"'}
    )


class ImportView(Record):
    """The result of each entry, dependencies first."""

    items: list[ImportedEntry]
    dry_run: bool = False


class ResourceImport(Request[ImportView]):
    """`onConflict` is about a version that exists with other content: skip it, refuse the archive, or give it a new number."""

    on_conflict: Literal["skip", "fail", "newVersion"] = "fail"
    dry_run: bool = False


@operation(
    "resource.import",
    needs=WRITE,
    http=Http(
        "POST",
        "/v1/resources/import",
        id="resources_import_",
        query=("on_conflict", "dry_run"),
        body="bytes",
        max_body_bytes=BUNDLE_MAX_BYTES,
    ),
    audit="resource.import",
    raises=(ResourceInvalid, ResourceNotFound),
)
async def import_archive(context: Context, request: ResourceImport) -> ImportView:
    """Import an exported archive.

    All of it, or nothing. Everything becomes yours; importing it again changes nothing.
    """
    context.is_dry_run = request.dry_run
    items = await context.resources.load(context.http.body, request.on_conflict, dry_run=request.dry_run)
    return ImportView(items=items, dry_run=request.dry_run)


class ResourceBlob(Request[None]):
    resource_id: str
    digest: str
    version: str | None = None


@operation("resource.blob", needs=READ, http=Http("GET", f"{RESOURCE}/blobs/{{digest}}"), raises=(ResourceNotFound,))
async def blob(context: Context, request: ResourceBlob) -> HttpReply[bytes]:
    """Download a binary part of a version."""
    resource = await context.resources.find(request.resource_id)
    if not is_digest(request.digest):
        raise InvalidInput("A blob is named by its digest: sha256:<64 hexadecimal digits>")
    closure = await context.resources.closure(resource, request.version)
    body = await context.resources.store.blob(closure.root.version.version_id, request.digest)
    if body is None:
        raise ResourceNotFound(request.digest)
    # Never shown by a browser: the publisher decides what it contains.
    headers = {"ETag": f'"{request.digest}"', "Content-Disposition": "attachment", "X-Content-Type-Options": "nosniff"}
    return HttpReply(content=body, media_type="application/octet-stream", headers=headers)


class KnowledgeQuery(Request[None]):
    resource_id: str
    q: str | None = None
    k: int | None = None


@operation(
    "resource.query",
    needs=READ,
    http=Http("POST", f"{RESOURCE}/query", id="resources_query_knowledge", hidden=True),
    audit="resource.query",
)
async def query_knowledge(context: Context, request: KnowledgeQuery) -> None:
    """Search a knowledge base."""
    await context.resources.find(request.resource_id)
    raise NotAvailable("Knowledge cannot be searched by this release; it can be registered and resolved")
