import asyncio
import hashlib
import sys
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import replace

import anyio
import msgspec
import pytest
from tests.runtime.fixtures import open_world, run_tool, tool, types

from agentvm.drivers.base import ToolResultsEntry
from agentvm.drivers.scripted import ScriptedDriver, in_turn, reply, tool_calls
from agentvm.errors import ToolFailed
from agentvm.events.base import Event
from agentvm.events.tool import ToolAbandoned
from agentvm.model.limits import Limits
from agentvm.model.message import ContentOutput, ImagePart, TextPart, ToolResultMessage
from agentvm.resources.kind import VALUES_MAX
from agentvm.runtime.builtin_tools import builtin_tools
from agentvm.runtime.calls import ToolOutcome
from agentvm.runtime.tools import ToolSet
from agentvm.tools.base import CallContext, CallProgress, CallResult, ResultImage, ResultText

PIXEL = b"\x89PNG pixel"


def giving(value: object) -> ToolSet:
    async def run(arguments: dict[str, object]) -> object:
        return value

    return ToolSet([tool("given", run)])


async def echo(arguments: dict[str, object]) -> object:
    return arguments


async def test_a_tool_gets_its_input_and_gives_any_json_value() -> None:
    tools = ToolSet([tool("echo", echo)])
    assert await run_tool(tools, "echo", a=[1, {"b": None}]) == ToolOutcome({"a": [1, {"b": None}]}, False)


async def test_a_failure_is_a_result_with_the_tools_own_words() -> None:
    async def fail(arguments: dict[str, object]) -> object:
        raise ToolFailed("no such city")

    assert await run_tool(ToolSet([tool("fail", fail)]), "fail") == ToolOutcome("no such city", True)


async def test_a_tool_that_hangs_is_ended_at_its_deadline() -> None:
    async def hang(arguments: dict[str, object]) -> object:
        await anyio.sleep_forever()
        return None

    outcome = await run_tool(ToolSet([tool("hang", hang, timeout_seconds=0.01)]), "hang")
    assert outcome.is_error
    assert "0.01 seconds" in str(outcome.result)


@pytest.mark.parametrize("name", ["nobody", "", "\x00"])
async def test_a_tool_nobody_has_is_a_result_that_lists_those_there_are(name: str) -> None:
    outcome = await run_tool(ToolSet([tool("echo", echo)]), name)
    assert outcome.is_error
    assert "echo" in str(outcome.result)


@pytest.mark.parametrize(
    "value", [object(), {object(): 1}, {"a": {"b": b"\xff".decode("latin1"), "c": object()}}, [1, {"a": "\ud800"}]]
)
async def test_a_value_that_is_no_json_is_a_result_that_says_so(value: object) -> None:
    outcome = await run_tool(giving(value))
    assert outcome.is_error
    assert "given" in str(outcome.result)


async def test_text_comes_out_as_text_json_can_carry() -> None:
    assert await run_tool(giving("a\ud800")) == ToolOutcome("a\ufffd", False)


@pytest.mark.parametrize(
    ("value", "kept"),
    [
        ("x" * 11, "xxxxxxxxxx\n[cut off: the result has 11 characters]"),
        ("a" * 9 + "\ud800" + "b", "aaaaaaaaa\ufffd\n[cut off: the result has 11 characters]"),
        ({"a": [1, 2, 3]}, '{"a":[1,2,\n[cut off: the result has 13 characters]'),
        ("x" * 10, "x" * 10),
        ([1, 2, 3], [1, 2, 3]),
    ],
)
async def test_a_long_result_is_cut_off_and_says_so(value: object, kept: object) -> None:
    async def run_it(arguments: dict[str, object]) -> object:
        return value

    tools = ToolSet([tool("given", run_it)])
    assert await run_tool(tools, output_max=10) == ToolOutcome(kept, False)


async def test_a_long_error_is_cut_off_too() -> None:
    async def fail(arguments: dict[str, object]) -> object:
        raise ToolFailed("x" * 11)

    outcome = await run_tool(ToolSet([tool("fail", fail)]), "fail", output_max=10)
    assert outcome == ToolOutcome("xxxxxxxxxx\n[cut off: the result has 11 characters]", True)


async def test_a_tool_that_ends_its_process_ends_only_itself() -> None:
    async def leave(arguments: dict[str, object]) -> object:
        sys.exit(3)

    assert await run_tool(ToolSet([tool("leave", leave)]), "leave") == ToolOutcome("leave tried to end its process", True)


async def test_a_tool_whose_own_work_was_cancelled_is_a_failed_one() -> None:
    async def wait(arguments: dict[str, object]) -> object:
        raise asyncio.CancelledError

    assert await run_tool(ToolSet([tool("wait", wait)]), "wait") == ToolOutcome("wait was cancelled from within", True)


async def test_a_turn_that_is_cancelled_takes_its_tool_with_it() -> None:
    begun, ended = anyio.Event(), list[ToolOutcome]()

    async def wait(arguments: dict[str, object]) -> object:
        begun.set()
        await anyio.sleep_forever()
        return None

    async def call() -> None:
        ended.append(await run_tool(ToolSet([tool("wait", wait)]), "wait"))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(call)
        await begun.wait()
        tasks.cancel_scope.cancel()
    assert ended == []


async def test_an_input_that_does_not_fit_is_a_result_with_paths_and_the_tool_does_not_run() -> None:
    ran = list[object]()

    async def run(arguments: dict[str, object]) -> object:
        ran.append(arguments)
        return "ran"

    schema = {"type": "object", "properties": {"rows": {"items": {"type": "integer"}}}, "required": ["label"]}
    plain = tool("given", run)
    tools = ToolSet([replace(plain, spec=msgspec.structs.replace(plain.spec, input_schema=schema))])
    outcome = await run_tool(tools, rows=["a"] * 30)
    assert outcome.output.type == "error-text"
    assert "rows.0: " in str(outcome.result)
    assert "rows.18: " in str(outcome.result)
    assert str(outcome.result).count("rows.") <= 20
    assert (await run_tool(tools, label="n", rows=[1])).result == "ran"
    assert ran == [{"label": "n", "rows": [1]}]


async def test_built_in_tools_check_their_input_too() -> None:
    tools = ToolSet(builtin_tools(lambda: 0))
    outcome = await run_tool(tools, "calculator", 1_000, expression=7)
    assert (outcome.is_error, "expression" in str(outcome.result)) == (True, True)


async def test_an_input_a_hundred_levels_deep_or_of_ten_megabytes_fails_nobody() -> None:
    deep: object = 1
    for _ in range(100):
        deep = {"a": deep}
    tools = ToolSet([tool("echo", echo)])
    outcome = await run_tool(tools, "echo", 1_000, deep=deep)
    assert isinstance(outcome.result, str | dict)
    large = await run_tool(tools, "echo", 1_000, text="x" * 10 * 2**20)
    assert str(large.result).endswith("characters]")
    many = await run_tool(tools, "echo", 1_000, rows=[0] * (VALUES_MAX + 1))
    assert (many.is_error, "values" in str(many.result)) == (True, True)


async def test_so_many_calls_of_a_turn_run_at_a_time_and_no_more() -> None:
    running, most, free = 0, 0, anyio.Event()

    async def run(arguments: dict[str, object]) -> object:
        nonlocal running, most
        running += 1
        most = max(most, running)
        if running == 3:
            free.set()
        await free.wait()
        running -= 1
        return "ok"

    calls = tool_calls(*((f"c{number}", "given", {}) for number in range(9)))
    driver = ScriptedDriver(in_turn(calls, reply("done")))
    async with open_world(driver, tools=[tool("given", run)], limits=Limits(tool_parallel=3)) as world:
        await world.say(world.start(), "go")
        heard = await world.hear("turn_response")
    assert (most, types(heard).count("tool_completed")) == (3, 9)


async def test_a_turn_makes_so_many_tool_calls_and_no_more() -> None:
    calls = tool_calls(*((f"c{number}", "echo", {}) for number in range(5)))
    driver = ScriptedDriver(in_turn(calls, reply("done")))
    async with open_world(driver, tools=[tool("echo", echo)], limits=Limits(tool_calls=3)) as world:
        await world.say(world.start(), "go")
        heard = await world.hear("turn_response")
        failed = [event["data"]["error"] for event in heard if event["type"] == "tool_failed"]
        assert failed == ["The call was not made: a turn makes 3 tool calls at most."] * 2
        assert heard[-1]["data"]["outcome"] == "failed"


async def test_progress_is_told_and_moves_the_deadline() -> None:
    async def run(arguments: Mapping[str, object], context: CallContext) -> CallResult:
        for number in range(20):
            context.progress(CallProgress(progress=number, total=20, message="row"))
        return CallResult(type="text", value="done")

    slow = replace(tool("slow", echo), call=run)
    driver = ScriptedDriver(in_turn(tool_calls(("c1", "slow", {})), reply("done")))
    async with open_world(driver, tools=[slow]) as world:
        await world.say(world.start(), "go")
        heard = await world.hear("turn_response")
    told = [event["data"] for event in heard if event["type"] == "tool_progress"]
    assert [data["progress"] for data in told] == [0, 19]
    assert (told[0]["toolId"], told[0]["total"], told[0]["message"]) == ("c1", 20, "row")
    assert types(heard).index("tool_progress") < types(heard).index("tool_result")


async def paint(arguments: Mapping[str, object], context: CallContext) -> CallResult:
    return CallResult(type="content", parts=(ResultText(text="A plot."), ResultImage(data=PIXEL, media_type="image/png")))


async def test_a_picture_is_stored_linked_and_shown_to_the_model() -> None:
    driver = ScriptedDriver(in_turn(tool_calls(("c1", "paint", {})), reply("a plot"), reply("the same")))
    async with open_world(driver, tools=[replace(tool("paint", echo), call=paint)]) as world:
        await world.say(world.start(), "go")
        heard = await world.hear("turn_response")
        (result,) = [one.tool_result for one in await world.messages() if isinstance(one, ToolResultMessage)]
        reference = f"attachment:sha256:{hashlib.sha256(PIXEL).hexdigest()}"
        image = ImagePart(data=reference, media_type="image/png")
        assert result.output == ContentOutput(value=(TextPart(text="A plot."), image))
        (completed,) = [event["data"]["result"] for event in heard if event["type"] == "tool_completed"]
        assert completed == [
            {"type": "text", "text": "A plot."},
            {"type": "image", "data": reference, "mediaType": "image/png"},
        ]
        # The model sees the bytes now and in every later turn, also after the attachments were collected.
        await world.store.collect(10**15, grace=0)
        await world.say(world.start(), "again")
        await world.hear("turn_response", times=2)
        for prompt in driver.prompts[1:]:
            (told,) = [entry for entry in prompt.conversation if isinstance(entry, ToolResultsEntry)]
            output = told.results[0].output
            assert isinstance(output, ContentOutput)
            assert output.value[1] == ImagePart(data=b64encode(PIXEL).decode(), media_type="image/png")


@pytest.mark.parametrize("shielded", [False, True])
@pytest.mark.parametrize("moment", ["turn_request", "tool_use_start", "tool_planned", "tool_executing", "tool_call_message",
                                    "message_stop", "tool_progress"])  # fmt: skip
async def test_a_turn_that_is_stopped_at_any_event_ends_within_200_ms(moment: str, shielded: bool) -> None:
    free = anyio.Event()

    async def run(arguments: Mapping[str, object], context: CallContext) -> CallResult:
        context.progress(CallProgress(progress=1))
        with anyio.CancelScope(shield=shielded):
            await free.wait()
        return CallResult(type="text", value="late")

    driver = ScriptedDriver(in_turn(tool_calls(("c1", "slow", {})), reply("done")))
    async with open_world(driver, tools=[replace(tool("slow", echo), call=run)]) as world:
        agent = world.start()
        await world.say(agent, "go")
        await world.hear(moment)
        before = anyio.current_time()
        try:
            agent.cancel(await agent.interrupt())
            heard = await world.hear("turn_response")
        finally:
            free.set()
        # Ten times the goal, because the machine may be busy; a tool that is awaited would never end here.
        assert anyio.current_time() - before < 2.0
        assert heard[-1]["data"]["outcome"] == "interrupted"


async def test_a_tool_that_was_abandoned_is_counted() -> None:
    free, counted = anyio.Event(), Abandoned()

    async def run(arguments: dict[str, object]) -> object:
        with anyio.CancelScope(shield=True):
            await free.wait()
        return "late"

    driver = ScriptedDriver(in_turn(tool_calls(("c1", "stubborn", {})), reply("done")))
    stubborn = tool("stubborn", run, timeout_seconds=0.01)
    async with open_world(driver, tools=[stubborn], effectors=[counted]) as world:
        await world.say(world.start(), "go")
        try:
            heard = await world.hear("turn_response")
        finally:
            free.set()
        assert "did not finish within 0.01 seconds" in str([event["data"] for event in heard if event["type"] == "tool_failed"])
        assert counted.names == ["stubborn"]


class Abandoned:
    """Hears of tools that were abandoned."""

    kinds = (ToolAbandoned,)

    def __init__(self) -> None:
        self.names = list[str]()

    def react(self, event: Event) -> None:
        if isinstance(event.data, ToolAbandoned):
            self.names.append(event.data.tool_name)
