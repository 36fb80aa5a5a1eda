import os
import socket

import anyio
import pytest

from agentvm.tiers import frames
from agentvm.tiers.frames import FrameInvalid, Kill, OutputPiece, Start
from agentvm.tiers.link import FrameLink


async def test_frames_and_descriptors_go_both_ways() -> None:
    one, two = socket.socketpair()
    read, write = os.pipe()
    with FrameLink(one) as ours, FrameLink(two) as theirs:
        await ours.send(Start(id=1), write)
        await ours.send(Kill(id=2))
        message, descriptor = await theirs.receive()
        assert message == Start(id=1)
        assert descriptor is not None
        os.write(descriptor, b"y")
        assert os.read(read, 1) == b"y"
        assert await theirs.receive() == (Kill(id=2), None)
        for number in (read, write, descriptor):
            os.close(number)


async def test_a_frame_larger_than_the_buffers_waits_for_the_reader() -> None:
    one, two = socket.socketpair()
    data = os.urandom(5_000_000)
    with FrameLink(one) as ours, FrameLink(two) as theirs:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ours.send, OutputPiece(stream=1, data=data))
            assert await theirs.receive() == (OutputPiece(stream=1, data=data), None)


async def test_the_end_and_nonsense_are_told_apart() -> None:
    one, two = socket.socketpair()
    with one, FrameLink(two) as theirs:
        one.sendall(b"\0\0\0\1\xc1")
        with pytest.raises(FrameInvalid):
            await theirs.receive()
    one, two = socket.socketpair()
    with FrameLink(two) as theirs:
        one.sendall(frames.encode(Kill(id=1))[:5])
        one.close()
        with pytest.raises(EOFError):
            await theirs.receive()


async def test_a_closed_link_lets_go_of_descriptors_that_nobody_took() -> None:
    before = len(os.listdir("/proc/self/fd"))
    one, two = socket.socketpair()
    read, write = os.pipe()
    with FrameLink(one) as ours, FrameLink(two) as theirs:
        await ours.send(Start(id=1), write)
        await ours.send(Start(id=2), write)
        _, descriptor = await theirs.receive()
        assert descriptor is not None
        os.close(descriptor)
    os.close(read)
    os.close(write)
    assert len(os.listdir("/proc/self/fd")) == before
