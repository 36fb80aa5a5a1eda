"""AttachmentStore — the files that were uploaded to one container, and the bytes of each.

The bytes are stored once per digest, whoever has them. They are read only through the attachment of a container, each time.
Conformance: `agentvm.testing.conformance.attachments`.
"""

from collections.abc import Collection
from dataclasses import dataclass
from typing import BinaryIO, Protocol

from agentvm.model.attachment import Attachment
from agentvm.model.ids import UserId

CHUNK = 256 * 1024
"""Bytes of an attachment that are read or written at a time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Upload:
    """What is said about the bytes. What they are called is found out from them, and not said."""

    media_type: str
    name: str | None = None
    uploaded_by: UserId | None = None


@dataclass(frozen=True, slots=True)
class AttachmentPage:
    """The newest first. `next` is the `after` of the page that follows; None at the end."""

    items: tuple[Attachment, ...]
    next: str | None


class AttachmentStore(Protocol):
    """The attachments of one container of one tenant."""

    async def add(self, file: BinaryIO, upload: Upload, now: int) -> tuple[Attachment, bool]:
        """Stores all of the file; whether the container did not have it before. What is said of it last counts.

        `InvalidInput` for an empty file, `ContainerNotFound` when there is no such container.
        """

    async def get(self, digest: str) -> Attachment | None: ...

    async def list(self, *, after: str | None = None, limit: int = 100) -> AttachmentPage:
        """`InvalidInput` for an `after` that is no `next`."""

    async def sizes(self, digests: Collection[str]) -> dict[str, int]:
        """How many bytes each has; those that the container does not have are left out."""

    async def claim(self, digests: Collection[str], now: int) -> frozenset[str]:
        """Those that the container has. They are about to be referred to: `Store.collect` spares them for a grace from now."""

    async def read(self, digest: str, number: int) -> bytes | None:
        """Its chunk of that number, from 0; empty beyond the last. None when the container does not have it, or no more.

        Each chunk but the last has `CHUNK` bytes.
        """

    async def delete(self, digest: str) -> bool:
        """True when it was there. `AttachmentInUse` while a message refers to it, also one that was taken back."""


async def read_all(store: AttachmentStore, digest: str) -> bytes | None:
    """All of it, in memory. None when it is not there, or goes meanwhile."""
    found: list[bytes] = []
    while chunk := await store.read(digest, len(found)):
        found.append(chunk)
        if len(chunk) < CHUNK:
            break
    return None if chunk is None else b"".join(found)
