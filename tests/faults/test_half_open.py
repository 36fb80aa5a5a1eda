"""F7: packets are dropped without a word in both directions; each side notices by itself, and nothing is left over."""

import asyncio
import os
from pathlib import Path

import anyio
import pytest
from tests.faults.invariants import check_events
from tests.faults.process import OPENED_LATE, open_files, read_log, until
from tests.faults.proxy import open_proxy
from tests.support.serving import serving
from tests.support.wire import client

from agentvm import AgentX, WireEvent, create_agentx, remote_runtime
from agentvm.client import remote
from agentvm.drivers.base import Prompt
from agentvm.drivers.scripted import ScriptStep, reply
from agentvm.runtime.broadcaster import Broadcaster
from agentvm.runtime.channel import Channel
from agentvm.server import serving as serving_module

HEARTBEAT = 1.0
"""Seconds; a busy machine may be late with a pong, but not by this much."""
PEERS = 8


class Attached:
    """The channels that the server holds for its peers, besides its own."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._changed = anyio.Event()
        self._channels: set[Channel] = set()
        attach, detach = Broadcaster.attach, Broadcaster.detach

        def note(broadcaster: Broadcaster, channel: Channel) -> None:
            attach(broadcaster, channel)
            self._channels.add(channel)
            self._tell()

        def forget(broadcaster: Broadcaster, channel: Channel) -> None:
            detach(broadcaster, channel)
            self._channels.discard(channel)
            self._tell()

        monkeypatch.setattr(Broadcaster, "attach", note)
        monkeypatch.setattr(Broadcaster, "detach", forget)

    def __len__(self) -> int:
        return len(self._channels)

    async def until(self, count: int) -> None:
        while len(self) != count:
            await self._changed.wait()

    def _tell(self) -> None:
        self._changed.set()
        self._changed = anyio.Event()


@pytest.fixture
def attached(monkeypatch: pytest.MonkeyPatch) -> Attached:
    monkeypatch.setattr(serving_module, "PING_SECONDS", HEARTBEAT)
    return Attached(monkeypatch)


def loud(prompt: Prompt) -> list[ScriptStep]:
    """More than the kernel keeps for a peer that does not read."""
    return reply(*["x" * 64_000] * 200)


@pytest.mark.parametrize("spoken_to", [False, True], ids=["silent", "spoken-to"])
async def test_f7_a_half_open_socket_is_dropped_within_two_heartbeats_without_a_leak(
    tmp_path: Path, attached: Attached, spoken_to: bool
) -> None:
    async with serving(loud, data_dir=tmp_path) as server:
        # In the process of the server: nobody pings this agent.
        agentx = server.running.agentx
        image_id = (await agentx.images.create()).image_id
        await say(agentx, image_id, "warm up")
        tasks, files, peers = len(asyncio.all_tasks()), open_files(os.getpid()), len(attached)
        async with open_proxy(server.port) as proxy:
            async with anyio.create_task_group() as connected:
                for _ in range(PEERS):
                    connected.start_soon(follow, proxy.url, image_id)
                with anyio.fail_after(60):
                    await attached.until(peers + PEERS)
                held = open_files(os.getpid())
                proxy.cut()
                # Far longer than two heartbeats, and far shorter than the system itself would take.
                with anyio.fail_after(60):
                    if spoken_to:
                        # What is written to a dead peer is never acknowledged; that must not keep its socket.
                        await say(agentx, image_id, "is anybody there")
                    await attached.until(peers)
                # The proxy and the peers still hold their ends; the server has let go of its own.
                with anyio.fail_after(60):
                    await until(lambda: open_files(os.getpid()) <= held - PEERS + OPENED_LATE)
                connected.cancel_scope.cancel()
        with anyio.fail_after(60):
            await until(lambda: len(asyncio.all_tasks()) <= tasks and open_files(os.getpid()) <= files + OPENED_LATE)


async def say(agentx: AgentX, image_id: str, text: str) -> None:
    agent = await agentx.images.run(image_id)
    async for _ in agent.stream(text):
        pass


async def follow(url: str, image_id: str) -> None:
    async with client(url) as peer:
        await peer.request("image_get_request", imageId=image_id)
        await anyio.sleep_forever()


async def test_f7_a_client_notices_a_half_open_socket_too_and_misses_nothing(
    tmp_path: Path, attached: Attached, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote, "PING_INTERVAL_SECONDS", HEARTBEAT)
    monkeypatch.setattr(remote, "FIRST_DELAY_SECONDS", 0.02)
    heard: list[WireEvent] = []
    async with serving(data_dir=tmp_path) as server, open_proxy(server.port) as proxy:
        async with create_agentx(remote_runtime(proxy.url)) as agentx:
            record = await agentx.images.create()
            agentx.runtime.on("*", heard.append)
            agent = await agentx.images.run(record.image_id)
            await agent.receive("before")
            lost, back = anyio.Event(), anyio.Event()
            agentx.runtime.on("disconnected", lambda _: lost.set())
            agentx.runtime.on("connected", lambda _: back.set())
            proxy.cut()
            with anyio.fail_after(60):
                await lost.wait()
            await say(server.running.agentx, record.image_id, "meanwhile")
            proxy.mend()
            with anyio.fail_after(60):
                await back.wait()
                await agent.receive("after")
                await until(lambda: sum(event.type == "turn_response" for event in heard) == 3)
        cursors = [int(event.cursor) for event in heard if event.cursor is not None]
        log = await read_log(server.url, str(record.session_id))
        check_events(log)
        assert cursors == [int(event["cursor"]) for event in log]
