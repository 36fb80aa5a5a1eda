"""Tools of MCP servers in turns: a scripted model calls servers on this machine, over HTTP and as programs in jails."""

import os
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import msgspec
import pytest
from tests.operations.fixtures import Desk, open_desk
from tests.support.mcp_process import SERVER
from tests.support.oauth import json
from tests.support.web import Asked, Replied, web
from tests.tools.mcp.test_web_servers import CAPABILITIES, text

from agentvm.drivers.base import ToolResultsEntry
from agentvm.drivers.scripted import ScriptedDriver, in_turn, reply, tool_calls
from agentvm.model.tool_settings import McpServerEntry, ToolNetwork, ToolSettings
from agentvm.resources.tool_entry import parse_mcp
from agentvm.tools.base import Caller
from agentvm.tools.mcp import servers as module
from agentvm.tools.mcp.pool import PER_TENANT_MAX

pytestmark = pytest.mark.anyio
PROGRAM = (os.path.realpath(sys.executable), "-I", "server.py")
MODES = ("good", "rug-pull", "rename", "bad-list", "hang-call", "crash-call", "flood", "huge", "liar", "crash", "sampling")
SCHEMA = {"type": "object", "properties": {"text": {"type": "string"}}}
STARTS = 40


class McpWeb:
    """A stateless MCP server on the web; tests change its tools and see its calls."""

    def __init__(self) -> None:
        self.tools: list[dict[str, Any]] = [{"name": "echo", "description": "Echoes.", "inputSchema": SCHEMA}]
        self.calls: list[dict[str, Any]] = []
        self.lists = 0
        self.answer: Callable[[Asked], Replied] = lambda asked: text(asked, self.calls[-1]["arguments"]["text"])

    def __call__(self, asked: Asked) -> Replied:
        message = msgspec.json.decode(asked.body)
        shape: dict[str, object] = {"ttlMs": 0, "cacheScope": "public"}
        match message["method"]:
            case "server/discover":
                shape |= {"supportedVersions": ["2026-07-28"], "capabilities": CAPABILITIES}
            case "tools/list":
                self.lists += 1
                shape["tools"] = self.tools
            case _:
                self.calls.append(message["params"])
                return self.answer(asked)
        return json({"jsonrpc": "2.0", "id": message["id"], "result": {"resultType": "complete", **shape}})


def settings() -> ToolSettings:
    arguments = {mode: (mode,) for mode in MODES} | {"older": ("good", "legacy")}
    servers = {
        name: McpServerEntry(argv=(*PROGRAM, *rest), sandbox="resource://sandboxes/mcp") for name, rest in arguments.items()
    }
    return ToolSettings(network=ToolNetwork(allow=("127.0.0.1",)), mcp_servers=servers)


@asynccontextmanager
async def desk_with(driver: ScriptedDriver | None = None, tools: ToolSettings | None = None) -> AsyncIterator[Desk]:
    with anyio.fail_after(60):
        async with open_desk(driver, tool_settings=tools or settings()) as desk:
            await desk.publish("sandboxes", "mcp", {"runtime": "python", "files": {"server.py": SERVER.read_text()}})
            yield desk


async def register(desk: Desk, entry: str, name: str = "srv", **content: object) -> Any:
    whole = {"description": "A server.", "runtime": "mcp", "entry": entry, "effect": "read", **content}
    return await desk.ask("resource_register", type="tools", name=name, content=whole)


async def converse(desk: Desk, driver: ScriptedDriver, image: Any, turns: int = 1) -> list[tuple[str, Any]]:
    """Sends a message; returns the types and texts of the results that the model was told."""
    await desk.ask("message_send", imageId=image["imageId"], content="go")
    await desk.hear("turn_response", turns)
    told = driver.prompts[-1].conversation[-1]
    assert isinstance(told, ToolResultsEntry)
    return [(one.output.type, one.output.value) for one in told.results]


async def test_an_agent_calls_a_tool_of_a_server_on_the_web() -> None:
    driver = ScriptedDriver(in_turn(tool_calls(("c1", "srv__echo", {"text": "hi"})), reply("done")))
    mcp = McpWeb()
    mcp.tools.append({"name": "poison", "description": "Be\u202ewa\u200bre", "inputSchema": SCHEMA})
    async with web(mcp) as server, desk_with(driver) as desk:
        assert "errorCode" not in await register(desk, server.url("/mcp"))
        made = await desk.ask("image_create", containerId="c1", config={"tools": ["resource://tools/srv"]})
        assert "warnings" not in made
        assert await converse(desk, driver, made["record"]) == [("text", "hi")]
        offered = {tool.name: tool.description for tool in driver.prompts[0].tools}
        assert offered == {"srv__echo": "Echoes.", "srv__poison": "Beware"}
        # The key of a call is for tools that are repeated with it.
        assert "_meta" not in mcp.calls[0] or "agentvm/key" not in mcp.calls[0]["_meta"]


@pytest.mark.skipif(sys.platform != "linux", reason="jails need Linux")
async def test_an_agent_calls_a_program_in_a_jail_and_nothing_of_it_is_left() -> None:
    driver = ScriptedDriver(in_turn(tool_calls(("c1", "srv__add", {"a": 1, "b": 2}), ("c2", "srv__whoami", {})), reply("done")))
    async with desk_with(driver) as desk:
        made = await register(desk, "stdio:good", repeat="keyed", tools={"add": {"repeat": "safe"}})
        assert [note.partition(" is left out")[0] for note in made["warnings"]] == ["header"]
        image = await desk.create_image(tools=["resource://tools/srv"])
        (_, added), (_, about) = await converse(desk, driver, image)
        assert added == {"sum": 3}
        assert about["key"].endswith("/c2")
        assert "SHELL" not in about["env"]
        ended = next(event for event in desk.heard if event["type"] == "turn_response")
        explained = await desk.ask("tool_explain", turnId=ended["data"]["turnId"], callId="c2")
        assert (explained["tier"], dict(explained["why"])["process"]) == ("process", "chosen")
        launcher = await launcher_of(desk)
        assert children(launcher)
    assert not await anyio.Path(f"/proc/{launcher}").exists()


async def launcher_of(desk: Desk) -> int:
    scheduler = await desk.vm.tiers.scheduler()
    process_id = scheduler._tiers["process"].launcher_process_id  # type: ignore[attr-defined]
    assert isinstance(process_id, int)
    return process_id


def children(process_id: int) -> list[str]:
    with open(f"/proc/{process_id}/task/{process_id}/children") as file:
        return file.read().split()


async def test_one_tool_of_a_server_has_the_name_of_its_resource() -> None:
    driver = ScriptedDriver(in_turn(tool_calls(("c1", "say", {"text": "hi"})), reply("done")))
    mcp = McpWeb()
    async with web(mcp) as server, desk_with(driver) as desk:
        refused = await register(desk, server.url("/mcp#shout"), "say")
        assert "has no tool shout: it has the tool echo" in refused["error"]
        assert "errorCode" not in await register(desk, server.url("/mcp#echo"), "say")
        image = await desk.create_image(tools=["resource://tools/say"])
        assert await converse(desk, driver, image) == [("text", "hi")]
        assert driver.prompts[0].tools[0].description == "A server."


async def test_a_list_that_cannot_be_read_is_refused_when_it_is_published() -> None:
    async with desk_with() as desk:
        for entry, why in (
            ("http://127.0.0.1:9/mcp", "cannot be asked for its tools"),
            ("https://10.0.0.1/mcp", "not on the public Internet"),
            ("stdio:nobody", "an operator can set it up in tools.mcpServers"),
            ("stdio:crash", "has ended"),
        ):
            refused = await register(desk, entry)
            assert (refused["errorCode"], why in refused["error"]) == ("resource_invalid", True), refused
        assert "no tool of the server matches" in (await register(desk, "stdio:good", select=["nothing*"]))["error"]
        assert "secrets has no meaning" in (await register(desk, "stdio:good", secrets=["KEY"]))["error"]
        pin = {"echo": "sha256:" + "0" * 64}
        assert "pin.echo: the server describes" in (await register(desk, "stdio:good", pin=pin))["error"]
        made = await register(desk, "stdio:bad-list", select=["echo", "t*"])
        assert "errorCode" not in made


@pytest.mark.parametrize(("mode", "why"), [("rug-pull", "has changed its description"), ("rename", "no longer offers it")])
async def test_a_tool_that_changed_is_suspended_and_the_others_go_on(
    mode: str, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LIST_MIN_SECONDS", 0.0)
    calls = tool_calls(("c1", "srv__helper", {}), ("c2", "srv__echo", {"text": "hi"}))
    driver = ScriptedDriver(in_turn(calls, reply("done")))
    async with desk_with(driver) as desk:
        await register(desk, f"stdio:{mode}")
        image = await desk.create_image(tools=["resource://tools/srv"])
        (changed, reason), other = await converse(desk, driver, image)
        assert (changed, other) == ("error-text", ("text", "hi"))
        assert why in reason
        # A tool that appeared since is not told of.
        assert "srv__helper2" not in [tool.name for tool in driver.prompts[0].tools]


@pytest.mark.parametrize(
    ("mode", "why"),
    [
        ("crash-call", "has ended"), ("flood", "too many messages"), ("huge", "a line of more than"),
        ("liar", "did not finish within"), ("hang-call", "did not finish within"), ("sampling", "requested model calls"),
    ],
)  # fmt: skip
async def test_a_hostile_server_fails_its_own_call_and_no_other(mode: str, why: str) -> None:
    calls = tool_calls(("c1", "bad__echo", {"text": "x"}), ("c2", "good__echo", {"text": "hi"}))
    driver = ScriptedDriver(in_turn(calls, reply("done")))
    async with desk_with(driver) as desk:
        await register(desk, f"stdio:{mode}", "bad", timeoutMs=1_000 if "did not finish" in why else 30_000)
        await register(desk, "stdio:good", "good")
        image = await desk.create_image(tools=["resource://tools/bad", "resource://tools/good"])
        (kind, reason), other = await converse(desk, driver, image)
        assert (kind, other) == ("error-text", ("text", "hi"))
        assert why in reason


async def test_results_of_a_server_are_a_strangers_text() -> None:
    """The next call that writes to the world is asked about, because its prompt holds the result."""
    driver = ScriptedDriver(
        in_turn(
            tool_calls(("c1", "srv__echo", {"text": "obey"})),
            tool_calls(("c2", "srv__other", {"text": "x"})),
        )
    )
    mcp = McpWeb()
    mcp.tools.append({"name": "other", "inputSchema": SCHEMA, "annotations": {"readOnlyHint": True}})
    async with web(mcp) as server, desk_with(driver) as desk:
        await register(desk, server.url("/mcp"), effect="write", tools={"echo": {"effect": "read"}})
        image = await desk.create_image(tools=["resource://tools/srv"])
        await desk.ask("message_send", imageId=image["imageId"], content="go")
        await desk.hear("turn_parked")
        # What a server says of its own tools is no reason to ask less.
        (wait,) = (await desk.ask("tool_waits", state="open"))["waits"]
        assert (wait["tool"], len(mcp.calls)) == ("srv__other", 1)


async def test_a_server_that_is_shared_reads_its_list_once() -> None:
    driver = ScriptedDriver(in_turn(*[tool_calls((f"c{n}", "srv__echo", {"text": "x"})) for n in range(3)], reply("done")))
    mcp = McpWeb()
    async with web(mcp) as server, desk_with(driver) as desk:
        await register(desk, server.url("/mcp"))
        image = await desk.create_image(tools=["resource://tools/srv"])
        await converse(desk, driver, image)
        assert (mcp.lists, len(mcp.calls)) == (1, 3)


async def test_a_set_that_was_stored_without_its_tools_does_nothing_and_says_so() -> None:
    async with desk_with() as desk:
        await desk.publish("tools", "old", {"description": "x", "runtime": "mcp", "entry": "stdio:good"})
        made = await desk.ask("image_create", containerId="c1", config={"tools": ["resource://tools/old"]})
        assert "avm resource pin" in made["warnings"][0]
        assert made["record"]["config"]["tools"] == []


async def test_the_servers_of_a_1x_image_are_called_after_an_approval() -> None:
    driver = ScriptedDriver(in_turn(tool_calls(("c1", "web__echo", {"text": "hi"})), reply("done")))
    mcp = McpWeb()
    async with web(mcp) as server, desk_with(driver) as desk:
        command = {"command": PROGRAM[0], "args": [*PROGRAM[1:], "good"]}
        servers = {"web": {"type": "http", "url": server.url("/mcp")}, "local": {"type": "stdio", **command}}
        image = await desk.create_image(mcpServers=servers)
        assert image["config"]["tools"][:4] == ["current_time", "calculator", "web__echo", "local__add"]
        await desk.ask("message_send", imageId=image["imageId"], content="go")
        await desk.hear("turn_parked")
        (wait,) = (await desk.ask("tool_waits", state="open"))["waits"]
        assert (wait["kind"], len(mcp.calls)) == ("approval", 0)
        about = {"waitId": wait["waitId"], "fingerprint": wait["fingerprint"]}
        # The server may change its tools as it likes: nobody has pinned them.
        mcp.tools[0] = {**mcp.tools[0], "description": "Otherwise."}
        await desk.ask("tool_answer", **about, decision="approve")
        await desk.hear("turn_response")
        assert [call["name"] for call in mcp.calls] == ["echo"]


@pytest.mark.parametrize(
    ("server", "code", "why"),
    [
        ({"command": "npx", "args": ["-y", "x"]}, "mcp_command_not_allowed", "is not allowed for MCP servers"),
        ({"command": PROGRAM[0], "args": ["-I", "server.py"]}, "mcp_command_not_allowed", "is not allowed"),
        ({"command": PROGRAM[0], "args": ["-I", "server.py good"]}, "mcp_command_not_allowed", "is not allowed"),
        ({"command": f"{PROGRAM[0]} -I server.py good"}, "mcp_command_not_allowed", "is not allowed"),
        ({"command": PROGRAM[0], "args": [*PROGRAM[1:], "good", ""]}, "mcp_command_not_allowed", "is not allowed"),
        ({"command": PROGRAM[0], "args": [*PROGRAM[1:], "good"], "env": {"A": "1"}}, "mcp_command_not_allowed", "variables"),
        ({"url": "https://a.example/mcp", "headers": {"A": "1"}}, "mcp_command_not_allowed", "headers"),
        ({"type": "sse", "url": "https://a.example/sse"}, "mcp_command_not_allowed", "sse"),
        ({"url": "https://a.example/mcp", "command": "x"}, "mcp_command_not_allowed", "not both"),
        ({"type": "sdk", "name": "x"}, "invalid_input", "mcpServers"),
        ({"url": "https://a.example/mcp", "disabled": True}, "invalid_input", "disabled"),
        ({"url": "http://127.0.0.1:9/mcp"}, "resource_invalid", "cannot be asked for its tools"),
        ("https://a.example/mcp", "invalid_input", "mcpServers"),
    ],
)  # fmt: skip
async def test_a_server_of_a_1x_image_that_cannot_be_called_is_refused(server: object, code: str, why: str) -> None:
    async with desk_with() as desk:
        refused = await desk.ask("image_create", containerId="c1", config={"mcpServers": {"x": server}})
        assert (refused["errorCode"], why in refused["error"]) == (code, True), refused


async def test_starts_leave_nothing_behind() -> None:
    """A thousand are started by hand; here as many as a test has time for."""
    async with desk_with() as desk:
        sets = desk.vm.tool_sets
        assert sets is not None
        pool = sets.mcp._pool
        for number in range(STARTS):
            user = Caller(desk.peer.tenant_id, f"user-{number}")
            await sets.mcp.list_tools(parse_mcp("stdio:good"), user)
            assert pool.alive <= PER_TENANT_MAX
        assert pool.started == STARTS
        launcher = await launcher_of(desk)
    assert not await anyio.Path(f"/proc/{launcher}").exists()


def test_a_server_starts_without_the_package_mcp() -> None:
    program = (
        "import sys, anyio\n"
        "from agentvm.app import open_agentvm\n"
        "from agentvm.config import MEMORY, ServerConfig, SystemSettings\n"
        "async def main():\n"
        "    async with open_agentvm(ServerConfig(system=SystemSettings(data_dir=MEMORY))):\n"
        "        print([name for name in ('mcp', 'mcp_types', 'aiodocker', 'pydantic') if name in sys.modules])\n"
        "anyio.run(main)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout.strip() == "[]"
