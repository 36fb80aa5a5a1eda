"""Image collections — documents of the collections that an image searches: into its file, and out of it elsewhere."""

import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import msgspec

from agentvm.blueprint.image_file import FileCollection, FileDocument
from agentvm.errors import Conflict, InvalidInput, NotFound
from agentvm.errors.resource import ResourceTooLarge
from agentvm.model.base import record_from
from agentvm.model.collection import CollectionDocument, parse_reference
from agentvm.resources.archive import UNPACKED_MAX_BYTES
from agentvm.sessions.workspace import Workspace
from agentvm.storage.resources import Node
from agentvm.storage.sql.collections import CollectionStore

PAGE_MAX = 500


class _Content(msgspec.Struct):
    collection: str | None = None


@dataclass(frozen=True, slots=True)
class ImageCollections:
    """The collections of the workspace's tenant, for files of images."""

    workspace: Workspace

    async def save(self, nodes: Iterable[Node]) -> tuple[list[FileCollection], dict[str, bytes]]:
        """Returns the collections that knowledge bases name, and the bytes of their documents by digest."""
        saved: dict[str, FileCollection] = {}
        bodies: dict[str, bytes] = {}
        for node in nodes:
            if node.resource.type != "knowledge":
                continue
            reference = msgspec.json.decode(node.content, type=_Content).collection
            if reference is None or reference in saved:
                continue
            if node.resource.tenant_id != self.workspace.tenant_id:
                raise InvalidInput(f"The image searches the collection {reference} of another tenant, who alone can save it")
            saved[reference] = await self._save(reference, bodies)
        return [saved[reference] for reference in sorted(saved)], bodies

    async def _save(self, reference: str, bodies: dict[str, bytes]) -> FileCollection:
        collection_id, revision = parse_reference(reference)
        store = self._store
        collection = await store.get(collection_id)
        if collection is None or not collection.oldest <= revision <= collection.revision:
            raise NotFound(f"The collection {reference}, which the image searches, is not here any more")
        documents = [one for one in await _documents(store, collection_id, revision) if one.deleted_at is None]
        size = sum(document.size for document in documents)
        if size > UNPACKED_MAX_BYTES:
            raise ResourceTooLarge(
                f"The collection {reference} has {size:,} bytes, and the file of an image holds {UNPACKED_MAX_BYTES:,}; "
                "search a smaller collection, or add its documents on the other server with avm knowledge add"
            )
        for document in documents:
            body = await store.read_named(collection_id, revision, document.document)
            if body is None or document.digest is None:
                raise Conflict(f"The document {document.document} of {reference} was deleted meanwhile; try again")
            bodies[document.digest] = body
        return FileCollection(reference=reference, documents=tuple(record_from(FileDocument, one) for one in documents))

    async def check(self, collections: Sequence[FileCollection]) -> list[FileCollection]:
        """Returns those that are not here yet; `Conflict` for one of the same name with other documents."""
        absent: list[FileCollection] = []
        for one in collections:
            collection_id, revision = parse_reference(one.reference)
            if len(one.documents) > revision or len({each.document for each in one.documents}) < len(one.documents):
                raise InvalidInput(f"The file of the image was altered: {one.reference} cannot have these documents")
            existing = await self._store.get(collection_id)
            if existing is None:
                absent.append(one)
                continue
            here = [each for each in await _documents(self._store, collection_id, revision) if each.deleted_at is None]
            if not existing.oldest <= revision <= existing.revision or _said(here) != _said(one.documents):
                raise Conflict(
                    f"There is a collection {collection_id} here with other documents than {one.reference} of the file. "
                    "Load the image into another tenant, or delete that collection"
                )
        return absent

    async def add(self, collections: Sequence[FileCollection], bodies: dict[str, bytes]) -> None:
        """Creates collections that are not here, each as the one revision that the image searches, or nothing of it."""
        for one in collections:
            collection_id, revision = parse_reference(one.reference)
            await self._store.create(collection_id, self.workspace.clock())
            is_whole = False
            try:
                for document in one.documents:
                    await self._put(collection_id, document, bodies[document.digest])
                is_whole = await self._store.settle(collection_id, revision)
            finally:
                if not is_whole:
                    await self._remove(collection_id)

    async def _put(self, collection_id: str, document: FileDocument, body: bytes) -> None:
        await self.workspace.check_storage(len(body))
        about = (document.document, document.title, document.media_type)
        await self._store.put(collection_id, io.BytesIO(body), *about, self.workspace.clock())

    async def _remove(self, collection_id: str) -> None:
        used = (await self._store.usage(collection_id)).bytes
        await self._store.delete(collection_id)
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


def _said(documents: Iterable[CollectionDocument | FileDocument]) -> set[tuple[str, str | None, str | None, str | None]]:
    return {(one.document, one.digest, one.title, one.media_type) for one in documents}
