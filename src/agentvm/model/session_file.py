"""Session file — a file of a session, how it is named, and how it changes.

A path is relative to `/workspace`, where a sandbox shows the files. It is stored in Unicode's composed form (NFC), because two
spellings of one name look the same to people and models; case is kept, and `A` and `a` are two files.
"""

import unicodedata
from collections.abc import Iterable

from agentvm.errors import shorten
from agentvm.errors.file import FilePathInvalid
from agentvm.model.base import Record, record_from
from agentvm.model.ids import MessageId

ROOT = "/workspace"
"""The folder of a session's files in a sandbox."""
PATH_MAX_BYTES = 1_024
NAME_MAX_BYTES = 255
DEPTH_MAX = 32


class SessionFile(Record):
    """A file of a session. `digest` names its bytes."""

    path: str
    digest: str
    size: int
    executable: bool = False
    tainted: bool = False
    """Whether untrusted text may be in it: it was written by a call, or in a turn, that had read some."""
    modified_at: int


class FileChange(Record):
    """The new state of one path: these bytes, or none."""

    path: str
    digest: str | None = None
    """None for a file that was deleted."""
    size: int = 0
    executable: bool = False
    tainted: bool = False


class FileDelta(Record):
    """Changes that are stored together, with the message whose rewind reverts them; None for the last current one."""

    message_id: MessageId | None = None
    changes: tuple[FileChange, ...]
    at: int


class FileUsage(Record):
    """The number of files of a session, and their bytes."""

    files: int = 0
    size: int = 0


def file_path(text: str) -> str:
    """Returns the path in the form in which it is stored; `FilePathInvalid` for one that no file can have.

    Relative paths and those below `/workspace` are the same.
    """
    path = folder_path(text)
    if not path or text.endswith("/"):
        raise FilePathInvalid(f"{shorten(text)!r} names a folder; name a file in it")
    return path


def folder_path(text: str) -> str:
    """Returns the path of a folder, `` for all of the session's files."""
    path = unicodedata.normalize("NFC", text)
    if path == ROOT or path.startswith(f"{ROOT}/"):
        path = path.removeprefix(ROOT).lstrip("/")
    elif path.startswith("/"):
        raise FilePathInvalid(f"{shorten(text)!r} is outside of {ROOT}; name a path below it, or a relative one")
    parts = [part for part in path.split("/") if part not in ("", ".")]
    if ".." in parts:
        raise FilePathInvalid(f"{shorten(text)!r} must not contain `..`")
    if any(unicodedata.category(character) in ("Cc", "Cs") or character == "\\" for character in path):
        raise FilePathInvalid(f"{shorten(text)!r} must not contain control characters or backslashes")
    path = "/".join(parts)
    if len(path.encode()) > PATH_MAX_BYTES or len(parts) > DEPTH_MAX:
        raise FilePathInvalid(f"{shorten(text)!r} is too long: a path has up to {PATH_MAX_BYTES} bytes in {DEPTH_MAX} names")
    if any(len(part.encode()) > NAME_MAX_BYTES for part in parts):
        raise FilePathInvalid(f"{shorten(text)!r} is too long: a name has up to {NAME_MAX_BYTES} bytes")
    return path


def folders_of(path: str) -> tuple[str, ...]:
    """Returns the folders above a path, the outermost first."""
    parts = path.split("/")
    return tuple("/".join(parts[:depth]) for depth in range(1, len(parts)))


def apply_changes(files: dict[str, SessionFile], changes: Iterable[FileChange], at: int) -> None:
    """Updates files, by path, with changes that are not stored yet."""
    for change in changes:
        if change.digest is None:
            files.pop(change.path, None)
        else:
            files[change.path] = record_from(SessionFile, change, modified_at=at)
