"""F2: the process dies at every commit of a turn, or between a commit and the telling; the file recovers."""

from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest
from tests.faults.invariants import Frame, check_events, check_messages, check_same, check_texts
from tests.support.engines import photograph

from agentvm.blueprint.image import build
from agentvm.config import ServerConfig
from agentvm.drivers.base import Prompt, ToolSpec, UserEntry
from agentvm.drivers.models import Models
from agentvm.drivers.scripted import ScriptedDriver, ScriptStep, reply, tool_calls
from agentvm.events import CATALOGUE
from agentvm.events.base import Event, EventData
from agentvm.model.definition import Definition
from agentvm.model.ids import DEFAULT_TENANT, ContainerId, id_factory
from agentvm.model.image import Image, ImageConfig
from agentvm.model.limits import Limits
from agentvm.model.message import encode_message
from agentvm.protocol.dialect_v1 import encode_event
from agentvm.runtime import commit_pace
from agentvm.runtime.agent import Agent
from agentvm.runtime.runtime import Runtime, open_runtime
from agentvm.runtime.tools import ServerTools, Tool
from agentvm.storage.base import Committed, SessionWrite
from agentvm.storage.engine import open_store
from agentvm.storage.sql.nodes import Claim
from agentvm.storage.sql.store import Store

C1 = ContainerId("c1")


@dataclass(slots=True)
class Copy:
    """The file as a crash at this moment would leave it, and what the world had seen by then."""

    path: Path
    told: list[Frame]
    runs: int


@dataclass(slots=True)
class World:
    """What is outside of the process: listeners, and what tools have done."""

    told: list[Frame] = field(default_factory=list)
    runs: int = 0

    @property
    def kinds(self) -> Collection[type[EventData]]:
        return tuple(CATALOGUE.values())

    def react(self, event: Event) -> None:
        frame = encode_event(event)
        if frame is not None and event.scope.session_id is not None:
            self.told.append(msgspec.json.decode(frame.bare))

    def tool(self, repeatable: bool) -> Tool:
        async def run(arguments: dict[str, object]) -> object:
            self.runs += 1
            return "done"

        spec = ToolSpec(name="hammer", description="hits", input_schema={"type": "object"})
        return Tool(spec=spec, run=run, repeatable=repeatable)


class Photographed:
    """Keeps a copy of the database after every commit, before anybody hears of it."""

    def __init__(self, store: Store, path: Path, world: World) -> None:
        self._store, self._path, self._world = store, path, world
        self.copies: list[Copy] = []

    async def commit(
        self,
        writes: Sequence[SessionWrite],
        *,
        entry: bytes | None = None,
        forget: int = 0,
        claims: Sequence[Claim] = (),
    ) -> Committed:
        committed = await self._store.commit(writes, entry=entry, forget=forget, claims=claims)
        self.photograph()
        return committed

    def photograph(self) -> None:
        copy = self._path.parent / f"copy-{len(self.copies)}" / self._path.name
        photograph(self._path, copy)
        self.copies.append(Copy(copy, list(self._world.told), self._world.runs))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


def script(prompt: Prompt) -> list[ScriptStep]:
    if isinstance(prompt.conversation[-1], UserEntry):
        return tool_calls(("c1", "hammer", {}), ("c2", "hammer", {}), text="Let me see.")
    return reply("All ", "is ", "well.")


@asynccontextmanager
async def running(
    store: Store, world: World, *, repeatable: bool, start: int, limits: Limits | None = None
) -> AsyncIterator[Runtime]:
    now, numbers = iter(range(start, 10**9)), iter(range(start, 10**9))
    driver = ScriptedDriver(script)
    async with open_runtime(
        store=store,
        models=Models({driver.name: driver}, driver.name),
        tools=ServerTools([own := world.tool(repeatable)], default=[own.spec.name]),
        clock=lambda: next(now),
        new_id=id_factory(lambda: 0, lambda bits: next(numbers)),
        settings=ServerConfig(limits=limits or Limits()),
        effectors=(world,),
    ) as runtime:
        yield runtime


async def finish(store: Store, runtime: Runtime) -> None:
    """Returns when every turn has its end."""
    with anyio.fail_after(200):
        while await store.list_unfinished():
            for agent in runtime.roster.of_container(DEFAULT_TENANT, C1):
                assert isinstance(agent, Agent)
                await agent.rest()


async def read_all(runtime: Runtime, image: Image) -> list[Frame]:
    frames: list[Frame] = []
    while True:
        after = int(frames[-1]["cursor"]) if frames else 0
        missed = await runtime.replay.read(DEFAULT_TENANT, C1, image.session_id, after)
        assert not missed.lost
        if not missed.events:
            return frames
        frames += [msgspec.json.decode(frame.bare) for event in missed.events if (frame := encode_event(event))]


async def check_recovered(store: Store, runtime: Runtime, image: Image, copy: Copy) -> list[Frame]:
    await finish(store, runtime)
    events = await read_all(runtime, image)
    messages = await store.tenant(DEFAULT_TENANT).container(C1).list_messages(image.session_id)
    check_events(events)
    check_texts(events)
    check_messages(events, [msgspec.json.decode(encode_message(message)) for message in messages])
    # Whoever listened before the crash heard nothing that the log does not have.
    check_same(copy.told, events)
    return events


@pytest.fixture(autouse=True)
def every_event_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """As many commits as possible: each is a crash point."""
    monkeypatch.setattr(commit_pace, "COMMIT_INTERVAL_SECONDS", 0.0)


@asynccontextmanager
async def photographed(tmp_path: Path, *, repeatable: bool) -> AsyncIterator[tuple[Image, list[Copy]]]:
    """One turn with two tool calls, photographed at every commit."""
    path, world = tmp_path / "agentvm.db", World()
    async with open_store(path) as store:
        container = store.tenant(DEFAULT_TENANT).container(C1)
        await container.create(1)
        numbers = iter(range(1, 10**9))
        new_id = id_factory(lambda: 0, lambda bits: next(numbers))
        image, session = build(Definition(name="d"), ImageConfig(name="n"), C1, name="", clock=lambda: 1, new_id=new_id)
        await container.add_image(image, session)
        camera = Photographed(store, path, world)
        camera.photograph()
        async with running(camera, world, repeatable=repeatable, start=1_000) as runtime:  # type: ignore[arg-type]  # a double
            agent, _ = runtime.start_agent(DEFAULT_TENANT, image, image.session_id)
            for text in ("go", "and again"):
                agent.release(await agent.receive(text))
            await finish(store, runtime)
        yield image, camera.copies


@pytest.mark.parametrize("repeatable", [True, False])
async def test_f2_a_crash_at_any_commit_is_recovered_from(tmp_path: Path, repeatable: bool) -> None:
    with anyio.fail_after(200):
        async with photographed(tmp_path, repeatable=repeatable) as (image, copies):
            assert len(copies) > 10
            for number, copy in enumerate(copies):
                world = World(runs=copy.runs)
                async with open_store(copy.path) as store:
                    unfinished = len(await store.list_unfinished())
                    async with running(store, world, repeatable=repeatable, start=5_000) as runtime:
                        events = await check_recovered(store, runtime, image, copy)
                    kinds = [event["type"] for event in events]
                    # Each unfinished turn went on, unless somebody had ended the agent.
                    assert kinds.count("turn_resumed") == unfinished
                    outcomes = [event["data"]["outcome"] for event in events if event["type"] == "turn_response"]
                    assert set(outcomes) <= {"completed"}, number
                    # Every call that was told is run or said to be lost; no call is run twice, unless its tool may be repeated.
                    calls = kinds.count("tool_call_message")
                    assert calls >= kinds.count("turn_request")
                    assert repeatable or world.runs <= calls
                    lost = sum("restarted" in event["data"]["error"] for event in events if event["type"] == "tool_failed")
                    assert repeatable or world.runs + lost >= calls
                    # Once recovered, nothing is left over.
                    assert await store.read_journal() == ()


async def test_f2_a_second_crash_during_the_recovery_is_recovered_from_too(tmp_path: Path) -> None:
    with anyio.fail_after(200):
        async with photographed(tmp_path, repeatable=False) as (image, copies):
            for copy in copies[2::4]:
                world = World(runs=copy.runs, told=list(copy.told))
                async with open_store(copy.path) as store:
                    camera = Photographed(store, copy.path, world)
                    async with running(camera, world, repeatable=False, start=5_000) as runtime:  # type: ignore[arg-type]  # a double
                        await finish(store, runtime)
                for again in camera.copies[::3]:
                    async with open_store(again.path) as store:
                        after = World(runs=again.runs)
                        async with running(store, after, repeatable=False, start=9_000) as runtime:
                            await check_recovered(store, runtime, image, again)


async def test_a_turn_that_the_server_never_survives_is_given_up(tmp_path: Path) -> None:
    with anyio.fail_after(200):
        async with photographed(tmp_path, repeatable=False) as (_, copies):
            path, codes, attempts = copies[3].path, list[str](), 0
            while not codes:
                attempts += 1
                world = World()
                async with open_store(path) as store:
                    camera = Photographed(store, path, world)
                    start = 5_000 * attempts
                    async with running(camera, world, repeatable=False, start=start, limits=Limits(attempts=3)) as runtime:  # type: ignore[arg-type]  # a double
                        await finish(store, runtime)
                codes = [frame["data"]["code"] for frame in world.told if frame["type"] == "error_occurred"]
                # It dies again as soon as it has counted that it begins once more, before anything of the turn is read.
                for copy in camera.copies:
                    async with open_store(copy.path) as store:
                        path, counted = copy.path, [turn.attempts for _, turn in await store.list_unfinished()]
                    if counted and max(counted) == attempts:
                        break
            assert attempts == 4
            # With it goes what waited in the same session.
            assert codes == ["turn_limit_reached", "session_quarantined"]
