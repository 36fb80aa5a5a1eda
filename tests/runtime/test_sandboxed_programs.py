"""Python programs of a model, in real sandboxes, that call the other tools of the agent."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from tests.operations.fixtures import Desk, open_desk

from agentvm import tool
from agentvm.drivers.base import ToolResultsEntry
from agentvm.drivers.scripted import ScriptedDriver, in_turn, reply, tool_calls
from agentvm.model.ids import DEFAULT_TENANT
from agentvm.model.ledger import TIER_DRIVER
from agentvm.runtime.tools import Tool

pytestmark = pytest.mark.anyio
made: list[str] = []


@tool(effect="read", world="closed")
async def add(a: int, b: int = 1) -> int:
    """Add two numbers."""
    made.append(f"add {a} {b}")
    return a + b


@tool(effect="destructive", world="closed")
async def delete(name: str) -> dict[str, str]:
    """Delete something for good."""
    made.append(f"delete {name}")
    return {"deleted": name}


@tool(effect="read", world="closed")
async def long_text(size: int) -> str:
    """Return a long text."""
    return "x" * size


TOOLS = [add, delete, long_text]


@asynccontextmanager
async def ran(code: str, *, tools: list[Tool] = TOOLS, **config: Any) -> AsyncIterator[tuple[Desk, ScriptedDriver]]:
    """A desk whose agent has been asked to run the program."""
    made.clear()
    driver = ScriptedDriver(in_turn(tool_calls(("p1", "run_python", {"code": code})), reply("done")))
    async with open_desk(driver, tools=tools) as desk:
        image = await desk.create_image(tools=["run_python", *(each.spec.name for each in tools)], **config)
        await desk.ask("message_send", imageId=image["imageId"], content="go")
        yield desk, driver


def result(driver: ScriptedDriver) -> Any:
    told = driver.prompts[-1].conversation[-1]
    assert isinstance(told, ToolResultsEntry)
    return told.results[0].output.value


async def answer(desk: Desk, decision: str, **more: object) -> None:
    (wait,) = (await desk.ask("tool_waits", state="open"))["waits"]
    reply = await desk.ask("tool_answer", waitId=wait["waitId"], fingerprint=wait["fingerprint"], decision=decision, **more)
    assert "errorCode" not in reply


async def test_a_program_calls_tools_and_only_what_it_prints_comes_back() -> None:
    code = "total = 0\nfor n in range(10):\n    total = tools.add(total, b=n)\nprint(total)\ntools.add(total)"
    async with ran(code) as (desk, driver):
        await desk.hear("turn_response")
        told = result(driver)
        assert (told["exitCode"], told["stdout"], told["value"]) == (0, "45\n", 46)
        assert len(made) == 11
        assert "tools.add(a, b=…), tools.delete(name), tools.long_text(size)" in driver.prompts[0].tools[0].description
        assert [message["role"] for message in (await history(desk))] == ["user", "assistant", "assistant", "tool", "assistant"]


async def history(desk: Desk) -> list[dict[str, Any]]:
    (image,) = (await desk.ask("image_list"))["records"]
    return list((await desk.ask("session_messages", sessionId=image["sessionId"]))["messages"])


async def test_a_program_waits_for_an_approval_and_goes_on() -> None:
    code = """
import random
n = tools.add(1, 2)
print("before")
print(tools.delete(f"order {n}")["deleted"], random.random() >= 0)
"""
    async with ran(code) as (desk, driver):
        await desk.hear("turn_parked")
        assert made == ["add 1 2"]
        await answer(desk, "approve")
        await desk.hear("turn_response")
        assert made == ["add 1 2", "delete order 3"]
        # The output is that of one run, as if it had not waited.
        assert result(driver)["stdout"] == "before\norder 3 True\n"
        # Each run took time of a sandbox, and the ledger takes a key once.
        ledger = [entry for _, entry in await desk.vm.store.accounts(DEFAULT_TENANT).ledger.list()]
        jobs = [entry for entry in ledger if entry.driver == TIER_DRIVER]
        assert len({entry.key for entry in jobs}) == len(jobs) == 2
        assert all(entry.wall_ms for entry in jobs)


@pytest.mark.parametrize("ending", ["tools.delete('b')", "pass"])
async def test_a_program_that_makes_another_call_when_it_is_run_again_is_stopped_and_nothing_further_is_made(
    ending: str,
) -> None:
    code = f"""
import time
first = tools.add(time.time_ns())
try:
    tools.delete("a")
except ToolError:
    {ending}
"""
    async with ran(code) as (desk, driver):
        await desk.hear("turn_parked")
        assert len(made) == 1
        await answer(desk, "deny")
        await desk.hear("turn_response")
        assert len(made) == 1
        told = driver.prompts[-1].conversation[-1]
        assert isinstance(told, ToolResultsEntry)
        assert "its call 1 is not the one of the first run" in told.results[0].output.text


async def test_files_that_a_program_left_before_it_waited_are_those_of_its_last_run() -> None:
    code = """
import os
n = len(os.listdir("."))
open(f"file{n}.txt", "w").write("x")
tools.delete("a")
print(sorted(os.listdir(".")))
"""
    async with ran(code) as (desk, driver):
        await desk.hear("turn_parked")
        await answer(desk, "approve")
        await desk.hear("turn_response")
        told = result(driver)
        assert (told["stdout"], told["files"]) == ("['file0.txt']\n", ["file0.txt"])


async def test_files_that_others_change_while_a_program_waits_do_not_change_what_it_sees() -> None:
    code = "before = open('a.txt').read()\nopen('b.txt', 'w').write(before)\ntools.delete(before)\nprint(before)"
    made.clear()
    write: list[tuple[str, str, dict[str, object]]] = [
        (call_id, "write_file", {"path": "a.txt", "content": text}) for call_id, text in (("w1", "one"), ("w2", "two"))
    ]
    program: tuple[str, str, dict[str, object]] = ("p1", "run_python", {"code": code})
    look: tuple[str, str, dict[str, object]] = (
        "r1",
        "run_python",
        {"code": "print(open('a.txt').read(), open('b.txt').read())"},
    )
    steps = (tool_calls(write[0]), tool_calls(program, write[1]), tool_calls(look), reply("done"))
    driver = ScriptedDriver(in_turn(*steps))
    async with open_desk(driver, tools=TOOLS) as desk:
        image = await desk.create_image(tools=["run_python", "write_file", "delete"])
        await desk.ask("message_send", imageId=image["imageId"], content="go")
        await desk.hear("turn_parked")
        await answer(desk, "approve")
        await desk.hear("turn_response")
        assert made == ["delete one"]
        assert result(driver)["stdout"] == "two one\n"


async def test_a_denied_call_is_an_error_that_the_program_can_handle() -> None:
    code = "try:\n    tools.delete('a')\nexcept ToolError as error:\n    print(error)"
    async with ran(code) as (desk, driver):
        await desk.hear("turn_parked")
        await answer(desk, "deny", reason="not today")
        await desk.hear("turn_response")
        assert result(driver)["stdout"] == "The call was denied: not today\n"
        assert made == []


async def test_a_program_that_depends_on_the_clock_is_told_so() -> None:
    code = "import time\ntools.add(time.time_ns())\ntools.delete('a')"
    async with ran(code) as (desk, driver):
        await desk.hear("turn_parked")
        await answer(desk, "approve")
        await desk.hear("turn_response")
        assert "its call 1 is not the one of the first run: that was add, this is add with" in result(driver)
        assert len(made) == 1


@pytest.mark.parametrize(
    ("code", "error"),
    [
        (
            "tools.calculator(expression='1+1')",
            "AttributeError: there is no tool 'calculator'; there are: add, delete",
        ),
        ("tools.run_python(code='1')", "AttributeError: there is no tool 'run_python'"),
        ("tools.add(a='one')", "ToolError: The input does not fit"),
        ("while True:\n    tools.add(1)", "ToolError: The call was not made: a turn makes 200 tool calls at most"),
    ],
)
async def test_a_call_that_cannot_be_made_is_an_error_of_the_program(code: str, error: str) -> None:
    async with ran(code) as (desk, driver):
        await desk.hear("turn_response")
        assert error in result(driver)["stderr"]
        assert "roles.py" not in result(driver)["stderr"]


async def test_a_result_of_many_megabytes_reaches_the_program_and_not_the_model() -> None:
    async with ran("print(len(tools.long_text(12_000_000)))") as (desk, driver):
        await desk.hear("turn_response")
        assert result(driver)["stdout"] == "12000000\n"
        assert sum(len(str(event)) for event in desk.heard) < 100_000


async def test_a_program_that_floods_its_output_is_ended_and_its_calls_count() -> None:
    async with ran("tools.add(1)\nwhile True:\n    print('x' * 10_000)") as (desk, driver):
        await desk.hear("turn_response")
        assert '"truncated":true' in result(driver)
        assert made == ["add 1 1"]


async def test_threads_call_one_after_the_other() -> None:
    code = """
from concurrent.futures import ThreadPoolExecutor
with ThreadPoolExecutor(4) as pool:
    print(sum(pool.map(lambda n: tools.add(n, 0), range(8))))
"""
    async with ran(code) as (desk, driver):
        await desk.hear("turn_response")
        assert result(driver)["stdout"] == "28\n"


async def test_a_program_in_a_sandbox_with_a_network_has_no_tools() -> None:
    driver = ScriptedDriver(in_turn(reply("hi")))
    async with open_desk(driver, tools=TOOLS) as desk:
        network = {"mode": "allowlist", "allow": ["example.org"]}
        await desk.publish("sandboxes", "box", {"runtime": "python", "network": network})
        image = await desk.create_image(tools=["run_python", "add"], sandbox="resource://sandboxes/box")
        await desk.ask("message_send", imageId=image["imageId"], content="go")
        await desk.hear("turn_response")
        assert "tools." not in driver.prompts[0].tools[0].description
