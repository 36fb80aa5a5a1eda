"""Passages — a document in an index: its parts with their words, and the form of the index. Pure."""

from collections.abc import Iterator
from unicodedata import normalize

from agentvm.errors import ToolFailed
from agentvm.knowledge.chunk import CHUNKER_VERSION, OVERLAP_CHARACTERS, SIZE_CHARACTERS, chunks
from agentvm.knowledge.parse import ParsedDocument
from agentvm.model.base import Record
from agentvm.model.collection import CHUNKS_MAX
from agentvm.model.knowledge import Passage
from agentvm.storage.sql.knowledge import IndexedChunk
from agentvm.storage.sql.words import stems, terms

PASSAGES_MAX_CHARACTERS = 24_000_000
"""Characters of the passages of one document, those that two share counted twice: twice the longest text that is read."""


class IndexForm(Record):
    """How an index is made. Two indexes of the same documents and the same form are equal."""

    size: int = SIZE_CHARACTERS
    overlap: int = OVERLAP_CHARACTERS
    embedder: str = ""
    """The name of the embedder of its vectors; empty for an index of words alone."""
    chunker: int = CHUNKER_VERSION

    def __str__(self) -> str:
        return f"{self.chunker}/{self.size}/{self.overlap}/{self.embedder}"

    @classmethod
    def parse(cls, text: str) -> "IndexForm":
        chunker, size, overlap, embedder = text.split("/", 3)
        return cls(size=int(size), overlap=int(overlap), embedder=embedder, chunker=int(chunker))


def cut(document: str, title: str | None, parsed: ParsedDocument, form: IndexForm) -> list[IndexedChunk]:
    """Returns the passages of a document. Ranges count over its pages, with a line between two.

    `ToolFailed` for one that would become too many, or with overlaps so large that they repeat it many times.
    """
    title, offset, indexed = title or parsed.title, 0, list[IndexedChunk]()
    characters, cites = 0, dict[str, str]()
    for page in parsed.pages:
        for chunk in chunks(page.text, form.size, form.overlap):
            characters += chunk.end - chunk.start
            if len(indexed) >= CHUNKS_MAX or characters > PASSAGES_MAX_CHARACTERS:
                raise ToolFailed(
                    f"it becomes more than {CHUNKS_MAX:,} passages, or {PASSAGES_MAX_CHARACTERS:,} characters in them; "
                    "cut it into larger ones that overlap less"
                )
            passage = Passage(
                uri="",
                document=document,
                start=offset + chunk.start,
                end=offset + chunk.end,
                text=page.text[chunk.start : chunk.end],
                title=title,
                heading=chunk.heading,
                page=page.number,
            )
            indexed.append(IndexedChunk(passage, [cites.setdefault(term, term) for term in _terms(passage)]))
        offset += len(page.text) + 1
    return indexed


def _terms(passage: Passage) -> Iterator[str]:
    for text in (passage.title, passage.heading, passage.text):
        if text:
            yield from stems(terms(normalize("NFKC", text)))
