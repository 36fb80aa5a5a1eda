import socket

import anyio
import anyio.lowlevel
import pytest

from agentvm.tiers.relay import Relay


def pair() -> tuple[socket.socket, socket.socket]:
    ours, theirs = socket.socketpair()
    theirs.setblocking(False)
    return ours, theirs


class Spent(Exception):
    """The bound of the test."""


def nothing(moved: int) -> None:
    pass


async def test_a_direction_ends_and_the_other_goes_on() -> None:
    client, one = pair()
    server, other = pair()
    with client, server, one, other, Relay(one, other, nothing) as relay:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(relay.run, 10)
            client.sendall(b"question")
            client.shutdown(socket.SHUT_WR)
            assert await anyio.to_thread.run_sync(server.makefile("rb").read) == b"question"
            server.sendall(b"answer")
            server.shutdown(socket.SHUT_WR)
            assert await anyio.to_thread.run_sync(client.makefile("rb").read) == b"answer"


async def test_both_sides_may_write_without_reading_and_nothing_is_stuck_or_lost() -> None:
    client, one = pair()
    server, other = pair()
    data = bytes(range(256)) * 8_000

    def upload(line: socket.socket) -> bytes:
        # Reads only when all is written: whoever waits for one side starves the other.
        line.sendall(data[:1_000_000])
        got = b""
        while len(got) < 1_000_000:
            got += line.recv(65_536)
        return got

    with client, server, one, other, Relay(one, other, nothing) as relay, anyio.fail_after(60):
        for line in (client, server, one, other):
            line.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 2_000_000)
        got: list[bytes] = []

        async def side(line: socket.socket) -> None:
            got.append(await anyio.to_thread.run_sync(upload, line))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(relay.run, 10)
            async with anyio.create_task_group() as sides:
                sides.start_soon(side, client)
                sides.start_soon(side, server)
            tasks.cancel_scope.cancel()
    assert got == [data[:1_000_000]] * 2


async def test_two_fast_sides_let_others_have_the_event_loop_in_between() -> None:
    client, one = pair()
    server, other = pair()
    ticks, seen = 0, list[int]()

    async def tick() -> None:
        nonlocal ticks
        while True:
            await anyio.lowlevel.checkpoint()
            ticks += 1

    with client, server, one, other, Relay(one, other, lambda moved: seen.append(ticks)) as relay, anyio.fail_after(60):
        for line in (client, other):
            line.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 2_000_000)
        filled = client.send(bytes(2_000_000))
        client.shutdown(socket.SHUT_WR)
        server.shutdown(socket.SHUT_WR)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(tick)
            with anyio.move_on_after(0.2):
                await relay.run(10)
            tasks.cancel_scope.cancel()
    assert filled > 300_000
    assert len(set(seen)) > 1


async def test_the_count_ends_it_and_so_do_silence_and_a_side_that_is_gone() -> None:
    def count(moved: int) -> None:
        if moved:
            raise Spent

    client, one = pair()
    server, other = pair()
    with client, server, one, other:
        with Relay(one, other, nothing) as relay, pytest.raises(TimeoutError):
            await relay.run(0.01)
        client.sendall(b"x")
        with Relay(one, other, count) as relay, pytest.raises(Spent):
            await relay.run(10)
        client.sendall(b"y")
        server.close()
        with Relay(one, other, nothing) as relay, pytest.raises(OSError, match="pipe"):
            await relay.run(10)
