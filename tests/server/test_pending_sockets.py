from contextlib import ExitStack

import anyio

from agentvm.runtime.channel import GOING_AWAY, Closing
from agentvm.server.pending_sockets import CROWDED, PENDING_MAX, PENDING_PER_ORIGIN_MAX, PendingSocket, PendingSockets


def gone(rooms: list[PendingSocket]) -> list[int]:
    return [number for number, room in enumerate(rooms) if room.closing is not None]


async def test_the_oldest_of_one_address_makes_way_and_nobody_elses() -> None:
    rooms = PendingSockets()
    with ExitStack() as inside:
        other = inside.enter_context(rooms.take("203.0.113.9"))
        own = [inside.enter_context(rooms.take("203.0.113.5")) for _ in range(PENDING_PER_ORIGIN_MAX + 2)]
        assert gone(own) == [0, 1]
        assert own[0].closing == CROWDED
        assert other.closing is None
        assert len(rooms) == PENDING_PER_ORIGIN_MAX + 1
    assert len(rooms) == 0


async def test_in_all_the_oldest_of_the_most_crowded_address_makes_way() -> None:
    rooms = PendingSockets()
    with ExitStack() as inside:
        lonely = inside.enter_context(rooms.take("203.0.113.9"))
        crowd = [inside.enter_context(rooms.take("203.0.113.5")) for _ in range(PENDING_PER_ORIGIN_MAX)]
        rest = [inside.enter_context(rooms.take(f"10.1.{number}.1")) for number in range(PENDING_MAX - len(crowd) - 1)]
        assert len(rooms) == PENDING_MAX
        newcomer = inside.enter_context(rooms.take("198.51.100.1"))
        assert gone(crowd) == [0]
        assert gone([lonely, newcomer, *rest]) == []
        assert len(rooms) == PENDING_MAX


async def test_a_wait_ends_with_what_came_of_it_or_with_why_it_was_ended() -> None:
    async def said() -> str:
        return "hello"

    with anyio.fail_after(60):
        assert await PendingSocket().hold(said()) == "hello"
        room, why = PendingSocket(), Closing(4000, "go")
        room.dismiss(why)
        assert await room.hold(anyio.sleep_forever()) == why


async def test_clearing_returns_when_everybody_has_left() -> None:
    rooms, heard = PendingSockets(), []

    async def wait() -> None:
        with rooms.take("a") as room:
            heard.append(await room.hold(anyio.sleep_forever()))

    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            for _ in range(3):
                tasks.start_soon(wait)
            await anyio.wait_all_tasks_blocked()
            await rooms.clear(GOING_AWAY)
            assert heard == [GOING_AWAY] * 3
