"""Calls that programs make, in timelines, traces and metrics: each by itself, and the time of the program once."""

from tests.observability.test_metrics import counting
from tests.observability.test_timeline import drawn, total
from tests.runtime.fixtures import open_world
from tests.runtime.program_bench import Bench

from agentvm.drivers.scripted import ScriptedDriver, in_turn, reply, tool_calls
from agentvm.observability.spans import Span
from agentvm.observability.tracing import Tracing
from agentvm.tools.base import OtherTools


async def script(others: OtherTools) -> object:
    return [await others.call("look", {"n": 1}), await others.call("note", {"n": 2})]


async def test_calls_of_a_program_are_steps_of_their_own_below_it() -> None:
    spans: list[Span] = []
    counted = counting()
    names = ("program", "look", "note")
    counted._tool_names = lambda: names
    tracing = Tracing(spans.append, tools=lambda: names)
    driver = ScriptedDriver(in_turn(tool_calls(("p1", "program", {})), reply("done")))
    async with open_world(driver, tools=Bench(script).tools, effectors=[tracing, counted]) as world:
        await world.say(world.start(), "go")
        await world.hear("turn_response")
        (line,) = await drawn(world)
    assert [(step.tool_id, step.parent_id, step.name) for step in line.tools] == [
        ("p1", None, "program"), ("p1.1", "p1", "look"), ("p1.2", "p1", "note"),
    ]  # fmt: skip
    program, first, second = line.tools
    times = [program.started_at, first.started_at, first.ended_at, second.started_at, second.ended_at, program.ended_at]
    assert times == sorted(times, key=lambda at: at or 0)
    assert total(line) == line.duration
    tools = {span.name: span for span in spans if span.name.startswith("execute_tool")}
    assert set(tools) == {"execute_tool program", "execute_tool look", "execute_tool note"}
    assert tools["execute_tool note"].start >= tools["execute_tool look"].end
    assert {name: count.completed for name, count in counted.tools.items()} == dict.fromkeys(names, 1)
    assert counted.tool_time.count == 1
