"""How a peer's outbox reaches its socket: by a callback while nothing waits, else by a task that ends."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import anyio
from tests.server.fixtures import open_listener

from agentvm.model.ids import TenantId
from agentvm.operations.table import CODEC
from agentvm.protocol.codec import Frame
from agentvm.protocol.connection import PeerConnection
from agentvm.runtime.channel import GOING_AWAY, GONE, LARGE_CHARACTERS, Channel
from agentvm.server.writer import Writer, writing_context


class FakeWire:
    """A socket whose peer reads only while `open` is set."""

    def __init__(self) -> None:
        self.open = anyio.Event()
        self.sent: list[str] = []
        self.waited: list[str] = []
        """Texts that were sent by a task."""
        self.messages: list[Any] = []
        self.problem: Exception | None = None
        self.aborted = False

    async def send(self, message: Any) -> None:
        self.messages.append(message)

    def send_now(self, texts: Sequence[str]) -> bool:
        if self.problem is not None:
            raise self.problem
        if self.open.is_set():
            self.sent += texts
        return self.open.is_set()

    async def send_all(self, texts: Sequence[str]) -> None:
        await self.open.wait()
        self.sent += texts
        self.waited += texts

    async def drain(self) -> None: ...

    def trust(self, tenant_id: TenantId) -> None: ...

    def abort(self) -> None:
        self.aborted = True


@asynccontextmanager
async def writing(wire: FakeWire) -> AsyncIterator[Channel]:
    async with open_listener() as (vm, _):
        peer = vm.attach()
        with anyio.fail_after(60):
            async with anyio.create_task_group() as tasks:
                connection = PeerConnection("c", CODEC)
                with Writer(peer, connection, None, wire, tasks, writing_context()):
                    yield peer.channel
                tasks.cancel_scope.cancel()
        vm.detach(peer)


async def test_small_frames_are_written_together_and_without_a_task() -> None:
    wire = FakeWire()
    wire.open.set()
    async with writing(wire) as channel:
        channel.send(Frame("a"))
        channel.send(Frame("b"))
        assert wire.sent == []
        await anyio.wait_all_tasks_blocked()
        channel.send(Frame("c"))
        await anyio.wait_all_tasks_blocked()
        assert (wire.sent, wire.waited, channel.unread) == (["a", "b", "c"], [], 0)


async def test_a_task_waits_for_a_peer_that_does_not_read_and_ends_when_it_has() -> None:
    wire = FakeWire()
    async with writing(wire) as channel:
        channel.send(Frame("a"))
        await anyio.wait_all_tasks_blocked()
        channel.send(Frame("b"))
        await anyio.wait_all_tasks_blocked()
        assert (wire.sent, channel.unread) == ([], 2)
        wire.open.set()
        await anyio.wait_all_tasks_blocked()
        channel.send(Frame("c"))
        await anyio.wait_all_tasks_blocked()
        assert (wire.sent, wire.waited, channel.unread) == (["a", "b", "c"], ["a", "b"], 0)


async def test_a_large_frame_is_sent_by_a_task_in_its_place() -> None:
    wire = FakeWire()
    wire.open.set()
    large = "x" * (LARGE_CHARACTERS + 1)
    async with writing(wire) as channel:
        for text in ("a", large, "b"):
            channel.send(Frame(text))
        while len(wire.sent) < 3:
            await anyio.wait_all_tasks_blocked()
        assert wire.sent == wire.waited == ["a", large, "b"]


async def test_what_is_left_is_sent_before_the_reason_of_the_end() -> None:
    wire = FakeWire()
    wire.open.set()
    async with writing(wire) as channel:
        channel.send(Frame("last words"))
        channel.close(GOING_AWAY)
        await anyio.wait_all_tasks_blocked()
        assert wire.sent == ["last words"]
        assert [message["code"] for message in wire.messages] == [GOING_AWAY.code]


async def test_a_peer_that_has_gone_closes_the_channel() -> None:
    wire = FakeWire()
    wire.problem = OSError("gone")
    async with writing(wire) as channel:
        channel.send(Frame("a"))
        await anyio.wait_all_tasks_blocked()
        assert channel.closing is GONE
    assert not wire.aborted


async def test_nothing_is_written_after_the_end() -> None:
    wire = FakeWire()
    wire.open.set()
    async with writing(wire) as channel:
        channel.send(Frame("too late"))
    await anyio.wait_all_tasks_blocked()
    assert wire.sent == []
