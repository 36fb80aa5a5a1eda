"""A program and the tools that it calls, in a runtime with one image."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
from tests.runtime.fixtures import World, open_world, tool

from agentvm.drivers.base import ToolSpec
from agentvm.drivers.scripted import ScriptedDriver, in_turn, reply, tool_calls
from agentvm.model.ids import DEFAULT_TENANT
from agentvm.model.message import ToolResultMessage
from agentvm.model.program import ProgramCall
from agentvm.model.wait import ToolWait, WaitAnswer, WaitDecision
from agentvm.runtime.tools import Tool
from agentvm.tools.base import CallContext, CallResult, OtherTools

Script = Callable[[OtherTools], Awaitable[object]]
SPEC = ToolSpec(name="program", description="Runs.", input_schema={"type": "object"})


@dataclass
class Bench:
    """A program, and the tools that it calls; it knows what was really made."""

    script: Script
    made: list[tuple[str, object]] = field(default_factory=list)
    runs: int = 0
    hang: set[str] = field(default_factory=set)
    """Tools that never return."""

    async def run(self, arguments: dict[str, object], context: CallContext) -> CallResult:
        self.runs += 1
        assert context.others is not None
        assert [spec.name for spec in context.others.tools] == ["look", "hammer", "note", "ask_client"]
        return CallResult(type="json", value={"value": await self.script(context.others)})

    def make(self, name: str) -> Callable[[dict[str, object]], Awaitable[object]]:
        async def run(arguments: dict[str, object]) -> object:
            self.made.append((name, arguments.get("n")))
            if name in self.hang:
                await anyio.sleep_forever()
            return {"name": name, "n": arguments.get("n"), "time": len(self.made)}

        return run

    @property
    def tools(self) -> list[Tool]:
        program = Tool(
            spec=SPEC, run=self.make("program"), call=self.run, repeatable=True, effect="write",
            beside=lambda specs: ", ".join(spec.name for spec in specs),
        )  # fmt: skip
        look, hammer, note, client = (tool(name, self.make(name)) for name in ("look", "hammer", "note", "ask_client"))
        return [
            program,
            Tool(spec=look.spec, run=look.run, repeatable=True, world="open"),
            Tool(spec=hammer.spec, run=hammer.run, effect="destructive"),
            Tool(spec=note.spec, run=note.run, effect="write"),
            Tool(spec=client.spec, run=client.run, waits_for="client"),
        ]


@asynccontextmanager
async def running(
    bench: Bench, path: Path | None = None, *more: tuple[str, str], suspends: bool = False
) -> AsyncIterator[World]:
    """A world whose agent has just run the program of the bench, until its turn has ended or is parked."""
    wanted: list[tuple[str, str, dict[str, object]]] = [(call_id, name, {}) for call_id, name in (("p1", "program"), *more)]
    driver = ScriptedDriver(in_turn(tool_calls(*wanted), reply("done")))
    async with open_world(driver, tools=bench.tools, path=path, suspends=suspends) as world:
        await world.say(world.start(), "go")
        yield world


async def open_waits(world: World) -> list[ToolWait]:
    waits = world.store.tenant(DEFAULT_TENANT).waits((world.image.container_id,))
    return [wait for _, wait in await waits.list_page(session_id=None, state="open", after=0, limit=100)]


async def answer(world: World, wait: ToolWait, decision: WaitDecision = "approve", **more: object) -> bool:
    return await world.runtime.answer_wait(DEFAULT_TENANT, wait, WaitAnswer(decision=decision, **more), None)  # type: ignore[arg-type]


async def results(world: World) -> list[tuple[str, str, Any, bool]]:
    return [
        (message.tool_call_id, message.tool_result.output.type, message.tool_result.output.value, message.tool_result.tainted)
        for message in await world.messages()
        if isinstance(message, ToolResultMessage)
    ]


async def value(world: World) -> Any:
    ((_, kind, result, _),) = await results(world)
    assert kind == "json", result
    return result["value"]


async def journal(world: World) -> tuple[ProgramCall, ...]:
    (turn,) = await world.turns()
    log = world.store.tenant(DEFAULT_TENANT).container(world.image.container_id).log(world.image.session_id)
    return await log.list_program(turn.turn_id, "p1")


async def three(others: OtherTools) -> object:
    """Looks, strikes if somebody allows it, and looks again at the result."""
    first = await others.call("look", {"n": 1})
    second = await others.call("hammer", {"n": 2})
    return [first, second, await others.call("look", {"n": second})]


async def ended(world: World) -> None:
    with anyio.fail_after(60):
        while not (turns := await world.turns()) or turns[0].outcome is None:
            await anyio.lowlevel.checkpoint()
