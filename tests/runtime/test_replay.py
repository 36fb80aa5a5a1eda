import anyio
import pytest
from tests.runtime.fixtures import World, open_world

from agentvm.drivers.base import MessageStarted, TextChunk, TextStarted
from agentvm.drivers.scripted import Pause, ScriptedDriver, reply
from agentvm.errors import SessionNotFound
from agentvm.model.ids import DEFAULT_TENANT, SessionId, TenantId
from agentvm.protocol.dialect_v1 import encode_event
from agentvm.runtime import replay
from agentvm.runtime.replay import Missed
from agentvm.storage.base import LogChunk
from agentvm.storage.sql.log import LogStore


async def read(world: World, after: int) -> Missed:
    image = world.image
    return await world.runtime.replay.read(DEFAULT_TENANT, image.container_id, image.session_id, after)


async def everything(world: World) -> list[tuple[int, str]]:
    """Page by page, as an outbox reads."""
    found: list[tuple[int, str]] = []
    while True:
        missed = await read(world, found[-1][0] if found else 0)
        assert not missed.lost
        if not missed.events:
            return found
        found += [(event.seq, event.data.type) for event in missed.events]


def heard(world: World) -> list[tuple[int, str]]:
    return [(int(event["cursor"]), event["type"]) for event in world.hear_nowait() if "cursor" in event]


@pytest.mark.parametrize("page", [1, 3, 500])
async def test_ended_turns_are_read_from_the_log_and_the_running_one_from_memory(
    page: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replay, "PAGE_EVENTS_MAX", page)
    gate = anyio.Event()
    script = [MessageStarted("", "x"), TextStarted(), TextChunk("partial"), Pause(gate), *reply("whole")[2:]]
    async with open_world(ScriptedDriver(lambda prompt: script)) as world:
        agent = world.start()
        gate.set()
        for text in ("one", "two"):
            await world.say(agent, text)
        await world.hear("turn_response", times=2)
        script[3] = Pause(anyio.Event())
        await world.say(agent, "three")
        await world.hear("text_delta", times=5)
        await anyio.wait_all_tasks_blocked()
        told = heard(world)
        assert await everything(world) == told
        for after in range(len(told)):
            missed = await read(world, after)
            assert [event.seq for event in missed.events] == [seq for seq, _ in told[after : after + page]][
                : len(missed.events)
            ]
            assert missed.events


async def test_a_cursor_from_the_future_or_from_what_was_trimmed_is_lost() -> None:
    async with open_world(ScriptedDriver()) as world:
        agent = world.start()
        for text in ("one", "two"):
            turn_id = await world.say(agent, text)
            await world.hear("turn_response", turn_id=turn_id)
        last = heard(world)[-1][0]
        assert await read(world, last) == Missed([], last)
        assert await read(world, last + 1) == Missed([], last, lost=True)
        assert await world.store.trim_log(10**12, 10**9) >= 1
        assert await read(world, 0) == Missed([], last, lost=True)


async def test_an_empty_session_has_missed_nothing() -> None:
    async with open_world(ScriptedDriver()) as world:
        assert await read(world, 0) == Missed([], 0)
        assert world.runtime.replay.is_current(DEFAULT_TENANT, world.image.session_id, 0, 0)
        assert not world.runtime.replay.is_current(DEFAULT_TENANT, world.image.session_id, 0, 1)


async def test_how_far_a_session_was_told_is_known_while_its_log_is_in_memory() -> None:
    async with open_world(ScriptedDriver()) as world:
        session_id = world.image.session_id
        assert world.runtime.replay.last(DEFAULT_TENANT, session_id) is None
        await world.say(world.start(), "one")
        await world.hear("turn_response")
        assert world.runtime.replay.last(DEFAULT_TENANT, session_id) == heard(world)[-1][0]
        assert world.runtime.replay.last(TenantId("other"), session_id) is None


async def test_another_tenant_reads_nothing() -> None:
    async with open_world(ScriptedDriver()) as world:
        await world.say(world.start(), "secret")
        await world.hear("turn_response")
        image = world.image
        for tenant_id, session_id in ((TenantId("other"), image.session_id), (DEFAULT_TENANT, SessionId("nope"))):
            with pytest.raises(SessionNotFound):
                await world.runtime.replay.read(tenant_id, image.container_id, session_id, 0)


async def test_a_session_that_is_deleted_while_its_log_is_read_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    async with open_world(ScriptedDriver()) as world:
        await world.say(world.start(), "hi")
        await world.hear("turn_response")
        container = world.store.tenant(DEFAULT_TENANT).container(world.image.container_id)
        read_chunks = LogStore.read

        async def read_then_delete(log: LogStore, after: int, limit: int) -> tuple[LogChunk, ...]:
            chunks = await read_chunks(log, after, limit)
            await container.delete_image(world.image.image_id)
            return chunks

        monkeypatch.setattr(LogStore, "read", read_then_delete)
        with pytest.raises(SessionNotFound):
            await read(world, 0)


async def test_many_who_come_back_at_once_are_read_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    reads: list[int] = []
    really = LogStore.read

    async def counted(self: LogStore, after: int, limit: int) -> tuple[LogChunk, ...]:
        reads.append(after)
        return await really(self, after, limit)

    monkeypatch.setattr(LogStore, "read", counted)
    async with open_world(ScriptedDriver()) as world:
        agent = world.start()
        await world.say(agent, "one")
        await world.hear("turn_response")
        await agent.rest()
        told = heard(world)
        found: list[Missed] = []

        async def come_back(after: int) -> None:
            found.append(await read(world, after))

        async with anyio.create_task_group() as tasks:
            for number in range(40):
                tasks.start_soon(come_back, number % 4)
        assert len(reads) == 1
        for missed in found:
            first = missed.events[0].seq
            assert [(event.seq, event.data.type) for event in missed.events] == told[first - 1 :]
        # And what they are sent is encoded once.
        last = [missed.frames(encode_event)[-1] for missed in found]
        assert all(frame is last[0] for frame in last)


async def test_of_a_deleted_session_no_page_is_kept() -> None:
    async with open_world(ScriptedDriver()) as world:
        agent = world.start()
        await world.say(agent, "one")
        await world.hear("turn_response")
        assert (await read(world, 0)).events
        kept = world.runtime.replay._pages
        assert kept.find(DEFAULT_TENANT, world.image.session_id, 1) is not None
        world.runtime.replay.forget(DEFAULT_TENANT, world.image.session_id)
        assert kept.find(DEFAULT_TENANT, world.image.session_id, 1) is None
