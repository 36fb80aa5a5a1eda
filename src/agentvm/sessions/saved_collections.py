"""Saved collections — documents of the collections that knowledge names: into files of images and archives, and out of them."""

import io
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

import anyio
import msgspec

from agentvm.errors import Conflict, InvalidInput, NotFound
from agentvm.errors.resource import ResourceTooLarge
from agentvm.model.base import record_from
from agentvm.model.collection import CollectionDocument, parse_reference
from agentvm.resources.archive import FILES_MAX, UNPACKED_MAX_BYTES, FileCollection, FileDocument
from agentvm.sessions.workspace import Workspace
from agentvm.storage.resources import Node
from agentvm.storage.sql.collections import CollectionStore

PAGE_MAX = 500


class _Content(msgspec.Struct):
    collection: str | None = None


@dataclass(frozen=True, slots=True)
class SavedCollections:
    """The collections of the workspace's tenant, for files."""

    workspace: Workspace

    async def save(self, nodes: Iterable[Node], *, is_image: bool = False) -> tuple[list[FileCollection], dict[str, bytes]]:
        """Returns the collections that knowledge bases name, and the bytes of their documents by digest.

        Only a tenant saves its own collections. An image must answer the same elsewhere, so one with another's is refused; an
        archive has no documents of that.
        """
        saved: dict[str, FileCollection] = {}
        bodies: dict[str, bytes] = {}
        for node in nodes:
            if node.resource.type != "knowledge":
                continue
            reference = msgspec.json.decode(node.content, type=_Content).collection
            if reference is None or reference in saved:
                continue
            if node.resource.tenant_id != self.workspace.tenant_id:
                if not is_image:
                    continue
                raise InvalidInput(
                    f"The image searches the collection {reference} of another tenant; only that tenant can save it"
                )
            collection_id = parse_reference(reference)[0]
            if collection_id in {parse_reference(other)[0] for other in saved}:
                raise InvalidInput(
                    f"Two revisions of the collection {collection_id} are searched, and a file holds one: let the "
                    "knowledge bases name the same revision, or export without documents"
                )
            saved[reference] = await self._save(reference, bodies)
        return [saved[reference] for reference in sorted(saved)], bodies

    async def _save(self, reference: str, bodies: dict[str, bytes]) -> FileCollection:
        collection_id, revision = parse_reference(reference)
        store = self._store
        collection = await store.get(collection_id)
        if collection is None or not collection.oldest <= revision <= collection.revision:
            raise NotFound(f"The collection {reference} no longer exists; export without documents")
        documents = [document for document in await _documents(store, collection_id, revision) if document.deleted_at is None]
        size = sum(document.size for document in documents) + sum(map(len, bodies.values()))
        count = len(documents) + len(bodies)
        if size > UNPACKED_MAX_BYTES or count > FILES_MAX:
            raise ResourceTooLarge(
                f"With the collection {reference} there are {count:,} documents of {size:,} bytes, and a file holds "
                f"{FILES_MAX:,} and {UNPACKED_MAX_BYTES:,}; search a smaller collection, or export without documents and add "
                "them on the other server with avm knowledge add"
            )
        for document in documents:
            body = await store.read_named(collection_id, revision, document.document)
            if body is None or document.digest is None:
                raise Conflict(f"The document {document.document} of {reference} was deleted in the meantime; try again")
            bodies[document.digest] = body
        return FileCollection(
            reference=reference, documents=tuple(record_from(FileDocument, document) for document in documents)
        )

    async def check(self, collections: Sequence[FileCollection]) -> list[FileCollection]:
        """Returns those that are not here yet; `Conflict` for one of the same name with other documents."""
        absent: list[FileCollection] = []
        for collection in collections:
            collection_id, revision = parse_reference(collection.reference)
            if len(collection.documents) > revision or len({document.document for document in collection.documents}) < len(
                collection.documents
            ):
                raise InvalidInput(f"The file was altered: {collection.reference} cannot have these documents")
            existing = await self._store.get(collection_id)
            if existing is None:
                absent.append(collection)
                continue
            here = [
                document for document in await _documents(self._store, collection_id, revision) if document.deleted_at is None
            ]
            if not existing.oldest <= revision <= existing.revision or _contents(here) != _contents(collection.documents):
                raise Conflict(
                    f"There is a collection {collection_id} here with other documents than {collection.reference} of the file. "
                    "Load the file into another tenant, or delete that collection"
                )
        return absent

    @asynccontextmanager
    async def adding(self, collections: Sequence[FileCollection], bodies: Mapping[str, bytes]) -> AsyncIterator[None]:
        """Creates collections that are not here, each as the one revision that is named; none of them if the block fails."""
        added: list[str] = []
        is_done = False
        try:
            for collection in collections:
                collection_id, revision = parse_reference(collection.reference)
                await self._store.create(collection_id, self.workspace.clock())
                added.append(collection_id)
                for document in collection.documents:
                    await self._put(collection_id, document, bodies[document.digest])
                if not await self._store.settle(collection_id, revision):
                    raise Conflict(f"The collection {collection_id} was changed in the meantime; try again")
            yield
            is_done = True
        finally:
            if not is_done:
                with anyio.CancelScope(shield=True):
                    for collection_id in added:
                        await self._remove(collection_id)

    async def _put(self, collection_id: str, document: FileDocument, body: bytes) -> None:
        await self.workspace.check_storage(len(body))
        about = (document.document, document.title, document.media_type)
        is_new = False
        try:
            _, is_new = await self._store.put(collection_id, io.BytesIO(body), *about, self.workspace.clock())
        finally:
            if not is_new:
                await self.workspace.free_storage(len(body))

    async def _remove(self, collection_id: str) -> None:
        used = (await self._store.usage(collection_id)).bytes
        await self._store.delete(collection_id, self.workspace.clock())
        await self.workspace.free_storage(used)

    @property
    def _store(self) -> CollectionStore:
        return self.workspace.tenancy.store.collections(self.workspace.tenant_id)


async def _documents(store: CollectionStore, collection_id: str, revision: int) -> list[CollectionDocument]:
    documents: list[CollectionDocument] = []
    while page := await store.documents(
        collection_id, revision, after=documents[-1].document if documents else "", limit=PAGE_MAX
    ):
        documents += page
    return documents


def _contents(documents: Iterable[CollectionDocument | FileDocument]) -> set[tuple[str, str | None, str | None, str | None]]:
    return {(document.document, document.digest, document.title, document.media_type) for document in documents}
