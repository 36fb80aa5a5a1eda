"""Knowledge — passages of documents, and how an answer names one."""

import re
from typing import Annotated

from msgspec import Meta

from agentvm.model.base import Record

K_MAX = 20
"""Passages of one search."""
USUAL_PASSAGES_MAX = 8
"""Passages of a search that says no number."""

NO_EMBEDDER = (
    "needs an embedder, and this server has none: the operator sets tools.embedder.model, "
    "and tools.embedder.url unless the model is on this machine; "
    "or search by words (retrieval.mode: words)"
)
"""The remedy of a search by vectors without an embedder."""

_CITE = re.compile(r"(?P<uri>resource://[^#]+)#(?P<document>.+?)(?::p(?P<page>\d{1,9}))?:(?P<start>\d{1,12})-(?P<end>\d{1,12})")


class Passage(Record):
    """A part of a document: the characters from `start` to before `end` of its text."""

    uri: str
    """The version of the knowledge base that it is in."""
    document: str
    start: int
    end: int
    text: str
    title: str | None = None
    heading: str | None = None
    """Headings above it, the outermost first."""
    page: Annotated[int, Meta(ge=1)] | None = None

    @property
    def cite(self) -> str:
        """The name that opens exactly this range."""
        page = "" if self.page is None else f":p{self.page}"
        return f"{self.uri}#{self.document}{page}:{self.start}-{self.end}"


class DocumentProblem(Record):
    """A document that cannot be searched, and the reason."""

    document: str
    problem: str


class FoundPassages(Record):
    """The passages that fit a question, best first."""

    passages: tuple[Passage, ...]
    problems: tuple[DocumentProblem, ...] = ()
    tainted: bool = False
    """Whether a stranger has written some of them."""
    first: int = 1
    """The number of the first, by which an answer names it."""


def parse_cite(cite: str) -> tuple[str, str, int | None, int, int] | None:
    """Returns the knowledge base, the document, the page and the range that a citation names; None if it is none."""
    match = _CITE.fullmatch(cite)
    if match is None:
        return None
    page = None if match["page"] is None else int(match["page"])
    return match["uri"], match["document"], page, int(match["start"]), int(match["end"])
