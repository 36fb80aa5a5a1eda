"""Bundles of resources — export, import, binary parts; and the search of knowledge bases."""

from typing import Annotated, Literal

from msgspec import Meta

from agentvm.errors import InvalidInput, NotFound
from agentvm.errors.resource import ResourceInvalid, ResourceNotFound
from agentvm.model.base import Record, record_from
from agentvm.model.knowledge import K_MAX, DocumentProblem, Passage
from agentvm.model.resource import is_digest, selector_of
from agentvm.operations.http_reply import HttpReply
from agentvm.operations.operation import Context, Http, OperationGroup
from agentvm.operations.resource_views import READ, RESOURCE, WRITE
from agentvm.protocol.requests import Request
from agentvm.resources.archive import BUNDLE_MAX_BYTES
from agentvm.resources.bundle import ImportedEntry
from agentvm.resources.kind import exact_uri, versioned_uri

operation = OperationGroup("resources")


class ResourceExport(Request[None]):
    """`version` is a version, range, tag or digest; `deps` is whether the versions that it is locked to are included.

    `documents` is whether the documents of your collections, which knowledge bases name, are included: up to 32 MiB in all.
    """

    resource_id: str
    version: str | None = None
    deps: bool = True
    documents: bool = True


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
    uri = versioned_uri(resource, selector_of(request.resource_id, request.version))
    body = await context.resources.export(uri, deps=request.deps, documents=request.documents)
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
    closure = await context.resources.closure(resource, selector_of(request.resource_id, request.version))
    body = await context.resources.store.blob(closure.root.version.version_id, request.digest)
    if body is None:
        raise ResourceNotFound(request.digest)
    # Never shown by a browser: the publisher decides what it contains.
    headers = {"ETag": f'"{request.digest}"', "Content-Disposition": "attachment", "X-Content-Type-Options": "nosniff"}
    return HttpReply(content=body, media_type="application/octet-stream", headers=headers)


class PassageView(Record):
    """A passage: the characters from `start` to before `end` of a document; `cite` opens it again."""

    cite: str
    uri: str
    document: str
    start: int
    end: int
    text: str
    title: str | None = None
    heading: str | None = None
    page: int | None = None


class FoundView(Record):
    """Passages, the best first, and the documents that could not be read."""

    passages: list[PassageView]
    problems: tuple[DocumentProblem, ...] = ()


class KnowledgeQuery(Request[FoundView]):
    """`k` is how many passages, by default those that the knowledge base states, or 8."""

    resource_id: str
    q: Annotated[str, Meta(min_length=1, max_length=2_000)]
    k: Annotated[int, Meta(ge=1, le=K_MAX)] | None = None
    version: str | None = None


@operation(
    "resource.query",
    needs=READ,
    http=Http("POST", f"{RESOURCE}/query", id="resources_query_knowledge", names=("KnowledgeQueryRequest", None)),
    audit="resource.query",
    raises=(ResourceInvalid, ResourceNotFound),
)
async def query_knowledge(context: Context, request: KnowledgeQuery) -> FoundView:
    """Search the documents of a knowledge base.

    The first search in a version builds its index, which takes a while for many documents.
    """
    resource = await context.resources.find(request.resource_id)
    closure = await context.resources.closure(resource, selector_of(request.resource_id, request.version))
    uri = exact_uri(closure.root, context.tenant_id)
    user_id = context.principal.user_id
    passages = await context.vm.knowledge.search(context.tenant_id, [uri], request.q, request.k, user_id=user_id)
    return FoundView(passages=[_shown(passage) for passage in passages.passages], problems=passages.problems)


class PassageOpen(Request[PassageView]):
    cite: Annotated[str, Meta(max_length=1_000)]


@operation(
    "resource.passage",
    needs=READ,
    http=Http("GET", "/v1/passages"),
    raises=(InvalidInput, NotFound, ResourceNotFound),
)
async def open_passage(context: Context, request: PassageOpen) -> PassageView:
    """Open the range of a document that a citation names: exactly these characters."""
    return _shown(await context.vm.knowledge.open(context.tenant_id, request.cite))


def _shown(passage: Passage) -> PassageView:
    return record_from(PassageView, passage, cite=passage.cite)
