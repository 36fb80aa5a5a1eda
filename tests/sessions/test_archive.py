import io
import zipfile

import pytest

from agentvm.errors.archive import ArchiveTooLarge
from agentvm.sessions import archive
from agentvm.sessions.archive import NAME, ArchiveWriter, Counts, session_file


def write() -> bytes:
    writer = ArchiveWriter()
    pieces = []
    for name, stored in (("images.jsonl", False), ("blobs/sha256/" + "0" * 64, True)):
        with writer.write(name, stored=stored) as member:
            member.add(b"a" * 1000)
            member.add(b"b")
        pieces.append(writer.take())
    assert all(pieces)
    writer.finish(Counts(images=1))
    return b"".join([*pieces, writer.take()])


def test_the_same_members_give_the_same_bytes_that_any_program_can_read() -> None:
    body = write()
    assert write() == body
    with zipfile.ZipFile(io.BytesIO(body)) as packed:
        assert packed.testzip() is None
        assert packed.namelist() == ["images.jsonl", "blobs/sha256/" + "0" * 64, "manifest.json"]
        assert packed.read("images.jsonl") == b"a" * 1000 + b"b"
        # Nothing of the day is in it.
        assert {entry.date_time for entry in packed.infolist()} == {(1980, 1, 1, 0, 0, 0)}


def test_names_are_those_of_the_format() -> None:
    assert NAME.fullmatch(session_file(7))
    assert session_file(7) == "sessions/000007.jsonl"
    for odd in ("../images.jsonl", "images.jsonl\n", "/images.jsonl", "blobs/sha256/x", "sessions/1.jsonl", "sessions/../a"):
        assert not NAME.fullmatch(odd)


def test_what_could_not_be_read_again_is_not_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive, "MAX_FILES", 2)
    with pytest.raises(ArchiveTooLarge, match="one by one"):
        write()
