"""AttachmentStore — the files that were uploaded to one container, and the bytes of each.

The bytes are stored once per digest, for all containers together. They are read only through the attachment of a container,
each time. Conformance: `tests.conformance.attachments`.
"""

from dataclasses import dataclass

from agentvm.model.attachment import Attachment
from agentvm.model.ids import UserId

CHUNK_BYTES = 256 * 1024
"""Bytes of an attachment that are read or written at a time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Upload:
    """The metadata of an upload. The digest is computed from the bytes."""

    media_type: str
    name: str | None = None
    uploaded_by: UserId | None = None


@dataclass(frozen=True, slots=True)
class AttachmentPage:
    """The newest first. `next` is the `after` of the page that follows; None at the end."""

    items: tuple[Attachment, ...]
    next: str | None
