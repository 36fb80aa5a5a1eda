import io
import struct
import tarfile
from collections.abc import AsyncIterator

import pytest

from agentvm.errors.tool import TierBroken
from agentvm.tiers.docker_api import FRAME_MAX_BYTES, OutputFrame, make_archive, read_archive, read_frames


async def pieces(data: bytes, size: int) -> AsyncIterator[bytes]:
    for start in range(0, len(data), size):
        yield data[start : start + size]


@pytest.mark.parametrize("size", [1, 7, 1000])
async def test_frames_of_a_stream_are_taken_apart_wherever_it_is_cut(size: int) -> None:
    stream = struct.pack("!BxxxL", 1, 5) + b"hello" + struct.pack("!BxxxL", 2, 0) + struct.pack("!BxxxL", 2, 1) + b"!"
    frames = [frame async for frame in read_frames(pieces(stream, size))]
    assert frames == [OutputFrame(stream=number, data=data) for number, data in ((1, b"hello"), (2, b""), (2, b"!"))]


async def test_a_frame_beyond_its_bound_is_refused() -> None:
    with pytest.raises(TierBroken):
        _ = [frame async for frame in read_frames(pieces(struct.pack("!BxxxL", 1, FRAME_MAX_BYTES + 1), 8))]


def test_files_go_into_an_archive_and_come_back() -> None:
    files = {"workspace/a b": b"\0", "workspace/deep/er/$(x)": b"1" * 1000}
    content = make_archive(files, {"workspace/a b"}, folders=("avm",))
    with tarfile.open(fileobj=io.BytesIO(content)) as archive:
        assert archive.getnames()[:4] == ["avm", "workspace", "workspace/deep", "workspace/deep/er"]
        assert {entry.uid for entry in archive} == {65534}
    assert read_archive(content) == ({"a b": b"\0", "deep/er/$(x)": b"1" * 1000}, frozenset({"a b"}), 0)


def test_links_and_paths_that_leave_the_folder_are_left_out_and_counted() -> None:
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w") as archive:
        for name in ("workspace/ok", "workspace/../up"):
            archive.addfile(tarfile.TarInfo(name))
        link = tarfile.TarInfo("workspace/link")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(link)
    assert read_archive(target.getvalue()) == ({"ok": b""}, frozenset(), 2)


def test_an_archive_that_was_cut_gives_the_files_that_came_whole() -> None:
    content = make_archive({"w/a": b"1" * 600, "w/b": b"2" * 600})
    files, _, left_out = read_archive(content[: 512 * 6])
    assert (list(files), left_out) == (["a"], 1)
