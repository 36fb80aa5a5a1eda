"""The process dies at every commit of a step with tools of every kind: each call has one result, and no effect too many."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.support.engines import photograph

from agentvm.blueprint.image import build
from agentvm.config import ServerConfig
from agentvm.drivers.base import Prompt, ToolCallStarted, ToolCallStopped, ToolInputChunk, ToolSpec, UserEntry
from agentvm.drivers.models import Models
from agentvm.drivers.scripted import ScriptedDriver, ScriptStep, reply, tool_calls
from agentvm.model.definition import Definition
from agentvm.model.ids import DEFAULT_TENANT, ContainerId, id_factory
from agentvm.model.image import Image, ImageConfig
from agentvm.model.message import ToolCallMessage, ToolResultMessage
from agentvm.model.turn import Turn
from agentvm.model.wait import WaitAnswer
from agentvm.runtime import commit_pace
from agentvm.runtime.agent import Agent
from agentvm.runtime.calls import LOST
from agentvm.runtime.runtime import Runtime, open_runtime
from agentvm.runtime.tools import ServerTools, Tool
from agentvm.storage.base import Committed, SessionWrite
from agentvm.storage.engine import open_store
from agentvm.storage.sql.store import Store
from agentvm.tools.base import CallContext, CallResult

C1 = ContainerId("c1")
ONCE = {"never", "destroy"}
"""Tools whose calls must not be made twice."""
CALLS = {"c1": "keyed", "c2": "never", "c3": "safe", "c4": "destroy", "p1": "program"}
CUT = "cut"
"""A call whose input is no JSON: its tool must not run, with no input either."""
NESTED = ("keyed", "never", "safe")


@dataclass
class Copy:
    """The file as a crash before the next commit leaves it, and the calls that were made by then: tools with keys."""

    path: Path
    made: list[tuple[str, str]] = field(default_factory=list)


@dataclass
class Workshop:
    """The tools, and what they have done."""

    made: list[tuple[str, str]] = field(default_factory=list)

    def tools(self) -> list[Tool]:
        return [self._tool(name) for name in ("keyed", "never", "safe", "destroy", "program")]

    def _tool(self, name: str) -> Tool:
        async def run(arguments: dict[str, object], context: CallContext) -> CallResult:
            if name == "program":
                assert context.others is not None
                value = [await _called(context, other) for other in NESTED]
                return CallResult(type="json", value=value)
            self.made.append((name, context.key))
            return CallResult(type="text", value=f"{name} done")

        async def unused(arguments: dict[str, object]) -> object:
            raise AssertionError

        spec = ToolSpec(name=name, description=name, input_schema={"type": "object"})
        effect: Any = "destructive" if name == "destroy" else "write"
        beside = (lambda specs: "") if name == "program" else None
        return Tool(spec=spec, run=unused, call=run, repeatable=name not in ONCE, effect=effect, beside=beside)


async def _called(context: CallContext, name: str) -> object:
    assert context.others is not None
    try:
        return await context.others.call(name, {})
    except Exception as error:  # noqa: BLE001  # What a program may see is a result of it.
        return str(error)


class Filmed:
    """Keeps a copy of the database after every commit."""

    def __init__(self, store: Store, path: Path, workshop: Workshop) -> None:
        self._store, self._path, self._workshop = store, path, workshop
        self.copies: list[Copy] = []

    async def commit(self, writes: Sequence[SessionWrite], **more: Any) -> Committed:
        if self.copies:
            self.copies[-1].made = list(self._workshop.made)
        committed = await self._store.commit(writes, **more)
        copy = self._path.parent / f"copy-{len(self.copies)}" / self._path.name
        photograph(self._path, copy)
        self.copies.append(Copy(copy, list(self._workshop.made)))
        return committed

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


def script(prompt: Prompt) -> list[ScriptStep]:
    if isinstance(prompt.conversation[-1], UserEntry):
        *asked, end = tool_calls(*((call_id, name, {}) for call_id, name in CALLS.items()))
        cut = (ToolCallStarted(CUT, "keyed"), ToolInputChunk('{"n": '), ToolCallStopped())
        return [*asked[:1], *cut, *asked[1:], end]
    return reply("done")


@asynccontextmanager
async def running(store: Store, workshop: Workshop, start: int) -> AsyncIterator[Runtime]:
    now, numbers, driver = iter(range(start, 10**9)), iter(range(start, 10**9)), ScriptedDriver(script)
    tools = workshop.tools()
    async with open_runtime(
        store=store,
        models=Models({driver.name: driver}, driver.name),
        tools=ServerTools(tools, default=[tool.spec.name for tool in tools]),
        clock=lambda: next(now),
        new_id=id_factory(lambda: 0, lambda bits: next(numbers)),
        settings=ServerConfig(),
    ) as runtime:
        yield runtime


async def finish(store: Store, runtime: Runtime, image: Image) -> Turn:
    """Approves whatever waits, until the turn has ended."""
    log = store.tenant(DEFAULT_TENANT).container(C1).log(image.session_id)
    with anyio.fail_after(200):
        while True:
            for agent in runtime.roster.of_container(DEFAULT_TENANT, C1):
                assert isinstance(agent, Agent)
                await agent.rest()
            waits = store.tenant(DEFAULT_TENANT).waits((C1,))
            for _, wait in await waits.list_page(session_id=None, state="open", after=0, limit=10):
                await runtime.answer_wait(DEFAULT_TENANT, wait, WaitAnswer(decision="approve"), None)
            (turn,) = await log.list_turns()
            if turn.outcome is not None:
                return turn


async def check(store: Store, runtime: Runtime, image: Image, made: list[tuple[str, str]]) -> None:
    turn = await finish(store, runtime, image)
    assert turn.outcome == "completed"
    messages = await store.tenant(DEFAULT_TENANT).container(C1).list_messages(image.session_id)
    results = {one.tool_call_id: one.tool_result for one in messages if isinstance(one, ToolResultMessage)}
    # Of a message that was cut off the calls that were whole.
    asked = {one.tool_call.id: one.tool_call.name for one in messages if isinstance(one, ToolCallMessage)}
    assert set(results) == set(asked)
    assert sum(isinstance(one, ToolResultMessage) for one in messages) == len(asked) > 0
    inside: Any = results["p1"].output.value if "p1" in asked else ()
    values = {f"p1.{number}": said for number, said in enumerate(inside, 1)}
    asked.update((f"p1.{number}", name) for number, name in enumerate(NESTED[: len(values)], 1))
    for call_id, name in asked.items():
        if name == "program":
            continue
        if call_id == CUT:
            assert "not a JSON object" in results[call_id].output.text
            continue
        times = made.count((name, f"{turn.turn_id}/{call_id}"))
        said = values[call_id] if call_id in values else results[call_id].output.text
        # With the same key each time; one that must not be made twice is lost instead.
        assert times == 1 or (times > 1 and name not in ONCE) or (times == 0 and said == LOST), (call_id, times, said)
        assert said == f"{name} done" or (said == LOST and name in ONCE)
    assert {key for _, key in made} <= {f"{turn.turn_id}/{call_id}" for call_id in asked if call_id != CUT}


async def test_a_crash_at_any_commit_of_a_tool_step_makes_no_effect_too_many(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commit_pace, "COMMIT_INTERVAL_SECONDS", 0.0)
    path, workshop = tmp_path / "agentvm.db", Workshop()
    numbers = iter(range(1, 10**9))
    new_id = id_factory(lambda: 0, lambda bits: next(numbers))
    with anyio.fail_after(200):
        async with open_store(path) as store:
            container = store.tenant(DEFAULT_TENANT).container(C1)
            await container.create(1)
            image, session = build(Definition(name="d"), ImageConfig(name="n"), C1, name="", clock=lambda: 1, new_id=new_id)
            await container.add_image(image, session)
            film = Filmed(store, path, workshop)
            async with running(film, workshop, 1_000) as runtime:  # type: ignore[arg-type]  # a double
                agent, _ = runtime.start_agent(DEFAULT_TENANT, image, image.session_id)
                agent.release(await agent.receive("go"))
                await check(store, runtime, image, workshop.made)
        again, lost = 0, 0
        assert len(film.copies) > 10
        for copy in film.copies:
            after = Workshop(list(copy.made))
            async with open_store(copy.path) as store, running(store, after, 5_000) as runtime:
                await check(store, runtime, image, after.made)
                messages = str(await store.tenant(DEFAULT_TENANT).container(C1).list_messages(image.session_id))
            again += len(after.made) - len(set(after.made))
            lost += messages.count(LOST)
        # The crash points were hit: some calls were made again, others lost.
        assert again
        assert lost
