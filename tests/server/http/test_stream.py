from collections.abc import Iterator
from contextlib import contextmanager

import anyio
import pytest

from agentvm.errors import Refused, SessionNotFound
from agentvm.model.ids import SessionId, TenantId
from agentvm.operations.http_reply import Streamed, StreamSource
from agentvm.server.http import stream
from agentvm.server.http.stream import Streams

ACME, BOLT = TenantId("acme"), TenantId("bolt")


class Tap:
    """Gives what it is given, and remembers whether it was closed."""

    def __init__(self) -> None:
        self.into, self._out = anyio.create_memory_object_stream[bytes](100)
        self.closed = anyio.Event()

    async def take(self) -> bytes:
        return await self._out.receive()

    @contextmanager
    def opened(self) -> Iterator[StreamSource]:
        try:
            yield self
        finally:
            self._out.close()
            self.into.close()
            self.closed.set()

    @property
    def streamed(self) -> Streamed:
        return Streamed(self.opened, b"beat")


class Reader:
    """Somebody at the other end."""

    def __init__(self) -> None:
        self.pieces: list[bytes] = []
        self.come = anyio.Event()

    async def write(self, piece: bytes) -> None:
        self.pieces.append(piece)
        self.come.set()

    async def wait(self, count: int) -> None:
        while len(self.pieces) < count:
            self.come = anyio.Event()
            await self.come.wait()


async def yes() -> bool:
    return True


async def no() -> bool:
    return False


async def test_pieces_are_sent_as_they_come_until_there_are_no_more() -> None:
    streams, tap, reader = Streams(), Tap(), Reader()
    for piece in (b"one", b"two", b""):
        tap.into.send_nowait(piece)
    with anyio.fail_after(60):
        await streams.run(tap.streamed, ACME, yes, reader.write)
    assert reader.pieces == [b"beat", b"one", b"two"]
    assert tap.closed.is_set()
    assert len(streams) == 0


async def test_there_are_only_so_many_of_a_tenant_and_of_all() -> None:
    streams = Streams(most=3, most_of_tenant=2)
    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            for tenant_id in (ACME, ACME, BOLT):
                streams.check(tenant_id)
                reader = Reader()
                tasks.start_soon(streams.run, Tap().streamed, tenant_id, yes, reader.write)
                await reader.wait(1)
            for tenant_id in (ACME, BOLT):
                with pytest.raises(Refused, match="Too many streams"):
                    streams.check(tenant_id)
            late, tap = Reader(), Tap()
            await streams.run(tap.streamed, ACME, yes, late.write)
            assert late.pieces == []
            with tap.opened():
                pass
            streams.end()
    assert len(streams) == 0
    with pytest.raises(Refused, match="shutting down"):
        streams.check(ACME)
    streams.reopen()
    streams.check(ACME)


async def test_who_hears_nothing_gets_a_sign_of_life_and_who_lost_the_right_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "HEARTBEAT_SECONDS", 0.001)
    allowed = [True, True, False]

    async def may() -> bool:
        return allowed.pop(0)

    reader, tap = Reader(), Tap()
    with anyio.fail_after(60):
        await Streams().run(tap.streamed, ACME, may, reader.write)
    assert reader.pieces == [b"beat"] * 3
    assert tap.closed.is_set()


async def test_who_is_always_sent_something_is_looked_at_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "HEARTBEAT_SECONDS", 0.0)

    class Endless(Tap):
        async def take(self) -> bytes:
            return b"more"

    with anyio.fail_after(60):
        await Streams().run(Endless().streamed, ACME, no, Reader().write)


async def test_who_does_not_read_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "SEND_TIMEOUT_SECONDS", 0.001)
    tap = Tap()

    async def never(piece: bytes) -> None:
        await anyio.sleep_forever()

    with anyio.fail_after(60):
        await Streams().run(tap.streamed, ACME, yes, never)
    assert tap.closed.is_set()


async def test_no_stream_is_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "STREAM_MAX_SECONDS", 0.001)
    tap = Tap()
    with anyio.fail_after(60):
        await Streams().run(tap.streamed, ACME, yes, Reader().write)
    assert tap.closed.is_set()


async def test_a_source_that_fails_when_its_stream_has_ended_fails_nothing_else(caplog: pytest.LogCaptureFixture) -> None:
    async def closed() -> None:
        raise SessionNotFound(SessionId("sess_gone"))

    tap, streams = Tap(), Streams()
    await tap.into.send(b"")
    await streams.run(Streamed(tap.opened, b"beat", closed=closed), ACME, yes, Reader().write)
    assert len(streams) == 0
    assert "stream_not_closed" in caplog.text
