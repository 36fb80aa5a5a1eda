"""Collection indexer — reads the documents of collections in the background, one at a time, tenants in turn.

An index grows document by document. A search of a revision that is not in it yet is served by an older index that has all of
it, or waits a little, and then names the missing documents.
"""

from dataclasses import replace
from functools import partial
from typing import NamedTuple

import anyio
import anyio.to_thread

from agentvm.errors import AgentVMError, ToolFailed, not_found
from agentvm.knowledge.chunk import CHUNKER_VERSION
from agentvm.knowledge.embed import Embedder, with_vectors
from agentvm.knowledge.parse import parse
from agentvm.knowledge.passages import IndexForm, cut
from agentvm.log import get_logger
from agentvm.model.collection import CHUNKS_MAX
from agentvm.model.ids import Clock, NewId, TenantId
from agentvm.model.knowledge import DocumentProblem
from agentvm.model.tier import JobOwner
from agentvm.storage.sql.collection_indexes import ClaimedDocument, ReadState
from agentvm.storage.sql.knowledge import CompleteIndex, IndexedChunk
from agentvm.storage.sql.store import Store
from agentvm.tools.metered_jobs import MeteredJobs

logger = get_logger(__name__)

SETTLE_SECONDS = 20
"""How long a search waits for documents that are being read."""
POLL_SECONDS = 0.5
"""Time between two polls of a search that waits: another node may be reading them."""
UNFINISHED_MAX = 500
"""Unfinished indexes that one query returns."""
WANTED_MAX = 10_000
"""Indexes that wait to be worked on; one that is left out is asked for by its next search."""
FORMS_MAX = 4
"""Indexes of one collection, one for each way to cut it."""
PROBLEM_MAX = 300


class IndexRequest(NamedTuple):
    tenant_id: TenantId
    collection_id: str
    form: str


class CollectionIndexer:
    """Makes the indexes of collections. `run` does the work."""

    def __init__(self, store: Store, jobs: MeteredJobs, clock: Clock, new_id: NewId, embedder: Embedder | None = None) -> None:
        self._store, self._jobs, self._clock, self._new_id, self._embedder = store, jobs, clock, new_id, embedder
        self._wanted: dict[IndexRequest, None] = {}
        self._more, self._moved = anyio.Event(), anyio.Event()

    def want(self, request: IndexRequest) -> None:
        """Asks for an index to be brought up to date, soon."""
        if len(self._wanted) < WANTED_MAX:
            self._wanted.setdefault(request)
            self._more.set()

    async def refresh(self, tenant_id: TenantId, collection_id: str) -> None:
        """Requests an update of every index of a changed collection; of the default one if there is none."""
        forms = [form for _, form in await self._store.collection_indexes(tenant_id).forms(collection_id)]
        if not forms:
            # A row, so that another process continues when this one ends.
            forms = [str(IndexForm())]
            await self._store.collection_indexes(tenant_id).ensure(collection_id, forms[0])
        for form in forms:
            self.want(IndexRequest(tenant_id, collection_id, form))

    async def resume(self) -> None:
        """Continues the indexes that this process, or another node, has left unfinished when it ended."""
        after = 0
        try:
            while page := await self._store.list_unfinished_indexes(after, UNFINISHED_MAX):
                for unfinished in page:
                    self.want(IndexRequest(unfinished.tenant_id, unfinished.collection_id, unfinished.form))
                after = page[-1].index_key
        except AgentVMError as error:
            # The next search of each continues it.
            logger.error("indexes_not_resumed", code=error.code, error=str(error))

    async def states(self, tenant_id: TenantId, collection_id: str, revision: int) -> dict[str, ReadState]:
        """Returns the progress of the documents of a revision in the newest index, by name."""
        indexes = self._store.collection_indexes(tenant_id)
        for index_key, _ in await indexes.forms(collection_id):
            return await indexes.states(index_key, revision)
        return {}

    async def serve(self, tenant_id: TenantId, collection_id: str, form: IndexForm, revision: int) -> CompleteIndex:
        """Returns an index of a revision: the requested one, an older one while that is built, or the part that is ready."""
        indexes = self._store.collection_indexes(tenant_id)
        index_key = await indexes.ensure(collection_id, str(form))
        if index_key is None:
            raise not_found("Collection", collection_id)
        if (await indexes.progress(index_key, revision))[1]:
            self.want(IndexRequest(tenant_id, collection_id, str(form)))
            for other, _ in await indexes.forms(collection_id):
                if other != index_key and not (await indexes.progress(other, revision))[1]:
                    return await indexes.whole(other, revision)
            with anyio.move_on_after(SETTLE_SECONDS):
                moved = self._moved
                while (await indexes.progress(index_key, revision))[1]:
                    with anyio.move_on_after(POLL_SECONDS):
                        await moved.wait()
                    moved = self._moved
        index = await indexes.whole(index_key, revision)
        documents, missing = await indexes.progress(index_key, revision)
        if not missing:
            return index
        reading = f"{missing:,} of its {documents:,} documents are still being read; search again later"
        return replace(index, problems=(DocumentProblem(document=collection_id, problem=reading), *index.problems))

    async def run(self) -> None:
        """Works until cancelled."""
        while True:
            await self._more.wait()
            while self._wanted:
                next_job = next(iter(self._wanted))
                del self._wanted[next_job]
                try:
                    if await self._advance(next_job):
                        # Behind the others: a large collection holds up nobody.
                        self.want(next_job)
                except AgentVMError as error:
                    logger.warning(
                        "collection_not_indexed", collection=next_job.collection_id, code=error.code, error=str(error)
                    )
                except Exception:  # Protects the server, and every other collection.
                    logger.exception("collection_not_indexed", collection=next_job.collection_id)
                self._moved.set()
                self._moved = anyio.Event()
            self._more = anyio.Event()

    async def _advance(self, request: IndexRequest) -> bool:
        """Reads one document; whether there may be more."""
        indexes = self._store.collection_indexes(request.tenant_id)
        index_key = await indexes.ensure(request.collection_id, request.form)
        if index_key is None:
            return False
        claimed = await indexes.claim(index_key, self._clock())
        if claimed is None:
            await self._drop_old(request, index_key)
            return False
        chunks, problem = list[IndexedChunk](), None
        try:
            chunks = await self._read(request, claimed)
            if await indexes.count(index_key) + len(chunks) > CHUNKS_MAX:
                raise ToolFailed(f"the collection has more than {CHUNKS_MAX:,} passages; cut it into larger ones")
            # Last: vectors are paid for.
            chunks = await with_vectors(chunks, request.tenant_id, IndexForm.parse(request.form), self._embedder)
        except ToolFailed as error:
            chunks, problem = [], str(error)[:PROBLEM_MAX]
        except AgentVMError:
            raise
        except Exception:  # Protects every other document: a bug in the reading of one fails that one only.
            logger.exception("document_not_indexed", collection=request.collection_id)
            chunks, problem = [], "reading it failed unexpectedly"
        await indexes.finish(index_key, claimed.document_key, chunks, problem, self._clock())
        return True

    async def _read(self, request: IndexRequest, claimed: ClaimedDocument) -> list[IndexedChunk]:
        about, form = claimed.document, IndexForm.parse(request.form)
        data = await self._store.collections(request.tenant_id).read(claimed.document_key)
        if data is None:
            raise ToolFailed("its bytes are gone")
        owner, key = JobOwner(tenant_id=request.tenant_id), self._new_id("job")
        parsed = await parse(self._jobs, owner, key, about.document, about.media_type, data)
        return await anyio.to_thread.run_sync(partial(cut, about.document, about.title, parsed, form))

    async def _drop_old(self, request: IndexRequest, index_key: int) -> None:
        """Deletes indexes that this one has taken the place of, and those beyond the bound."""
        collection = await self._store.collections(request.tenant_id).get(request.collection_id)
        indexes = self._store.collection_indexes(request.tenant_id)
        if collection is None or (await indexes.progress(index_key, collection.revision))[1]:
            return
        current = IndexForm.parse(request.form)
        for place, (other, text) in enumerate(await indexes.forms(request.collection_id)):
            form = IndexForm.parse(text)
            is_current = (form.size, form.overlap, bool(form.embedder)) == (
                current.size,
                current.overlap,
                bool(current.embedder),
            )
            is_old = is_current and (form.chunker, form.embedder) != (CHUNKER_VERSION, current.embedder)
            if other != index_key and (is_old or place >= FORMS_MAX):
                await indexes.drop(other)
