from agentvm.events import CATALOGUE
from agentvm.events.file import EVENTS_MAX, FileDeleted, FilesChanged, FileWritten, file_events
from agentvm.model.session_file import FileChange, FileDelta


def test_changes_are_stored_once_and_told_file_by_file() -> None:
    delta = FileDelta(changes=(FileChange(path="a", digest="sha256:0", size=3), FileChange(path="b")), at=7)
    assert file_events(delta) == (
        FilesChanged(delta=delta),
        FileWritten(path="a", size=3, digest="sha256:0", timestamp=7),
        FileDeleted(path="b", timestamp=7),
    )
    assert FilesChanged.type not in CATALOGUE
    assert file_events(FileDelta(changes=(), at=7)) == ()


def test_a_call_that_changes_very_many_files_does_not_flood_its_listeners() -> None:
    delta = FileDelta(changes=tuple(FileChange(path=str(number)) for number in range(10_000)), at=7)
    assert len(file_events(delta)) == 1 + EVENTS_MAX
