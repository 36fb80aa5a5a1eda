import sys

import anyio
import pytest

from agentvm.model.ids import DEFAULT_TENANT, ContainerId, SessionId
from agentvm.model.principal import Principal
from agentvm.protocol.codec import Frame
from agentvm.protocol.dialect_v1 import encode_event
from agentvm.runtime import channel as channel_module
from agentvm.runtime.channel import (
    GOING_AWAY,
    GONE,
    LARGE_CHARACTERS,
    MAX_BYTES,
    MAX_FRAMES,
    MAX_LARGE,
    MAX_UNREAD_BYTES,
    RESERVE_FACTOR,
    SERVER_BUSY,
    TOO_SLOW,
    Channel,
    Subscription,
)
from agentvm.sharing.byte_budget import ByteBudget
from agentvm.sharing.reservation import FREE_BYTES


def open_channel() -> Channel:
    return Channel(Principal(tenant_id=DEFAULT_TENANT), encode_event)


async def take(channel: Channel) -> list[str]:
    with anyio.fail_after(60):
        return [frame.bare for frame in await channel.take()]


async def test_frames_are_taken_together_and_in_order() -> None:
    channel = open_channel()
    for number in range(5):
        channel.send(Frame(str(number)))
    assert await take(channel) == ["0", "1", "2", "3", "4"]


async def test_who_takes_waits_for_the_first_frame() -> None:
    channel = open_channel()
    taken: list[str] = []

    async def reader() -> None:
        taken.extend(await take(channel))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(reader)
        await anyio.wait_all_tasks_blocked()
        assert taken == []
        channel.send(Frame("late"))
    assert taken == ["late"]


async def test_a_peer_with_too_many_frames_is_cut_off_and_gets_nothing_more() -> None:
    channel = open_channel()
    for number in range(MAX_FRAMES * RESERVE_FACTOR):
        channel.send(Frame(str(number)))
    before = channel.closing
    channel.send(Frame("one too many"))
    assert (before, channel.closing) == (None, TOO_SLOW)
    channel.send(Frame("after the end"))
    assert await take(channel) == []


async def test_a_peer_with_too_many_bytes_is_cut_off() -> None:
    channel = open_channel()
    for _ in range(MAX_BYTES * RESERVE_FACTOR // LARGE_CHARACTERS):
        channel.send(Frame("x" * LARGE_CHARACTERS))
    before = channel.closing
    channel.send(Frame("x"))
    assert (before, channel.closing) == (None, TOO_SLOW)


@pytest.mark.parametrize("size", [1, LARGE_CHARACTERS])
async def test_events_leave_room_for_replies(size: int) -> None:
    channel = open_channel()
    events = [Frame("x" * size)] * MAX_FRAMES
    assert channel.offer_all(events) == min(MAX_FRAMES, MAX_BYTES // size)
    assert not channel.offer(events[0])
    channel.send(Frame("reply"))
    assert (channel.closing, (await take(channel))[-1]) == (None, "reply")


async def test_a_large_frame_neither_waits_for_the_small_ones_nor_stands_in_their_way() -> None:
    channel = open_channel()
    history = Frame("x" * (MAX_BYTES + 1))
    for frame in (Frame("before"), history, Frame("after")):
        channel.send(frame)
    assert channel.closing is None
    assert await take(channel) == ["before", history.bare, "after"]


async def test_a_peer_with_too_many_large_frames_is_cut_off() -> None:
    channel = open_channel()
    large = Frame("x" * (MAX_LARGE // 4))
    for _ in range(4):
        channel.send(large)
    before = channel.closing
    channel.send(large)
    assert (before, channel.closing) == (None, TOO_SLOW)


async def test_a_peer_that_reads_is_never_too_slow() -> None:
    channel = open_channel()
    for _ in range(5):
        for _ in range(MAX_FRAMES):
            channel.send(Frame("x"))
        assert len(await take(channel)) == MAX_FRAMES
    assert channel.closing is None


async def test_what_was_queued_before_the_end_is_delivered_then_nothing() -> None:
    channel = open_channel()
    channel.send(Frame("last words"))
    channel.close(GOING_AWAY)
    channel.send(Frame("too late"))
    assert await take(channel) == ["last words"]
    assert await take(channel) == []
    assert await take(channel) == []


async def test_the_first_reason_wins_and_wakes_whoever_waits() -> None:
    channel = open_channel()
    told: list[object] = []
    channel.on_ready = lambda: told.append(channel.closing)
    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(channel.take)
            await anyio.wait_all_tasks_blocked()
            channel.close(GOING_AWAY)
    channel.close(GONE)
    assert told == [GOING_AWAY]
    assert channel.closing is GOING_AWAY


async def test_a_mirror_hears_everything_with_a_bound_of_its_own() -> None:
    channel = open_channel()
    mirror = channel.mirror = open_channel()
    for number in range(MAX_FRAMES * RESERVE_FACTOR + 1):
        channel.send(Frame(str(number)))
        await take(channel)
    assert channel.closing is None
    assert mirror.closing is TOO_SLOW


def charged(budget: ByteBudget) -> Channel:
    return Channel(Principal(tenant_id=DEFAULT_TENANT), encode_event, budget)


async def test_what_waits_is_charged_until_who_took_it_takes_again() -> None:
    budget = ByteBudget()
    channel = charged(budget)
    channel.send(Frame("x" * FREE_BYTES))
    assert budget.reserved == 0
    channel.send(Frame("x" * 500_000))
    assert budget.reserved >= channel.unread == FREE_BYTES + 500_000
    await take(channel)
    assert budget.reserved >= 500_000
    channel.send(Frame("next"))
    await take(channel)
    assert (budget.reserved, channel.unread) == (0, 4)


async def test_a_text_that_is_not_ascii_is_charged_for_what_it_takes() -> None:
    channel = charged(ByteBudget())
    channel.send(Frame("\u4e2d" * 100_000))
    assert channel.unread == 400_000


async def test_a_frame_that_there_is_no_room_for_ends_the_channel_and_frees_what_waits() -> None:
    budget = ByteBudget(total_bytes=1_000_000)
    channel, other = charged(budget), charged(budget)
    channel.send(Frame("x" * 700_000))
    assert not other.offer(Frame("x" * 700_000))
    before = other.closing
    for one in (other, channel):
        one.send(Frame("x" * 700_000))
    assert (before, other.closing, channel.closing) == (None, SERVER_BUSY, SERVER_BUSY)
    assert budget.reserved == 0


async def test_a_peer_that_is_gone_holds_nothing() -> None:
    budget = ByteBudget()
    channel = charged(budget)
    channel.send(Frame("x" * 500_000))
    await take(channel)
    channel.send(Frame("x" * 500_000))
    channel.release()
    assert (budget.reserved, channel.unread) == (0, 0)


async def test_a_command_waits_until_the_peer_has_read_enough() -> None:
    channel = charged(ByteBudget())
    with anyio.fail_after(60):
        await channel.read()
        channel.send(Frame("x" * (MAX_UNREAD_BYTES + 1)))
        passed: list[str] = []

        async def wait() -> None:
            await channel.read()
            passed.append("read")

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(wait)
            await anyio.wait_all_tasks_blocked()
            await take(channel)
            await anyio.wait_all_tasks_blocked()
            assert passed == []
            tasks.start_soon(channel.take)
            await anyio.wait_all_tasks_blocked()
            assert passed == ["read"]
            channel.send(Frame("the end"))
    assert channel.closing is None


async def test_a_peer_that_reads_nothing_for_long_is_too_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(channel_module, "UNREAD_SECONDS", 0.01)
    channel = charged(ByteBudget())
    channel.send(Frame("x" * (MAX_UNREAD_BYTES + 1)))
    with anyio.fail_after(60):
        await channel.read()
    assert channel.closing is TOO_SLOW


async def test_who_waits_for_a_peer_to_read_hears_of_its_end() -> None:
    channel = charged(ByteBudget())
    channel.send(Frame("x" * (MAX_UNREAD_BYTES + 1)))
    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(channel.read)
            await anyio.wait_all_tasks_blocked()
            channel.close(GONE)


async def test_a_peer_that_follows_again_is_as_small_as_before() -> None:
    channel = open_channel()
    size = sys.getsizeof(channel.lagging)
    subscriptions = [Subscription(ContainerId("c1"), SessionId(name)) for name in ("s1", "s2")]
    for subscription in subscriptions:
        channel.fall_behind(subscription)
    channel.keep_up(subscriptions[0])
    assert list(channel.lagging) == [subscriptions[1]]
    channel.keep_up(subscriptions[1])
    assert sys.getsizeof(channel.lagging) == size
