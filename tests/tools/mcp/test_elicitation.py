"""Questions of MCP servers in turns: they are waits, survive a restart, and are asked again when the server has forgotten."""

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest
from tests.operations.fixtures import Desk
from tests.support.mcp_process import SERVER
from tests.support.oauth import json
from tests.support.web import Asked, Replied, web
from tests.tools.mcp.test_turns import McpWeb, register, settings

from agentvm.app import open_agentvm
from agentvm.config import ServerConfig, SystemSettings
from agentvm.drivers.base import Prompt, ToolResultsEntry
from agentvm.drivers.scripted import ScriptedDriver, reply, tool_calls
from agentvm.model.ids import DEFAULT_TENANT

pytestmark = pytest.mark.anyio
COLOUR = {"colour": {"colour": "blue"}}
QUESTION = {
    "mode": "form",
    "message": "Which\u200b colour?",
    "requestedSchema": {"type": "object", "properties": {"colour": {"type": "string"}}, "required": ["colour"]},
}


@asynccontextmanager
async def opened(folder: Path, tool: str) -> AsyncIterator[tuple[Desk, ScriptedDriver]]:
    """One run of a server whose agent calls a tool once."""

    def script(prompt: Prompt) -> Any:
        done = isinstance(prompt.conversation[-1], ToolResultsEntry)
        return reply("done") if done else tool_calls(("c1", tool, {"text": "x"}))

    driver = ScriptedDriver(script)
    config = ServerConfig(system=SystemSettings(data_dir=str(folder), auth="off"), tools=settings())
    with anyio.fail_after(60):
        async with open_agentvm(config, drivers={"scripted": driver}) as vm:
            yield Desk(vm, vm.attach()), driver


async def begin(desk: Desk) -> Any:
    image = await desk.create_image(tools=["resource://tools/srv"])
    await desk.ask("message_send", imageId=image["imageId"], content="go")
    return await waiting(desk, 1)


async def waiting(desk: Desk, times: int) -> Any:
    """The wait that people were told of last."""
    await desk.hear("turn_parked", times)
    return [event["data"] for event in desk.heard if event["type"] == "tool_waiting"][-1]


async def answer(desk: Desk, asked: Any, result: object) -> None:
    about = {"waitId": asked["waitId"], "fingerprint": asked["fingerprint"]}
    answered = await desk.ask("tool_answer", **about, decision="answer", result=result)
    assert "errorCode" not in answered, answered


def told(driver: ScriptedDriver) -> Any:
    entry = driver.prompts[-1].conversation[-1]
    assert isinstance(entry, ToolResultsEntry)
    return entry.results[0].output.value


@pytest.mark.skipif(sys.platform != "linux", reason="jails need Linux")
async def test_a_question_of_a_program_is_answered_after_a_restart(tmp_path: Path) -> None:
    async with opened(tmp_path, "srv__ask") as (desk, _):
        await desk.publish("sandboxes", "mcp", {"runtime": "python", "files": {"server.py": SERVER.read_text()}})
        assert "errorCode" not in await register(desk, "stdio:good")
        asked = await begin(desk)
        assert (asked["kind"], asked["questions"]["colour"]["message"]) == ("elicitation", "Which colour?")
    async with opened(tmp_path, "srv__ask") as (desk, driver):
        await answer(desk, asked, COLOUR)
        turns = desk.vm.store.tenant(DEFAULT_TENANT)
        while (turn := await turns.find_turn(asked["turnId"])) is None or turn.outcome is None:
            await anyio.lowlevel.checkpoint()
        assert msgspec.json.decode(told(driver))["colour"]["content"] == {"colour": "blue"}


@pytest.mark.skipif(sys.platform != "linux", reason="jails need Linux")
async def test_a_question_of_an_older_program_is_answered_while_its_call_is_open(tmp_path: Path) -> None:
    async with opened(tmp_path, "srv__ask") as (desk, driver):
        await desk.publish("sandboxes", "mcp", {"runtime": "python", "files": {"server.py": SERVER.read_text()}})
        assert "errorCode" not in await register(desk, "stdio:older")
        image = await desk.create_image(tools=["resource://tools/srv"])
        await desk.ask("message_send", imageId=image["imageId"], content="go")
        await desk.hear("tool_waiting")
        (asked,) = [event["data"] for event in desk.heard if event["type"] == "tool_waiting"]
        assert (asked["kind"], asked["held"]) == ("elicitation", True)
        await answer(desk, asked, "blue")
        await desk.hear("turn_response")
        assert msgspec.json.decode(told(driver)) == {"action": "accept", "content": {"colour": "blue"}}
        assert "turn_parked" not in [event["type"] for event in desk.heard]


class Asking(McpWeb):
    """A server whose tool asks; it remembers the questions that are in `states`."""

    def __init__(self, question: dict[str, Any]) -> None:
        super().__init__()
        self.states: list[str] = []
        self.number = 0
        self.question = question
        self.answer = self._ask

    def _ask(self, asked: Asked) -> Replied:
        params, id_ = self.calls[-1], msgspec.json.decode(asked.body)["id"]
        state = params.get("requestState")
        if state in self.states:
            content = [{"type": "text", "text": str(params["inputResponses"])}]
            return json({"jsonrpc": "2.0", "id": id_, "result": {"resultType": "complete", "content": content}})
        if state is not None:
            error = {"code": -32602, "message": "expired", "data": {"reason": "invalid_request_state"}}
            return json({"jsonrpc": "2.0", "id": id_, "error": error})
        self.number += 1
        self.states.append(f"state-{self.number}")
        requests = {"q": {"method": "elicitation/create", "params": self.question}}
        result = {"resultType": "input_required", "inputRequests": requests, "requestState": self.states[-1]}
        return json({"jsonrpc": "2.0", "id": id_, "result": result})


async def test_a_question_that_the_server_has_forgotten_is_asked_again(tmp_path: Path) -> None:
    mcp = Asking(QUESTION)
    async with web(mcp) as server, opened(tmp_path, "srv__echo") as (desk, driver):
        await register(desk, server.url("/mcp"))
        asked = await begin(desk)
        mcp.states.clear()
        blue = {"q": {"colour": "blue"}}
        await answer(desk, asked, blue)
        again = await waiting(desk, 2)
        assert again["waitId"] != asked["waitId"]
        await answer(desk, again, blue)
        await desk.hear("turn_response")
        assert "blue" in told(driver)
        assert [call.get("requestState") for call in mcp.calls] == [None, "state-1", None, "state-2"]


async def test_a_page_to_visit_is_a_question(tmp_path: Path) -> None:
    mcp = Asking({"mode": "url", "message": "Pay there", "url": "https://pay.example/1", "elicitationId": "e1"})
    async with web(mcp) as server, opened(tmp_path, "srv__echo") as (desk, driver):
        await register(desk, server.url("/mcp"))
        asked = await begin(desk)
        assert asked["questions"]["q"]["url"] == "https://pay.example/1"
        await answer(desk, asked, {"q": {}})
        await desk.hear("turn_response")
        assert told(driver) == "{'q': {'action': 'accept'}}"


async def test_a_server_that_asks_nothing_is_called_again_a_few_times(tmp_path: Path) -> None:
    mcp = McpWeb()

    def later(asked: Asked) -> Replied:
        result = {"resultType": "input_required", "requestState": f"s{len(mcp.calls)}"}
        return json({"jsonrpc": "2.0", "id": msgspec.json.decode(asked.body)["id"], "result": result})

    mcp.answer = later
    async with web(mcp) as server, opened(tmp_path, "srv__echo") as (desk, driver):
        await register(desk, server.url("/mcp"))
        image = await desk.create_image(tools=["resource://tools/srv"])
        await desk.ask("message_send", imageId=image["imageId"], content="go")
        await desk.hear("turn_response")
        assert "again and again" in told(driver)
        assert [call.get("requestState") for call in mcp.calls[:3]] == [None, "s1", "s2"]
