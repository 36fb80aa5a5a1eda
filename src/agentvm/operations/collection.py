"""Collections — documents beyond the size of a version of a resource; knowledge bases name one of their revisions."""

from typing import TYPE_CHECKING, Literal

from agentvm.errors import Conflict, InvalidInput, NotFound, QuotaExceeded, not_found
from agentvm.errors.bounds import InputTooLarge
from agentvm.model.base import Record, record_from
from agentvm.model.collection import (
    COLLECTION_MAX_BYTES,
    DOCUMENT_MAX_BYTES,
    Collection,
    CollectionDocument,
    CollectionId,
    CollectionUsage,
    DocumentName,
    DocumentTitle,
    is_document_name,
)
from agentvm.operations.http_reply import HttpReply
from agentvm.operations.numbers import Amount, Number
from agentvm.operations.operation import Context, Http, OperationGroup
from agentvm.operations.pages import Page, PageRequest, page_of, paged
from agentvm.operations.resource_views import READ, WRITE
from agentvm.protocol.requests import Request

if TYPE_CHECKING:
    from agentvm.storage.sql.collection_indexes import ReadState
    from agentvm.storage.sql.collections import CollectionStore

operation = OperationGroup("collections")

_ALL, _ONE = "/v1/collections", "/v1/collections/{collection_id}"
_DOCUMENTS = f"{_ONE}/documents"
_DOCUMENT = f"{_DOCUMENTS}/{{document:path}}"
_UNKNOWN_TYPES = frozenset({"", "application/octet-stream", "application/x-www-form-urlencoded"})
"""Types that programs send when they know none: the ending of the name decides."""

DocumentState = Literal["waiting", "indexed", "failed", "deleted"]


class CollectionView(Record):
    """`bytes` counts the documents of all revisions, `documents` those of the newest. Those before `oldest` were forgotten."""

    collection_id: str
    revision: int
    oldest: int
    documents: int
    bytes: int
    max_bytes: int
    created_at: int
    updated_at: int


class DocumentView(Record):
    """A document. `passages` of it are searched once its state is `indexed`; `problem` says why one is `failed`."""

    document: str
    title: str | None = None
    media_type: str | None = None
    digest: str | None = None
    size: int
    added_in: int
    added_at: int
    state: DocumentState
    passages: int | None = None
    problem: str | None = None
    revision: int | None = None
    """The newest revision of the collection, in the response of an upload."""


class CollectionCreate(Request[CollectionView]):
    """`name` becomes the id."""

    name: CollectionId


@operation(
    "collection.create",
    needs=WRITE,
    audit="collection.create",
    http=Http("POST", _ALL, status=201, names=("NewCollection", None)),
    raises=(Conflict,),
)
async def create(context: Context, request: CollectionCreate) -> CollectionView:
    """Create an empty collection."""
    context.target = request.name
    await context.workspace.check_storage(len(request.name))
    collection = await _store(context).create(request.name, context.vm.clock())
    return _view(collection, CollectionUsage(0, 0, 0))


@operation("collection.list", needs=READ, http=Http("GET", _ALL))
async def list_all(context: Context, request: PageRequest) -> Page[CollectionView]:
    """List collections by name."""
    store = _store(context)
    collections = await store.list()
    page = page_of(collections, request, (collection.collection_id for collection in collections))
    views = [_view(collection, await store.usage(collection.collection_id)) for collection in page.items]
    return Page(items=views, next_cursor=page.next_cursor)


class CollectionGet(Request[CollectionView]):
    collection_id: str


@operation("collection.get", needs=READ, http=Http("GET", _ONE), raises=(NotFound,))
async def get(context: Context, request: CollectionGet) -> CollectionView:
    """Show a collection."""
    return _view(await _find(context, request.collection_id), await _store(context).usage(request.collection_id))


class CollectionDelete(Request[None]):
    collection_id: str


@operation("collection.delete", needs=WRITE, audit="collection.delete", http=Http("DELETE", _ONE), raises=(NotFound,))
async def delete(context: Context, request: CollectionDelete) -> None:
    """Delete a collection with all revisions.

    Searches in knowledge bases that refer to it then find nothing.
    """
    context.target = request.collection_id
    usage = await _store(context).usage(request.collection_id)
    if not await _store(context).delete(request.collection_id, context.vm.clock()):
        raise _missing(request.collection_id)
    await context.workspace.free_storage(usage.bytes)


class CollectionForget(Request[CollectionView]):
    """Revisions before this one are forgotten."""

    collection_id: str
    before: Number


@operation(
    "collection.forget",
    needs=WRITE,
    audit="collection.forget",
    http=Http("POST", f"{_ONE}/forget", names=("ForgottenRevisions", None)),
    raises=(NotFound,),
)
async def forget(context: Context, request: CollectionForget) -> CollectionView:
    """Delete older revisions, with the documents that only they contain.

    Knowledge bases that refer to one of them can no longer be searched.
    """
    context.target = request.collection_id
    freed = await _store(context).forget(request.collection_id, request.before, context.vm.clock())
    if freed is None:
        raise _missing(request.collection_id)
    await context.workspace.free_storage(freed)
    return _view(await _find(context, request.collection_id), await _store(context).usage(request.collection_id))


class DocumentList(PageRequest):
    """The newest revision, unless one is named."""

    collection_id: str
    revision: Amount | None = None


@operation("collection.documents", needs=READ, http=Http("GET", _DOCUMENTS), raises=(NotFound,))
async def list_documents(context: Context, request: DocumentList) -> Page[DocumentView]:
    """List the documents of a collection by name, each with the progress of its indexing."""
    collection = await _find(context, request.collection_id)
    revision = collection.revision if request.revision is None else request.revision
    documents = await _store(context).documents(
        request.collection_id, revision, after=request.cursor or "", limit=request.limit + 1
    )
    states = await context.vm.knowledge.indexer.states(context.tenant_id, request.collection_id, revision)
    views = [_document_view(document, states.get(document.document)) for document in documents]
    return paged(views, request.limit, lambda index: views[index].document)


def _check_size(context: Context, size: int) -> None:
    if size > DOCUMENT_MAX_BYTES:
        raise InputTooLarge(f"A document has at most {DOCUMENT_MAX_BYTES:,} bytes")


class DocumentPut(Request[DocumentView]):
    collection_id: str
    document: DocumentName
    title: DocumentTitle | None = None


@operation(
    "collection.put_document",
    needs=WRITE,
    audit="collection.change",
    http=Http(
        "PUT",
        _DOCUMENT,
        query=("title",),
        body="file",
        max_body_bytes=DOCUMENT_MAX_BYTES,
        guard=_check_size,
        statuses=(200, 201),
    ),
    raises=(NotFound, InputTooLarge, QuotaExceeded),
)
async def put_document(context: Context, request: DocumentPut) -> HttpReply[DocumentView]:
    """Add a document to a collection, or replace it: the body is its bytes.

    Creates a revision (201), unless the bytes are unchanged (200). The document is indexed in the background.
    """
    context.target = f"{request.collection_id}/{request.document}"
    if not is_document_name(request.document):
        raise InvalidInput("The name of a document cannot be used: no spaces, no #, and no part that is empty, `.` or `..`")
    if request.title is not None and not request.title.isprintable():
        raise InvalidInput("title must have printable characters only")
    file = context.http.file
    if file is None:
        raise InvalidInput("The request has no body")
    size, is_new = file.seek(0, 2), False
    await context.workspace.check_storage(size)
    try:
        document, is_new = await _store(context).put(
            request.collection_id, file, request.document, request.title, _media_type(context), context.vm.clock()
        )
    finally:
        if not is_new:
            await context.workspace.free_storage(size)
    indexer = context.vm.knowledge.indexer
    await indexer.refresh(context.tenant_id, request.collection_id)
    collection = await _find(context, request.collection_id)
    states = await indexer.states(context.tenant_id, request.collection_id, collection.revision)
    view = _document_view(document, None if is_new else states.get(document.document), collection.revision)
    return HttpReply(content=view, status=201 if is_new else 200)


class DocumentDelete(Request[None]):
    collection_id: str
    document: DocumentName


@operation(
    "collection.delete_document",
    needs=WRITE,
    audit="collection.change",
    http=Http("DELETE", _DOCUMENT),
    raises=(NotFound,),
)
async def delete_document(context: Context, request: DocumentDelete) -> None:
    """Delete a document from every revision of a collection.

    Searches in older revisions report that it was deleted; its text, passages and bytes are deleted.
    """
    context.target = f"{request.collection_id}/{request.document}"
    freed = await _store(context).delete_document(request.collection_id, request.document, context.vm.clock())
    if freed is None:
        raise NotFound(f"There is no document {request.document} in a collection {request.collection_id}")
    await context.workspace.free_storage(freed)


def _store(context: Context) -> "CollectionStore":
    return context.tenancy.store.collections(context.tenant_id)


async def _find(context: Context, collection_id: str) -> Collection:
    collection = await _store(context).get(collection_id)
    if collection is None:
        raise _missing(collection_id)
    return collection


def _missing(collection_id: str) -> NotFound:
    return not_found("Collection", collection_id)


def _media_type(context: Context) -> str | None:
    kind = context.http.content_type.partition(";")[0].strip().lower()
    return None if kind in _UNKNOWN_TYPES else kind[:100]


def _view(collection: Collection, usage: CollectionUsage) -> CollectionView:
    return record_from(CollectionView, collection, documents=usage.documents, bytes=usage.bytes, max_bytes=COLLECTION_MAX_BYTES)


def _document_view(document: CollectionDocument, read: "ReadState | None", revision: int | None = None) -> DocumentView:
    state: DocumentState = "waiting"
    if document.deleted_at is not None:
        state = "deleted"
    elif read is not None and read.read_at is not None:
        state = "indexed" if read.problem is None else "failed"
    done = state in ("indexed", "failed") and read is not None
    return record_from(
        DocumentView,
        document,
        state=state,
        passages=read.chunks if read is not None and done else None,
        problem=read.problem if read is not None and done else None,
        revision=revision,
    )
