import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import httpcore2
import pytest

from agentvm.tiers.engine_socket import EngineNetwork


@asynccontextmanager
async def connect(folder: Path) -> AsyncIterator[tuple[httpcore2.AsyncNetworkStream, socket.socket]]:
    """Yields a connection, and the other end of it."""
    path = str(folder / "engine.sock")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen()
        stream = await EngineNetwork().connect_unix_socket(path, timeout=60)
        other, _ = listener.accept()
        with other:
            try:
                yield stream, other
            finally:
                await stream.aclose()


async def test_bytes_go_both_ways_until_the_other_end_is_closed(tmp_path: Path) -> None:
    async with connect(tmp_path) as (stream, other):
        assert stream.get_extra_info("is_readable") is False
        other.sendall(b"hello")
        assert stream.get_extra_info("is_readable") is True
        assert await stream.read(100, timeout=60) == b"hello"
        sent = b"x" * 3_000_000
        received = bytearray()
        other.setblocking(False)

        async def receive() -> None:
            while len(received) < len(sent):
                await anyio.wait_readable(other)
                received.extend(other.recv(1 << 20))

        with anyio.fail_after(60):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(receive)
                await stream.write(sent, timeout=60)
        assert received == sent
        other.close()
        assert await stream.read(100, timeout=60) == b""


async def test_a_reader_is_given_up_at_the_moment_in_which_data_arrives(tmp_path: Path) -> None:
    # An error in the loop fails the test.
    async with connect(tmp_path) as (stream, other), anyio.create_task_group() as tasks:
        tasks.start_soon(stream.read, 100)
        await anyio.wait_all_tasks_blocked()
        # Both are found in one round of the loop, which runs this before what the socket has.
        asyncio.get_running_loop().call_soon(tasks.cancel_scope.cancel)
        other.sendall(b"x")
        await anyio.sleep_forever()


async def test_waits_have_an_end_and_failures_have_the_names_of_httpcore(tmp_path: Path) -> None:
    async with connect(tmp_path) as (stream, other):
        with pytest.raises(httpcore2.ReadTimeout):
            await stream.read(100, timeout=0.01)
        other.close()
        with pytest.raises(httpcore2.WriteError):
            await stream.write(b"x" * 3_000_000, timeout=60)
    with pytest.raises(httpcore2.ConnectError):
        await EngineNetwork().connect_unix_socket(str(tmp_path / "none.sock"), timeout=60)
    with pytest.raises(httpcore2.ConnectError):
        await EngineNetwork().connect_tcp("localhost", 1)
