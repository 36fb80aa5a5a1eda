"""Knowledge library — searches knowledge bases, and makes the index of each when it is needed first.

An index depends only on the documents and the chunking, so it is built once, by the first caller; the others wait for it, or
search the previous one. A document that cannot be read is a problem of its own; the others are searched anyway. Indexes belong
to the tenant whose documents they are of.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

import anyio.to_thread
import msgspec

from agentvm.errors import InvalidInput, NotAvailable, NotFound, ToolFailed
from agentvm.errors.resource import ResourceInvalid
from agentvm.knowledge.embed import Embedder, with_vectors
from agentvm.knowledge.fusing import fuse
from agentvm.knowledge.indexer import PROBLEM_MAX, CollectionIndexer
from agentvm.knowledge.parse import ParsedDocument, ParsedPage, parse
from agentvm.knowledge.passages import IndexForm, cut
from agentvm.knowledge.question import QUESTION_MAX, characters_of, pieces_of
from agentvm.log import get_logger
from agentvm.model.collection import CHUNKS_MAX, parse_reference
from agentvm.model.ids import Clock, NewId, TenantId, UserId
from agentvm.model.knowledge import (
    K_MAX,
    NO_EMBEDDER,
    USUAL_PASSAGES_MAX,
    DocumentProblem,
    FoundPassages,
    Passage,
    parse_cite,
)
from agentvm.model.resource import SYSTEM_TENANT, VersionId, parse_uri
from agentvm.model.tier import JobOwner
from agentvm.resources.centre import ResourceCentre
from agentvm.resources.knowledge import Document, KnowledgeContent, SearchMode, mode_of
from agentvm.sharing.cache import Cache
from agentvm.sharing.keyed_lock import KeyedLock
from agentvm.storage.resources import Node
from agentvm.storage.sql.knowledge import CompleteIndex, IndexedChunk, KnowledgeStore
from agentvm.storage.sql.store import Store
from agentvm.tools.metered_jobs import MeteredJobs

logger = get_logger(__name__)

DESCRIBED_MAX = 1_000
OPENED_MAX = 100_000
"""Characters of one citation, as many as the longest passage."""
FUSED_MAX = 40
"""Passages of each ranking that are fused."""
BUILDS_MAX = 3
"""How often an index is made that another node makes at the same time."""


@dataclass(frozen=True, slots=True)
class ServedIndex:
    """The index of a knowledge base, in the store of its owner, and how many passages it gives."""

    store: KnowledgeStore
    index: CompleteIndex
    k: int
    mode: SearchMode


@dataclass(frozen=True, slots=True)
class Described:
    """How a knowledge base wants to be indexed and searched."""

    k: int
    mode: SearchMode
    form: IndexForm
    collection: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class KnowledgeLibrary:
    """The knowledge bases of a server. Implements `agentvm.tools.base.KnowledgeSource`."""

    store: Store
    resources: ResourceCentre
    jobs: MeteredJobs
    clock: Clock
    new_id: NewId
    indexer: CollectionIndexer
    embedder: Embedder | None = None
    building: KeyedLock[VersionId] = field(default_factory=KeyedLock)
    making: set[VersionId] = field(default_factory=set)
    """Versions whose index is being made."""
    described: Cache[VersionId, Described] = field(default_factory=lambda: Cache(DESCRIBED_MAX))
    """Descriptions of versions that were used before. A version never changes."""

    async def search(
        self, tenant_id: TenantId, uris: Sequence[str], question: str, k: int | None = None, *, user_id: UserId | None = None
    ) -> FoundPassages:
        """Returns the passages of these knowledge bases that fit a question best; each base has its say about how many.

        To embed the question is the usage of the user.
        """
        nodes = [(uri, await self._node(tenant_id, uri)) for uri in uris]
        passages: list[Passage] = []
        problems: list[DocumentProblem] = []
        for uri, node in nodes:
            try:
                served = await self.ensure(tenant_id, node)
                hits = await self._hits(tenant_id, user_id, served, question, min(k or served.k, K_MAX))
            except (NotAvailable, NotFound) as error:
                if len(nodes) == 1:
                    raise
                # The others are searched all the same.
                problems.append(DocumentProblem(document=uri, problem=str(error)[:PROBLEM_MAX]))
                continue
            problems += served.index.problems
            passages += [msgspec.structs.replace(passage, uri=uri) for passage in hits]
        if len(nodes) > 1:
            passages = _take_turns(
                [[passage for passage in passages if passage.uri == uri] for uri in uris], min(k or USUAL_PASSAGES_MAX, K_MAX)
            )
        strange = any(node.resource.tenant_id not in (tenant_id, SYSTEM_TENANT) for _, node in nodes)
        return FoundPassages(passages=tuple(passages), problems=tuple(problems), tainted=strange and bool(passages))

    async def _hits(
        self, tenant_id: TenantId, user_id: UserId | None, served: ServedIndex, question: str, limit: int
    ) -> list[Passage]:
        """Returns the best passages of one index: by words, by vectors, or by both."""
        by_words: list[tuple[int, Passage]] = []
        by_vectors: list[tuple[int, Passage]] = []
        # Each alone finds more than are wanted, so that what both find comes first.
        wider = limit if served.mode != "both" else FUSED_MAX
        if served.mode != "vectors":
            for pieces in (pieces_of(question), characters_of(question)):
                by_words = by_words or await served.store.search(served.index, pieces, wider)
        if served.mode != "words" and self.embedder is not None:
            (vector,) = await self.embedder.embed(tenant_id, [question[:QUESTION_MAX]], user_id)
            by_vectors = await served.store.nearest(served.index, vector, wider)
        ranked = fuse(question, [key for key, _ in by_words], [key for key, _ in by_vectors])
        passages = dict((*by_words, *by_vectors))
        return [passages[key] for key in ranked[:limit]]

    async def open(self, tenant_id: TenantId, cite: str) -> Passage:
        """Returns exactly the range that a citation names."""
        named = parse_cite(cite)
        if named is None:
            raise InvalidInput("A citation has the form resource://knowledge/name@1.0.0#document:start-end")
        uri, document, page, start, end = named
        if end - start > OPENED_MAX:
            raise InvalidInput(f"A citation has at most {OPENED_MAX:,} characters")
        served = await self.ensure(tenant_id, await self._node(tenant_id, uri))
        passage = await served.store.open(served.index, document, start, end) if start < end else None
        if passage is None:
            gone = [problem.problem for problem in served.index.problems if problem.document == document]
            raise NotFound(f"The document {document} has no such range" + (f": {gone[0]}" if gone else ""))
        if page not in (None, passage.page):
            raise NotFound(f"The range {start}-{end} of {document} does not begin on page {page}")
        return msgspec.structs.replace(passage, uri=uri)

    async def ensure(self, tenant_id: TenantId, node: Node) -> ServedIndex:
        """Returns the index of a version, made if there is none."""
        version_id, owner = node.version.version_id, node.resource.tenant_id
        about = self.described.get(version_id)
        if about is None:
            about = _describe(_content(node))
            self.described.put(version_id, about)
        form = about.form
        if about.mode != "words":
            if self.embedder is None:
                raise NotAvailable(f"A search by {about.mode} {NO_EMBEDDER}")
            form = msgspec.structs.replace(form, embedder=self.embedder.name)
        store = self.store.knowledge(owner)
        if about.collection is not None:
            return ServedIndex(store, await self._of_collection(owner, about.collection, form), about.k, about.mode)
        for _ in range(BUILDS_MAX):
            index = await store.find(version_id, str(form))
            if index is None and version_id in self.making:
                index = await store.find_any(version_id)
            if index is None:
                async with self.building.hold(version_id):
                    index = await store.find(version_id, str(form))
                    index = index or await self._build(tenant_id, node, form)
            # Without one another node has made it anew meanwhile, or the version is gone.
            if index is not None:
                return ServedIndex(store, index, about.k, about.mode)
        raise NotFound("The version was deleted in the meantime")

    async def _of_collection(self, owner: TenantId, reference: str, form: IndexForm) -> CompleteIndex:
        collection_id, revision = parse_reference(reference)
        collection = await self.store.collections(owner).get(collection_id)
        if collection is None or revision > collection.revision:
            raise NotFound(f"There is no collection {reference} here; add its documents with avm knowledge add")
        if revision < collection.oldest:
            raise NotFound(
                f"Revision {revision} of the collection {collection_id} was forgotten; publish a version with a newer one"
            )
        return await self.indexer.serve(owner, collection_id, form, revision)

    async def _node(self, tenant_id: TenantId, uri: str) -> Node:
        parsed = parse_uri(uri)
        if parsed.type != "knowledge":
            raise ResourceInvalid(f"{uri} is not a knowledge base")
        return (await self.resources.resolver.find(tenant_id, parsed)).root

    async def _build(self, tenant_id: TenantId, node: Node, form: IndexForm) -> CompleteIndex | None:
        version_id = node.version.version_id
        self.making.add(version_id)
        try:
            chunks, problems = await self._read(tenant_id, node, form)
            chunks = await with_vectors(chunks, tenant_id, form, self.embedder)
            logger.info("knowledge_indexed", version=version_id, chunks=len(chunks), problems=len(problems))
            store = self.store.knowledge(node.resource.tenant_id)
            return await store.build(version_id, str(form), chunks, problems, self.clock())
        finally:
            self.making.discard(version_id)

    async def _read(self, tenant_id: TenantId, node: Node, form: IndexForm) -> tuple[list[IndexedChunk], list[DocumentProblem]]:
        chunks: list[IndexedChunk] = []
        problems: list[DocumentProblem] = []
        for document in _content(node).documents or ():
            try:
                parsed = await self._parse(tenant_id, node, document)
                chunks += await anyio.to_thread.run_sync(partial(cut, document.id, document.title, parsed, form))
                if len(chunks) > CHUNKS_MAX:
                    raise ToolFailed(f"the knowledge base has more than {CHUNKS_MAX:,} passages; cut it into larger ones")
            except ToolFailed as error:
                problems.append(DocumentProblem(document=document.id, problem=str(error)[:PROBLEM_MAX]))
        return chunks[:CHUNKS_MAX], problems

    async def _parse(self, tenant_id: TenantId, node: Node, document: Document) -> ParsedDocument:
        if document.text is not None and document.mime in (None, "text/plain", "text/markdown"):
            return ParsedDocument((ParsedPage(None, document.text),))
        data = None if document.text is None else document.text.encode()
        if document.file is not None:
            store = self.store.resources(node.resource.tenant_id)
            data = document.file.data or await store.blob(node.version.version_id, document.file.blob or "")
        if data is None:
            raise ToolFailed("its bytes are gone")
        return await parse(self.jobs, JobOwner(tenant_id=tenant_id), self.new_id("job"), document.id, document.mime, data)


def make_library(
    store: Store,
    resources: ResourceCentre,
    jobs: MeteredJobs,
    clock: Clock,
    new_id: NewId,
    embedder: Embedder | None = None,
) -> KnowledgeLibrary:
    return KnowledgeLibrary(
        store=store,
        resources=resources,
        jobs=jobs,
        clock=clock,
        new_id=new_id,
        indexer=CollectionIndexer(store, jobs, clock, new_id, embedder),
        embedder=embedder,
    )


def _content(node: Node) -> KnowledgeContent:
    return msgspec.json.decode(node.content, type=KnowledgeContent)


def _describe(content: KnowledgeContent) -> Described:
    retrieval, chunking = content.retrieval, content.chunking
    k = None if retrieval is None else retrieval.k
    form = IndexForm() if chunking is None else IndexForm(size=chunking.size, overlap=chunking.overlap)
    return Described(USUAL_PASSAGES_MAX if k is None else k, mode_of(retrieval), form, content.collection)


def _take_turns(ranked: Sequence[Sequence[Passage]], limit: int) -> list[Passage]:
    """Returns the best of each knowledge base in turn: weights of different indexes cannot be compared."""
    longest = max(map(len, ranked), default=0)
    return [ranking[place] for place in range(longest) for ranking in ranked if place < len(ranking)][:limit]
