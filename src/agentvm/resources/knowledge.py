"""Knowledge — documents that agents look things up in, with how they are to be cut and searched."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import msgspec

from agentvm.errors import shorten
from agentvm.errors.resource import ResourceInvalid
from agentvm.model.base import Record
from agentvm.model.collection import DOCUMENTS_MAX, CollectionReference, DocumentName, is_document_name, is_reference
from agentvm.model.knowledge import K_MAX
from agentvm.model.resource import ResourceType
from agentvm.resources.kind import Binary, Content, ContentType, JsonObject, RenderContext, check_reference, check_rendered

SEARCH_TEXT_MAX = 100_000
"""Characters of the documents that a search for resources looks at; a search in them is another thing."""


class Document(Record, forbid_unknown_fields=True):
    """A document with either `text` or `file`. The id is the fragment of a URI."""

    id: DocumentName
    title: Annotated[str, msgspec.Meta(max_length=1_000)] | None = None
    text: str | None = None
    file: Binary | None = None
    mime: Annotated[str, msgspec.Meta(pattern=r"^[a-z0-9.+-]+/[a-z0-9.+-]+$", max_length=100)] | None = None
    metadata: JsonObject | None = None


class Chunking(Record, forbid_unknown_fields=True):
    """Sizes in characters."""

    size: Annotated[int, msgspec.Meta(ge=1, le=1_000_000)]
    overlap: Annotated[int, msgspec.Meta(ge=0)] = 0


SearchMode = Literal["words", "vectors", "both"]


class Retrieval(Record, forbid_unknown_fields=True):
    k: Annotated[int, msgspec.Meta(ge=1, le=100)] | None = None
    mode: Literal["words", "vectors", "both", "bm25", "embedding", "hybrid"] | None = None
    """The last three are older names of the first."""
    inject: Annotated[int, msgspec.Meta(ge=0, le=20)] | None = None
    """How many of the best passages a model is told with each question, without asking for them."""


_MODES: dict[str | None, SearchMode] = {
    None: "words", "words": "words", "vectors": "vectors", "both": "both", "bm25": "words", "embedding": "vectors",
    "hybrid": "both",
}  # fmt: skip


def mode_of(retrieval: Retrieval | None) -> SearchMode:
    """Returns how a knowledge base is searched."""
    return _MODES[None if retrieval is None else retrieval.mode]


class KnowledgeContent(Content):
    """Either `documents` or a `collection`. `instructions` is the URI of a prompt that tells the model how to use them."""

    documents: Annotated[tuple[Document, ...], msgspec.Meta(max_length=DOCUMENTS_MAX)] | None = None
    collection: CollectionReference | None = None
    chunking: Chunking | None = None
    retrieval: Retrieval | None = None
    instructions: Annotated[str, msgspec.Meta(max_length=512)] | None = None


class Knowledge:
    """A fragment is a document."""

    type: ResourceType = "knowledge"
    content: ContentType = KnowledgeContent

    def check(self, content: KnowledgeContent) -> None:
        if (content.documents is None) == (content.collection is None):
            raise ResourceInvalid("Give either documents or a collection, such as handbook@12")
        if content.collection is not None and not is_reference(content.collection):
            raise ResourceInvalid(f"collection: {shorten(content.collection)!r} must be an id and a revision: handbook@12")
        seen: set[str] = set()
        for index, document in enumerate(content.documents or ()):
            where = f"documents.{index}"
            if not is_document_name(document.id):
                raise ResourceInvalid(
                    f"{where}.id: {shorten(document.id)!r} is no name of a document: no spaces, no #, and no part that is "
                    "empty, `.` or `..`"
                )
            if document.id in seen:
                raise ResourceInvalid(f"{where}.id: {shorten(document.id)!r} is the id of another document already")
            if (document.text is None) == (document.file is None):
                raise ResourceInvalid(f"{where} must have either text or file")
            seen.add(document.id)
        if content.chunking is not None and content.chunking.overlap >= content.chunking.size:
            raise ResourceInvalid(
                f"chunking.overlap ({content.chunking.overlap}) must be less than chunking.size ({content.chunking.size})"
            )
        if content.retrieval is not None and (content.retrieval.k or 0) > K_MAX:
            raise ResourceInvalid(f"retrieval.k is {content.retrieval.k}; a search has at most {K_MAX} passages")
        if content.instructions is not None:
            check_reference("instructions", content.instructions, "prompts", fragment=True)

    def references(self, content: KnowledgeContent) -> Mapping[str, str]:
        return {} if content.instructions is None else {"instructions": content.instructions}

    def text(self, content: KnowledgeContent) -> str:
        """Titles first, so that long documents do not hide them."""
        names = [word for document in content.documents or () for word in (document.id, document.title) if word]
        return "\n".join([*names, *(document.text for document in content.documents or () if document.text)])[:SEARCH_TEXT_MAX]

    def render(self, context: RenderContext) -> object:
        """The manifest, with the instructions rendered; for a fragment the text of that document."""
        content: KnowledgeContent = context.content
        if context.fragment is not None:
            return _document(context, content, context.fragment)
        documents = [_entry(document) for document in content.documents or ()]
        manifest: dict[str, Any] = {
            "documents": documents,
            "count": len(documents),
            "bytes": sum(document["size"] for document in documents),
        }
        for member in ("collection", "chunking", "retrieval"):
            if (value := getattr(content, member)) is not None:
                manifest[member] = msgspec.to_builtins(value)
        if content.instructions is not None:
            manifest["instructions"] = context.follow(content.instructions).render()
        check_rendered(context.uri, len(msgspec.json.encode(manifest)))
        return manifest


def _entry(document: Document) -> dict[str, Any]:
    size = len((document.text or "").encode())
    if document.file is not None:
        data = document.file.data
        size = len(data) if data is not None else document.file.size or 0
    mime = document.mime or ("text/plain" if document.file is None else "application/octet-stream")
    title = {} if document.title is None else {"title": document.title}
    return {"id": document.id, **title, "mime": mime, "size": size}


def _document(context: RenderContext, content: KnowledgeContent, document_id: str) -> str:
    document = next((candidate for candidate in content.documents or () if candidate.id == document_id), None)
    if document is None:
        raise context.missing_fragment("document", [candidate.id for candidate in content.documents or ()])
    if document.text is None:
        raise ResourceInvalid(f"{context.uri}#{shorten(document_id)} is a file, not text; only its bytes can be read")
    return document.text
