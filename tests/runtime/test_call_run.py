import asyncio
import sys

import anyio
import pytest
from tests.runtime.fixtures import run_tool, tool

from agentvm.errors import ToolFailed
from agentvm.runtime.calls import ToolOutcome
from agentvm.runtime.tools import ToolSet


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
