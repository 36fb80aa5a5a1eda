import os
import socket

import anyio
import pytest

from agentvm.tiers import frames
from agentvm.tiers.frames import Asking, FrameInvalid, Kill, Start, Value
from agentvm.tiers.link import FrameLink


async def test_frames_and_descriptors_go_both_ways() -> None:
    one, two = socket.socketpair()
    read, write = os.pipe()
    with FrameLink(one) as ours, FrameLink(two) as theirs:
        await ours.send(Start(id=1), [write])
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
            tasks.start_soon(ours.send, Value(value=data))
            assert await theirs.receive() == (Value(value=data), None)


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
        await ours.send(Start(id=1), [write])
        await ours.send(Start(id=2), [write])
        _, descriptor = await theirs.receive()
        assert descriptor is not None
        os.close(descriptor)
    os.close(read)
    os.close(write)
    assert len(os.listdir("/proc/self/fd")) == before


async def test_a_peer_that_is_not_trusted_is_heard_within_bounds_and_its_descriptors_are_not_taken() -> None:
    one, two = socket.socketpair()
    read, write = os.pipe()
    before = len(os.listdir("/proc/self/fd"))
    with FrameLink(one) as ours, FrameLink(two) as theirs:
        await ours.send(Asking(id=1, name="f", args=b"{}"), [read, write])
        await ours.send(Asking(id=2, name="f", args=b"{}"))
        messages = [*theirs.receive_ready(1000), *theirs.receive_ready(1000)]
        assert [message.id for message in messages if isinstance(message, Asking)] == [1, 2]
        assert list(theirs.receive_ready(1000)) == []
        assert len(os.listdir("/proc/self/fd")) == before
        await ours.send(Value(value=b"x" * 100))
        with pytest.raises(FrameInvalid):
            list(theirs.receive_ready(50))
    for number in (read, write):
        os.close(number)


async def test_bytes_that_are_no_frames_are_taken_as_they_are() -> None:
    one, two = socket.socketpair()
    with one, FrameLink(two) as theirs:
        assert theirs.receive_raw() == b""
        one.sendall(b"\0\0\xff")
        one.close()
        assert theirs.receive_raw() == b"\0\0\xff"
        with pytest.raises(EOFError):
            theirs.receive_raw()
