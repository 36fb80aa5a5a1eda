from typing import Any

import anyio
import msgspec
import pytest
from tests.runtime.fixtures import World, open_world

from agentvm.drivers.scripted import ScriptedDriver, reply
from agentvm.errors import StoreFailed
from agentvm.events.base import Event
from agentvm.model.ids import DEFAULT_TENANT, ContainerId, SessionId, TenantId
from agentvm.model.principal import Principal
from agentvm.protocol.codec import Frame
from agentvm.protocol.dialect_v1 import encode_event
from agentvm.runtime import channel as channel_module
from agentvm.runtime import outbox_reader as outlet_module
from agentvm.runtime.channel import FAILED, GOING_AWAY, MAX_FRAMES, SERVER_BUSY, Channel
from agentvm.runtime.outbox_reader import OutboxReader
from agentvm.runtime.replay import Missed
from agentvm.sharing.byte_budget import ByteBudget


def connect(world: World, after: int | None = None, session_id: SessionId | None = None) -> tuple[Channel, OutboxReader]:
    channel = Channel(Principal(tenant_id=DEFAULT_TENANT), encode_event)
    world.runtime.broadcaster.attach(channel)
    world.runtime.broadcaster.subscribe(channel, world.image.container_id, session_id or world.image.session_id, after)
    return channel, OutboxReader(channel, world.runtime.replay, lambda: 1)


async def take(outbox: OutboxReader) -> list[dict[str, Any]]:
    with anyio.fail_after(60):
        return [msgspec.json.decode(frame.bare) for frame in await outbox.take()]


async def take_all(outbox: OutboxReader, channel: Channel) -> list[dict[str, Any]]:
    events: list[dict[str, Any]] = []
    while not events or channel.lagging:
        events += await take(outbox)
    return events


def numbered(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [event for event in events if "cursor" in event]


def without_time(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{**event, "timestamp": 0} for event in events]


async def test_who_comes_late_gets_the_same_events_and_then_the_live_ones() -> None:
    async with open_world(ScriptedDriver()) as world:
        agent = world.start()
        await world.say(agent, "one")
        told = numbered(await world.hear("turn_response"))
        channel, outbox = connect(world, after=2)
        assert without_time(await take_all(outbox, channel)) == without_time(told[2:])
        await world.say(agent, "two")
        all_told = numbered(await world.hear("turn_response", times=2))
        live: list[dict[str, Any]] = []
        while len(live) < len(all_told) - len(told):
            live += await take(outbox)
        assert live == all_told[len(told) :]


async def test_who_does_not_read_is_fed_from_the_log_when_it_does_and_misses_nothing() -> None:
    count = 2 * MAX_FRAMES
    async with open_world(ScriptedDriver(lambda prompt: reply(*["x"] * count))) as world:
        slow, outbox = connect(world)
        # On a busy machine who reads may fall behind too, so it reads as a server does.
        reading, heard = OutboxReader(world.channel, world.runtime.replay, lambda: 1), list[dict[str, Any]]()
        await world.say(world.start(), "go")
        while not any(event["type"] == "turn_response" for event in heard):
            heard += await take(reading)
        told = numbered(heard)
        assert len(slow.lagging) == 1
        assert slow.closing is None
        got: list[dict[str, Any]] = []
        while not got or got[-1]["type"] != "turn_response":
            got += await take(outbox)
        assert [event["cursor"] for event in got] == [str(number) for number in range(1, len(told) + 1)]
        assert without_time(got) == without_time(told)


async def test_a_cursor_the_log_does_not_know_is_answered_with_a_resync() -> None:
    async with open_world(ScriptedDriver()) as world:
        agent = world.start()
        await world.say(agent, "one")
        last = numbered(await world.hear("turn_response"))[-1]["cursor"]
        channel, outbox = connect(world, after=999)
        (resync,) = await take(outbox)
        assert (resync["type"], resync["data"]) == ("resync_required", {"sessionId": world.image.session_id, "cursor": last})
        assert not channel.lagging
        await world.say(agent, "two")
        await world.hear("turn_response", times=2)
        assert (await take(outbox))[0]["cursor"] == str(int(last) + 1)


async def test_a_session_that_is_gone_has_nothing_to_catch_up_with() -> None:
    async with open_world(ScriptedDriver()) as world:
        channel, outbox = connect(world, after=0, session_id=SessionId("nope"))
        channel.send(Frame('{"type":"x"}'))
        assert [event["type"] for event in await take(outbox)] == ["x"]
        assert not channel.lagging


async def test_a_channel_that_closes_is_drained_and_fed_no_more() -> None:
    async with open_world(ScriptedDriver()) as world:
        await world.say(world.start(), "one")
        await world.hear("turn_response")
        channel, outbox = connect(world, after=0)
        channel.send(Frame('{"type":"last words"}'))
        channel.close(GOING_AWAY)
        assert [event["type"] for event in await take(outbox)] == ["last words"]
        assert await take(outbox) == []


class Broken:
    """In place of the replay."""

    def __init__(self, *pages: Missed) -> None:
        self.pages = list(pages)
        self.channel: Channel | None = None

    async def read(self, tenant_id: TenantId, container_id: ContainerId, session_id: SessionId, after: int) -> Missed:
        if self.channel is not None:
            # It asks for more of the past while the page is being read.
            next(iter(self.channel.lagging)).cursor, self.channel = 0, None
            return Missed([], 9, lost=True)
        if not self.pages:
            raise StoreFailed("the disk is gone")
        return self.pages.pop(0)

    def is_current(self, tenant_id: TenantId, session_id: SessionId, cursor: int, last: int) -> bool:
        return cursor >= last


async def test_a_log_that_cannot_be_read_ends_the_connection_and_not_the_server() -> None:
    async with open_world(ScriptedDriver()) as world:
        channel, _ = connect(world, after=0)
        assert await take(OutboxReader(channel, Broken(), lambda: 1)) == []  # type: ignore[arg-type]
        assert channel.closing is FAILED


async def test_a_cursor_that_changed_meanwhile_counts() -> None:
    async with open_world(ScriptedDriver()) as world:
        await world.say(world.start(), "one")
        await world.hear("turn_response")
        channel, _ = connect(world, after=5)
        page: list[Event] = (
            await world.runtime.replay.read(DEFAULT_TENANT, world.image.container_id, world.image.session_id, 0)
        ).events
        broken = Broken(Missed(page, page[-1].seq))
        broken.channel = channel
        assert (await take(OutboxReader(channel, broken, lambda: 1)))[0]["cursor"] == "1"  # type: ignore[arg-type]


async def test_a_subscription_that_ended_meanwhile_is_fed_no_more() -> None:
    async with open_world(ScriptedDriver()) as world:
        await world.say(world.start(), "one")
        await world.hear("turn_response")
        where = (world.image.container_id, world.image.session_id)
        page = (await world.runtime.replay.read(DEFAULT_TENANT, *where, 0)).events
        channel, _ = connect(world, after=0)
        broadcaster = world.runtime.broadcaster

        class Leaving(Broken):
            async def read(self, tenant_id: TenantId, container_id: ContainerId, session_id: SessionId, after: int) -> Missed:
                if after == 0:
                    broadcaster.unsubscribe(channel, session_id)
                    broadcaster.subscribe(channel, container_id, session_id, after=3)
                return Missed(page[after:], page[-1].seq)

        told = await take_all(OutboxReader(channel, Leaving(), lambda: 1), channel)  # type: ignore[arg-type]
        assert [event["cursor"] for event in told][:2] == ["4", "5"]


class Talkative(Broken):
    """Whoever is fed from it is also answered at each page."""

    def __init__(self, asker: Channel, *pages: Missed) -> None:
        super().__init__(*pages)
        self._asker = asker

    async def read(self, tenant_id: TenantId, container_id: ContainerId, session_id: SessionId, after: int) -> Missed:
        self._asker.send(Frame('{"type":"reply"}'))
        return await super().read(tenant_id, container_id, session_id, after)


async def test_the_past_of_many_sessions_leaves_room_for_replies(monkeypatch: pytest.MonkeyPatch) -> None:
    async with open_world(ScriptedDriver()) as world:
        await world.say(world.start(), "one")
        await world.hear("turn_response")
        channel, _ = connect(world, after=0)
        for number in range(3):
            session_id = SessionId(f"sess_{number}")
            world.runtime.broadcaster.subscribe(channel, world.image.container_id, session_id, 0)
        image = world.image
        page = (await world.runtime.replay.read(DEFAULT_TENANT, image.container_id, image.session_id, 0)).events
        monkeypatch.setattr(channel_module, "MAX_FRAMES", len(page) + 1)
        pages = [Missed(page, 2 * page[-1].seq)] + [Missed(page, page[-1].seq)] * 3
        outbox = OutboxReader(channel, Talkative(channel, *pages), lambda: 1)  # type: ignore[arg-type]
        got = [await take(outbox) for _ in pages]
        assert channel.closing is None
        assert [len(frames) for frames in got] == [len(page) + 1] * 4
        # Each session in its turn: the one that is not done comes last.
        assert [subscription.session_id for subscription in channel.lagging] == [image.session_id]


async def behind_a_full_server(world: World, budget: ByteBudget) -> tuple[Channel, OutboxReader]:
    """A peer that has missed a large message, of a tenant whose share others hold."""
    await world.say(world.start(), "x" * 100_000)
    await world.hear("turn_response")
    channel = Channel(Principal(tenant_id=DEFAULT_TENANT), encode_event, budget)
    world.runtime.broadcaster.attach(channel)
    world.runtime.broadcaster.subscribe(channel, world.image.container_id, world.image.session_id, 0)
    assert budget.reserve(DEFAULT_TENANT, budget.share_bytes)
    return channel, OutboxReader(channel, world.runtime.replay, lambda: 1)


async def test_a_peer_that_is_behind_waits_for_room_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outlet_module, "RETRY_SECONDS", 0.01)
    budget = ByteBudget()
    async with open_world(ScriptedDriver()) as world:
        channel, outbox = await behind_a_full_server(world, budget)
        with anyio.fail_after(60):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(take_all, outbox, channel)
                await anyio.wait_all_tasks_blocked()
                assert channel.lagging
                budget.release(DEFAULT_TENANT, budget.share_bytes)
        assert (channel.lagging, channel.closing) == ({}, None)


async def test_a_peer_that_finds_no_room_in_memory_is_told_to_come_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outlet_module, "RETRY_SECONDS", 0.01)
    monkeypatch.setattr(outlet_module, "MEMORY_TIMEOUT_SECONDS", 0.02)
    async with open_world(ScriptedDriver()) as world:
        channel, outbox = await behind_a_full_server(world, ByteBudget())
        with anyio.fail_after(60):
            while await outbox.take():
                pass
        assert channel.closing is SERVER_BUSY
