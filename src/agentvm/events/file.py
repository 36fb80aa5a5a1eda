"""Files of a session — written and deleted, by tools and by people. Names and fields are those of 1.x."""

from agentvm.events.base import EventData
from agentvm.model.session_file import FileDelta


class FileEvent(EventData):
    source = "sandbox"
    category = "workdir"
    intent = "result"
    needs = "sessions:read"
    path: str
    timestamp: int


class FileWritten(FileEvent):
    """A file has these bytes now; `digest` names them."""

    type = "file_written"
    size: int
    digest: str


class FileDeleted(FileEvent):
    type = "file_deleted"


class FilesChanged(EventData):
    """Files have changed: stored as rows; other events are sent."""

    type = "files_changed"
    source = "sandbox"
    category = "workdir"
    told = False
    delta: FileDelta


EVENTS_MAX = 100
"""Files of one change that have an event each; a client that needs all of them lists the files."""


def file_events(delta: FileDelta) -> tuple[EventData, ...]:
    """Returns the events of a change: for its rows, and for those who watch."""
    if not delta.changes:
        return ()
    events = tuple(
        FileDeleted(path=change.path, timestamp=delta.at)
        if change.digest is None
        else FileWritten(path=change.path, timestamp=delta.at, size=change.size, digest=change.digest)
        for change in delta.changes[:EVENTS_MAX]
    )
    return (FilesChanged(delta=delta), *events)
