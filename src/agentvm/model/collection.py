"""Collection — a set of documents that changes, and the number of its revision."""

import re
from typing import Annotated, NamedTuple

from msgspec import Meta

from agentvm.model.base import Record

COLLECTION_MAX_BYTES = 200 * 1024 * 1024
"""Bytes of the documents of one collection, older revisions with them."""
DOCUMENT_MAX_BYTES = 20 * 1024 * 1024
CHUNKS_MAX = 100_000
"""Passages of one knowledge base."""
DOCUMENTS_MAX = 10_000
"""Documents of one revision."""
COLLECTIONS_MAX = 1_000
"""Collections of one tenant."""

_ID = "[a-z0-9](?:[a-z0-9-]{0,62}[a-z0-9])?"
_END = r"$(?!\n)"
"""The end, and not before a line break at the end."""
_REFERENCE = re.compile(f"({_ID})@([1-9][0-9]{{0,8}})")

CollectionId = Annotated[str, Meta(pattern=f"^{_ID}{_END}", max_length=64)]
CollectionReference = Annotated[str, Meta(pattern=f"^{_REFERENCE.pattern}$", max_length=80)]
"""A collection with the revision that is meant: `handbook@12`. Publication also checks `is_reference`."""
DocumentName = Annotated[str, Meta(min_length=1, max_length=200)]
"""The fragment of a URI."""
DocumentTitle = Annotated[str, Meta(max_length=1_000)]
MediaType = Annotated[str, Meta(max_length=100)]


class Collection(Record):
    collection_id: str
    revision: int
    oldest: int
    """Revisions before this one were forgotten."""
    created_at: int
    updated_at: int


class CollectionDocument(Record):
    """A document in the revisions from `added_in` to before `removed_in`; one that was deleted is in none."""

    document: str
    title: str | None
    media_type: str | None
    digest: str | None
    size: int
    added_in: int
    added_at: int
    removed_in: int | None = None
    deleted_at: int | None = None


class CollectionUsage(NamedTuple):
    """`bytes` and `stored` include older revisions."""

    bytes: int
    documents: int
    stored: int


def is_document_name(name: str) -> bool:
    """Returns whether the name can stand in a URI, and is that of a file below a folder."""
    is_below = all(part not in ("", ".", "..") for part in name.split("/"))
    return is_below and name.isprintable() and " " not in name and "#" not in name


def is_reference(text: str) -> bool:
    """Returns whether the text is a reference and nothing more: a pattern of JSON Schema lets a line break follow."""
    return _REFERENCE.fullmatch(text) is not None


def parse_reference(reference: str) -> tuple[str, int]:
    """Returns the collection and the revision of a reference that was checked before."""
    match = _REFERENCE.fullmatch(reference)
    assert match is not None, "checked when it was published"
    return match[1], int(match[2])
