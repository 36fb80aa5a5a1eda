import asyncio
import sys

import anyio
import pytest
from tests.runtime.fixtures import tool

from agentvm.errors import ToolFailed
from agentvm.model.limits import Limits
from agentvm.model.message import ToolCall
from agentvm.runtime.tools import Outcome, Toolbox

pytestmark = pytest.mark.anyio


def giving(value: object) -> Toolbox:
    async def run(arguments: dict[str, object]) -> object:
        return value

    return Toolbox([tool("given", run)])


async def run(toolbox: Toolbox, name: str = "given", **arguments: object) -> Outcome:
    with anyio.fail_after(5):
        return await toolbox.run(ToolCall(id="c", name=name, input=arguments), toolbox.names)


async def echo(arguments: dict[str, object]) -> object:
    return arguments


async def test_a_tool_gets_its_input_and_gives_any_json_value() -> None:
    toolbox = Toolbox([tool("echo", echo)])
    assert await run(toolbox, "echo", a=[1, {"b": None}]) == Outcome({"a": [1, {"b": None}]}, False)


async def test_a_failure_is_a_result_with_the_tools_own_words() -> None:
    async def fail(arguments: dict[str, object]) -> object:
        raise ToolFailed("no such city")

    assert await run(Toolbox([tool("fail", fail)]), "fail") == Outcome("no such city", True)


async def test_a_tool_that_hangs_is_ended_at_its_deadline() -> None:
    async def hang(arguments: dict[str, object]) -> object:
        await anyio.sleep_forever()
        return None

    outcome = await run(Toolbox([tool("hang", hang, deadline=0.01)]), "hang")
    assert outcome.is_error
    assert "0.01 seconds" in str(outcome.result)


@pytest.mark.parametrize("name", ["nobody", "", "\x00"])
async def test_a_tool_nobody_has_is_a_result_that_lists_those_there_are(name: str) -> None:
    outcome = await run(Toolbox([tool("echo", echo)]), name)
    assert outcome.is_error
    assert "echo" in str(outcome.result)


async def test_a_tool_that_is_not_allowed_is_like_one_nobody_has() -> None:
    toolbox = Toolbox([tool("echo", echo)])
    outcome = await toolbox.run(ToolCall(id="c", name="echo", input={}), [])
    assert outcome == Outcome("there is no tool named 'echo'; available: none", True)


@pytest.mark.parametrize(
    "value", [object(), {object(): 1}, {"a": {"b": b"\xff".decode("latin1"), "c": object()}}, [1, {"a": "\ud800"}]]
)
async def test_a_value_that_is_no_json_is_a_result_that_says_so(value: object) -> None:
    outcome = await run(giving(value))
    assert outcome.is_error
    assert "given" in str(outcome.result)


async def test_text_comes_out_as_text_json_can_carry() -> None:
    assert await run(giving("a\ud800")) == Outcome("a\ufffd", False)


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

    toolbox = Toolbox([tool("given", run_it)], Limits(tool_output=10))
    assert await run(toolbox) == Outcome(kept, False)


async def test_a_long_error_is_cut_off_too() -> None:
    async def fail(arguments: dict[str, object]) -> object:
        raise ToolFailed("x" * 11)

    outcome = await run(Toolbox([tool("fail", fail)], Limits(tool_output=10)), "fail")
    assert outcome == Outcome("xxxxxxxxxx\n[cut off: the result has 11 characters]", True)


async def test_a_tool_that_ends_its_process_ends_only_itself() -> None:
    async def leave(arguments: dict[str, object]) -> object:
        sys.exit(3)

    assert await run(Toolbox([tool("leave", leave)]), "leave") == Outcome("leave tried to end its process", True)


async def test_a_tool_whose_own_work_was_cancelled_is_a_failed_one() -> None:
    async def wait(arguments: dict[str, object]) -> object:
        raise asyncio.CancelledError

    assert await run(Toolbox([tool("wait", wait)]), "wait") == Outcome("wait was cancelled from within", True)


async def test_a_turn_that_is_cancelled_takes_its_tool_with_it() -> None:
    begun, ended = anyio.Event(), list[Outcome]()

    async def wait(arguments: dict[str, object]) -> object:
        begun.set()
        await anyio.sleep_forever()
        return None

    async def call() -> None:
        ended.append(await run(Toolbox([tool("wait", wait)]), "wait"))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(call)
        await begun.wait()
        tasks.cancel_scope.cancel()
    assert ended == []


def test_specs_are_given_by_name_and_unknown_names_are_found() -> None:
    toolbox = Toolbox([tool("a", echo), tool("b", echo)])
    assert toolbox.names == ("a", "b")
    assert [spec.name for spec in toolbox.specs(None)] == ["a", "b"]
    assert [spec.name for spec in toolbox.specs(("b", "nobody"))] == ["b"]
    assert toolbox.specs(()) == ()
    assert toolbox.unknown(("b", "nobody")) == ("nobody",)
