"""Bundles — resources as archives and parts: export, import, binary parts; and what cannot be used here yet."""

from typing import Literal

from agentvm.errors import InvalidInput, NotAvailable
from agentvm.errors.resource import ResourceInvalid, ResourceNotFound
from agentvm.model.base import Record
from agentvm.model.resource import ResourceUri, is_digest
from agentvm.resources.archive import BUNDLE_MAX_BYTES
from agentvm.resources.bundle import ImportedEntry, export_bundle, import_bundle
from agentvm.server.http.resource_views import READ, WRITE, author_of, selector_of, view_of
from agentvm.server.http.route import Answer, Ask, Given, Nothing, Routes

routes = Routes()

_ONE = "/v1/resources/{resource_id:str}"


class ExportGiven(Given):
    """`version` is a version, range, tag or digest; `deps` is whether what it is locked to comes along."""

    version: str | None = None
    deps: bool = True


class ImportGiven(Given):
    """What to do with a version that is there with other content: leave it, refuse the archive, or number ours anew."""

    on_conflict: Literal["skip", "fail", "newVersion"] = "fail"
    dry_run: bool = False


class BlobGiven(Given):
    version: str | None = None


class UseGiven(Given):
    args: dict[str, object] | None = None
    sandbox: str | None = None
    q: str | None = None
    k: int | None = None


class ImportView(Record):
    """What became of each entry, what it depends on first."""

    items: list[ImportedEntry]
    dry_run: bool = False


@routes.add("GET", _ONE + "/export", needs=READ, takes=ExportGiven, media_type="application/gzip", raises=(ResourceNotFound,))
async def export(ask: Ask[ExportGiven]) -> Answer[bytes]:
    """Export a version as an archive.

    The same version gives the same bytes, whenever it is exported.
    """
    resource = await ask.vm.resources.registry.find(ask.tenant_id, ask.path["resource_id"])
    wanted = ask.given.version
    uri = ResourceUri(
        type=resource.type,
        owner=resource.owner,
        name=resource.name,
        selector=None if wanted is None else selector_of(resource, wanted),
    )
    body = await export_bundle(ask.vm.resources, ask.tenant_id, uri, deps=ask.given.deps)
    name = f"{resource.type}-{resource.name}.tar.gz"
    return Answer(
        content=body, media_type="application/gzip", headers={"Content-Disposition": f'attachment; filename="{name}"'}
    )


@routes.add(
    "POST", "/v1/resources/import", needs=WRITE, takes=Nothing, query=ImportGiven, body="bytes", most_body=BUNDLE_MAX_BYTES,
    action="resource.import", raises=(ResourceInvalid, ResourceNotFound),
)  # fmt: skip
async def import_(ask: Ask[Nothing]) -> ImportView:
    """Import an archive that was exported.

    All of it, or nothing. Everything becomes yours; importing it again changes nothing.
    """
    query: ImportGiven = ask.query
    centre, author = ask.vm.resources, author_of(ask)
    planned = await import_bundle(centre, author, ask.body, on_conflict=query.on_conflict, dry_run=True)
    if query.dry_run:
        return ImportView(items=planned, dry_run=True)
    added = len({(entry.type, entry.name) for entry in planned if entry.is_new_resource})
    async with ask.tenancy.quotas.adding(ask.tenant_id, ask.principal.user_id, "resources", view_of(ask).count, added):
        await ask.tenancy.quotas.check(ask.tenant_id, ask.principal.user_id, "storage_bytes", ask.accounts.quotas.storage_bytes)
        done = await import_bundle(centre, author, ask.body, on_conflict=query.on_conflict, dry_run=False)
    return ImportView(items=done)


@routes.add("GET", _ONE + "/blobs/{digest:str}", needs=READ, takes=BlobGiven, raises=(ResourceNotFound,))
async def blob(ask: Ask[BlobGiven]) -> Answer[bytes]:
    """Read a binary part of a version."""
    resource = await ask.vm.resources.registry.find(ask.tenant_id, ask.path["resource_id"])
    digest, wanted = ask.path["digest"], ask.given.version
    if not is_digest(digest):
        raise InvalidInput("A blob is named by its digest: sha256:<64 hexadecimal digits>")
    selector = None if wanted is None else selector_of(resource, wanted)
    uri = ResourceUri(type=resource.type, owner=resource.owner, name=resource.name, selector=selector)
    found = await ask.vm.resources.resolver.find(ask.tenant_id, uri)
    body = await view_of(ask).blob(found.root.version.version_id, digest)
    if body is None:
        raise ResourceNotFound(digest)
    # Never shown by a browser: whoever published it decides what is in it.
    headers = {"ETag": f'"{digest}"', "Content-Disposition": "attachment", "X-Content-Type-Options": "nosniff"}
    return Answer(content=body, media_type="application/octet-stream", headers=headers)


@routes.add("POST", _ONE + "/invoke", needs=("tools:invoke",), takes=UseGiven, action="resource.invoke", hidden=True)
async def invoke(ask: Ask[UseGiven]) -> None:
    """Run a tool."""
    await ask.vm.resources.registry.find(ask.tenant_id, ask.path["resource_id"])
    raise NotAvailable("Tools of the resource centre cannot be run by this release; they can be registered and resolved")


@routes.add("POST", _ONE + "/query", needs=READ, takes=UseGiven, action="resource.query", hidden=True)
async def query_knowledge(ask: Ask[UseGiven]) -> None:
    """Search a knowledge base."""
    await ask.vm.resources.registry.find(ask.tenant_id, ask.path["resource_id"])
    raise NotAvailable("Knowledge cannot be searched by this release; it can be registered and resolved")
