"""Message files — the files attached to a user's message, as sandboxes show them in `/in`."""

import base64
import mimetypes
import unicodedata

from agentvm.drivers.conversation import split_data_url
from agentvm.model.attachment import is_url, referred_digest
from agentvm.model.message import FilePart, ImagePart, UserContent
from agentvm.storage.sql.attachments import AttachmentStore, read_all

FILES_MAX = 100
NAME_MAX_BYTES = 200


async def read_attached(store: AttachmentStore, content: UserContent, max_bytes: int) -> dict[str, bytes]:
    """Returns the files of a message by safe and distinct names; those beyond the bounds, and addresses, are left out."""
    files: dict[str, bytes] = {}
    left = max_bytes
    for part in () if isinstance(content, str) else content:
        if not isinstance(part, ImagePart | FilePart) or is_url(part.data) or len(files) >= FILES_MAX:
            continue
        body = await _read(store, part)
        if body is None or len(body) > left:
            continue
        left -= len(body)
        files[_distinct(file_name(part), files)] = body
    return files


async def _read(store: AttachmentStore, part: ImagePart | FilePart) -> bytes | None:
    if (digest := referred_digest(part.data)) is not None:
        return await read_all(store, digest)
    plain = split_data_url(part)
    try:
        return base64.b64decode(plain.data, validate=True) if isinstance(plain, ImagePart | FilePart) else None
    except ValueError:
        return None


def file_name(part: ImagePart | FilePart) -> str:
    """Returns the last part of the name that the sender gave, without unsafe characters; else one by its type."""
    own_name = (part.filename if isinstance(part, FilePart) else part.name) or ""
    name = unicodedata.normalize("NFC", own_name.replace("\\", "/").rpartition("/")[2])
    name = "".join(letter for letter in name if unicodedata.category(letter) not in ("Cc", "Cs", "Cf")).strip().lstrip(".")
    if not name:
        name = f"file{mimetypes.guess_extension(part.media_type) or ''}"
    while len(name.encode()) > NAME_MAX_BYTES:
        name = name[1:]
    return name


def _distinct(name: str, used: dict[str, bytes]) -> str:
    stem, dot, kind = name.rpartition(".")
    number, candidate = 1, name
    while candidate in used:
        number += 1
        candidate = f"{stem}-{number}.{kind}" if dot and stem else f"{name}-{number}"
    return candidate
