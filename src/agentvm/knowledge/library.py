"""Knowledge library — searches knowledge bases, and makes the index of each when it is needed first.

An index follows from the content of a version and from the way texts are cut, so it is made once, by whoever comes first, and
the others wait for it. A document that cannot be read is a problem of its own; the others are searched all the same.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from unicodedata import normalize

import anyio.to_thread
import msgspec

from agentvm.errors import InvalidInput, NotAvailable, NotFound, ToolFailed
from agentvm.errors.resource import ResourceInvalid
from agentvm.knowledge.chunk import CHUNKER_VERSION, OVERLAP_CHARACTERS, SIZE_CHARACTERS, chunks
from agentvm.knowledge.parse import ParsedDocument, ParsedPage, parse
from agentvm.knowledge.question import pieces_of
from agentvm.log import get_logger
from agentvm.model.ids import Clock, NewId, TenantId
from agentvm.model.knowledge import K_MAX, USUAL_PASSAGES_MAX, DocumentProblem, FoundPassages, Passage, parse_cite
from agentvm.model.resource import SYSTEM_TENANT, VersionId, parse_uri
from agentvm.model.tier import JobOwner
from agentvm.resources.centre import ResourceCentre
from agentvm.resources.knowledge import Chunking, Document, KnowledgeContent
from agentvm.sharing.cache import Cache
from agentvm.sharing.keyed_lock import KeyedLock
from agentvm.storage.resources import Node
from agentvm.storage.sql.knowledge import IndexedChunk, KnowledgeStore, WholeIndex
from agentvm.storage.sql.store import Store
from agentvm.storage.sql.words import terms
from agentvm.tools.metered_jobs import MeteredJobs

logger = get_logger(__name__)

CHUNKS_MAX = 100_000
"""Passages of one knowledge base."""
PROBLEM_MAX = 300
DESCRIBED_MAX = 1_000
BUILDS_MAX = 3
"""How often an index is made that another node makes at the same time."""


@dataclass(frozen=True, slots=True)
class ServedIndex:
    """The index of a version, how many passages it gives, and the titles of its documents."""

    index: WholeIndex
    k: int
    titles: Mapping[str, str | None]


@dataclass(frozen=True, slots=True)
class Described:
    """How a knowledge base wants to be searched, and the titles of its documents."""

    k: int
    mode: str | None
    titles: Mapping[str, str | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class KnowledgeLibrary:
    """The knowledge bases of a server. Implements `agentvm.tools.base.KnowledgeSource`."""

    store: Store
    resources: ResourceCentre
    jobs: MeteredJobs
    clock: Clock
    new_id: NewId
    building: KeyedLock[VersionId] = field(default_factory=KeyedLock)
    described: Cache[VersionId, Described] = field(default_factory=lambda: Cache(DESCRIBED_MAX))
    """Descriptions of versions that were used before. A version never changes."""

    async def search(self, tenant_id: TenantId, uris: Sequence[str], question: str, k: int | None = None) -> FoundPassages:
        """Returns the passages of these knowledge bases that fit a question best; each base has its say about how many."""
        nodes = [(uri, await self._node(tenant_id, uri)) for uri in uris]
        found: list[Passage] = []
        problems: list[DocumentProblem] = []
        for uri, node in nodes:
            served = await self.ensure(tenant_id, node)
            problems += served.index.problems
            limit = min(k or served.k, K_MAX)
            hits = await self._knowledge.search([served.index.index_key], pieces_of(question), limit)
            found += [msgspec.structs.replace(passage, uri=uri) for _, passage in hits]
        if len(nodes) > 1:
            found = _take_turns([[one for one in found if one.uri == uri] for uri in uris], min(k or USUAL_PASSAGES_MAX, K_MAX))
        strange = any(node.resource.tenant_id not in (tenant_id, SYSTEM_TENANT) for _, node in nodes)
        return FoundPassages(passages=tuple(found), problems=tuple(problems), tainted=strange and bool(found))

    async def open(self, tenant_id: TenantId, cite: str) -> Passage:
        """Returns exactly the range that a citation names."""
        named = parse_cite(cite)
        if named is None:
            raise InvalidInput("A citation has the form resource://knowledge/name@1.0.0#document:start-end")
        uri, document, start, end = named
        node = await self._node(tenant_id, uri)
        served = await self.ensure(tenant_id, node)
        text = await self._knowledge.open(node.version.version_id, document, start, end) if start < end else None
        if text is None:
            raise NotFound("There is no such range in the document")
        return Passage(uri=uri, document=document, start=start, end=end, text=text, title=served.titles.get(document))

    async def ensure(self, tenant_id: TenantId, node: Node) -> ServedIndex:
        """Returns the index of a version, made if there is none."""
        version_id = node.version.version_id
        about = self.described.get(version_id)
        if about is None:
            about = _describe(_content(node))
            self.described.put(version_id, about)
        if about.mode == "embedding":
            raise NotAvailable("This knowledge base wants a search by embeddings, and the server has no embedder; use bm25")
        for _ in range(BUILDS_MAX):
            index = await self._knowledge.find(version_id, CHUNKER_VERSION)
            if index is None:
                async with self.building.hold(version_id):
                    index = await self._knowledge.find(version_id, CHUNKER_VERSION)
                    index = index or await self._build(tenant_id, node, _content(node))
            # Without one another node has made it anew meanwhile, or the version is gone.
            if index is not None:
                return ServedIndex(index, about.k, about.titles)
        raise NotFound("The version was deleted meanwhile")

    @property
    def _knowledge(self) -> KnowledgeStore:
        return self.store.knowledge

    async def _node(self, tenant_id: TenantId, uri: str) -> Node:
        parsed = parse_uri(uri)
        if parsed.type != "knowledge":
            raise ResourceInvalid(f"{uri} is no knowledge base")
        return (await self.resources.resolver.find(tenant_id, parsed)).root

    async def _build(self, tenant_id: TenantId, node: Node, content: KnowledgeContent) -> WholeIndex | None:
        made: list[IndexedChunk] = []
        problems: list[DocumentProblem] = []
        for document in content.documents:
            try:
                parsed = await self._parse(tenant_id, node, document)
                made += await anyio.to_thread.run_sync(partial(_cut, document, parsed, content))
                if len(made) > CHUNKS_MAX:
                    raise ToolFailed(f"the knowledge base has more than {CHUNKS_MAX:,} passages; cut it into larger ones")
            except ToolFailed as error:
                problems.append(DocumentProblem(document=document.id, problem=str(error)[:PROBLEM_MAX]))
        logger.info("knowledge_indexed", version=node.version.version_id, chunks=len(made), problems=len(problems))
        now = self.clock()
        return await self._knowledge.build(node.version.version_id, CHUNKER_VERSION, made[:CHUNKS_MAX], problems, now)

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


def _content(node: Node) -> KnowledgeContent:
    return msgspec.json.decode(node.content, type=KnowledgeContent)


def _describe(content: KnowledgeContent) -> Described:
    retrieval = content.retrieval
    k = None if retrieval is None else retrieval.k
    mode = None if retrieval is None else retrieval.mode
    return Described(USUAL_PASSAGES_MAX if k is None else k, mode, {one.id: one.title for one in content.documents})


def _cut(document: Document, parsed: ParsedDocument, content: KnowledgeContent) -> list[IndexedChunk]:
    """Returns the passages of a document. Ranges count over its pages, with a line between two."""
    chunking = content.chunking or Chunking(size=SIZE_CHARACTERS, overlap=OVERLAP_CHARACTERS)
    title, offset, made = document.title or parsed.title, 0, list[IndexedChunk]()
    for page in parsed.pages:
        for chunk in chunks(page.text, chunking.size, chunking.overlap):
            text = page.text[chunk.start : chunk.end]
            passage = Passage(
                uri="",
                document=document.id,
                start=offset + chunk.start,
                end=offset + chunk.end,
                text=text,
                title=title,
                heading=chunk.heading,
                page=page.number,
            )
            made.append(IndexedChunk(passage, list(_terms(passage))))
        offset += len(page.text) + 1
    return made


def _terms(passage: Passage) -> Iterator[str]:
    for text in (passage.title, passage.heading, passage.text):
        if text:
            yield from terms(normalize("NFKC", text))


def _take_turns(ranked: Sequence[Sequence[Passage]], limit: int) -> list[Passage]:
    """Returns the best of each knowledge base in turn: weights of different indexes cannot be compared."""
    longest = max(map(len, ranked), default=0)
    return [found[place] for place in range(longest) for found in ranked if place < len(found)][:limit]
