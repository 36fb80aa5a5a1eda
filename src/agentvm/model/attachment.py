"""Attachment — a file that was uploaded to a container, and how a message refers to it.

An attachment is named by the digest of its bytes. The name gives no access: it is found only within a container that has it.
"""

import re
from collections.abc import Iterator, Sequence

from agentvm.errors import InvalidInput, shorten
from agentvm.model.base import Record
from agentvm.model.ids import ContainerId, UserId
from agentvm.model.message import FilePart, ImagePart, Message, OutputPart, parts_of

SCHEME = "attachment:"
ATTACHMENT_NAME_MAX = 255
ATTACHMENT_MAX_BYTES = 100 * 1024 * 1024
"""Maximum of one attachment under any settings: an archive of sessions holds no larger part."""

_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_TOKEN = r"[A-Za-z0-9][A-Za-z0-9!#$&^_.+-]{0,126}"
_VALUE = r"[A-Za-z0-9!#$%&'*+.^_`|~-]+|\"[ !#-\[\]-~]*\""
_TEXTS = frozenset(
    f"application/{kind}"
    for kind in ("json", "jsonl", "x-ndjson", "xml", "yaml", "x-yaml", "toml", "csv", "javascript", "x-sh", "sql")
)
_MEDIA_TYPE = re.compile(rf"{_TOKEN}/{_TOKEN}(?: *; *{_TOKEN}=(?:{_VALUE}))*")


class Attachment(Record):
    """`name` and `media_type` come from the uploader; a part that refers to the attachment has its own."""

    digest: str
    container_id: ContainerId
    size: int
    media_type: str
    created_at: int
    name: str | None = None
    uploaded_by: UserId | None = None

    @property
    def reference(self) -> str:
        return reference_to(self.digest)


def reference_to(digest: str) -> str:
    """Returns the `data` of a part that refers to the attachment."""
    return f"{SCHEME}{digest}"


def is_digest(text: str) -> bool:
    return _DIGEST.fullmatch(text) is not None


def referred_digest(data: str) -> str | None:
    """Returns the digest that the `data` of a part refers to; None for base64, a URL, or an invalid reference."""
    if not data.startswith(SCHEME):
        return None
    digest = data.removeprefix(SCHEME)
    return digest if is_digest(digest) else None


Content = str | Sequence[OutputPart]
"""The content of a user's message, or of a tool's result."""


def attachment_parts(content: Content) -> Iterator[ImagePart | FilePart]:
    """The parts that refer to attachments, or try to."""
    if not isinstance(content, str):
        yield from (part for part in content if isinstance(part, ImagePart | FilePart) and part.data.startswith(SCHEME))


def references(content: Content) -> tuple[str, ...]:
    """The digests that it refers to, each once, in order."""
    if isinstance(content, str):
        return ()
    return tuple(
        dict.fromkeys(digest for part in attachment_parts(content) if (digest := referred_digest(part.data)) is not None)
    )


def references_of(message: Message) -> tuple[str, ...]:
    """Returns the digests of the attachments of a message, each once, in order."""
    parts = parts_of(message)
    return references(parts) if parts else ()


def check_media_type(text: str) -> str:
    if len(text) > ATTACHMENT_NAME_MAX or not _MEDIA_TYPE.fullmatch(text):
        raise InvalidInput(
            f"{shorten(text)!r} is not a valid media type; it must be like image/png or text/plain; charset=utf-8"
        )
    return text


def check_name(text: str | None) -> str | None:
    """A name is shown in lists and sent in headers."""
    if text is not None and (not text.strip() or len(text) > ATTACHMENT_NAME_MAX or not text.isprintable()):
        raise InvalidInput(f"The name of an attachment has 1 to {ATTACHMENT_NAME_MAX} characters that can be printed")
    return text


def is_url(data: str) -> bool:
    """Whether a part's `data` is an address and not the content itself."""
    return data.startswith(("http://", "https://"))


def is_text(media_type: str) -> bool:
    """Whether a file of this type can be read as text, by any model."""
    kind = media_type.partition(";")[0].strip().lower()
    return kind.startswith("text/") or kind in _TEXTS or kind.endswith(("+json", "+xml", "+yaml"))
