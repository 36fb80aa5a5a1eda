import os
import socket

import pytest

from agentvm.tiers import frames
from agentvm.tiers.frames import Ended, FrameInvalid, Kill, Start, Value


def test_a_frame_arrives_whole_with_its_descriptors() -> None:
    ours, theirs = socket.socketpair()
    read, write = os.pipe()
    with ours, theirs:
        frames.send(ours, Start(id=7, memory_bytes=5), [write, read])
        frames.send(ours, Ended(id=7, status=9))
        message, descriptors = frames.receive(theirs)
        assert message == Start(id=7, memory_bytes=5)
        os.write(descriptors[0], b"x")
        assert os.read(read, 1) == b"x"
        assert not any(map(os.get_inheritable, descriptors))
        assert frames.receive(theirs) == (Ended(id=7, status=9), [])
        for number in (read, write, *descriptors):
            os.close(number)


def test_the_end_of_the_peer_is_an_error_of_its_own_in_the_middle_of_a_frame_too() -> None:
    for part in (b"", b"\0\0", frames.encode(Kill(id=1))[:-1]):
        ours, theirs = socket.socketpair()
        with theirs:
            ours.sendall(part)
            ours.close()
            with pytest.raises(EOFError):
                frames.receive(theirs)


def test_a_frame_beyond_its_bound_is_refused_before_it_is_read() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        frames.send(ours, Value(value=b"x" * 100))
        with pytest.raises(FrameInvalid, match="where 50 are allowed"):
            frames.receive(theirs, 50)


@pytest.mark.parametrize("body", [b"", b"\xc1", b"\xc0", b"\x91\xa4None", b"\x92\xa4Kill\xa1x"])
def test_nonsense_is_no_frame(body: bytes) -> None:
    with pytest.raises(FrameInvalid):
        frames.decode(body)
