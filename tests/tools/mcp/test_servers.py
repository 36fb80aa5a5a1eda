import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import anyio
import pytest
from tests.support.mcp_process import Launcher

from agentvm.drivers.base import ToolSpec
from agentvm.errors import ToolFailed
from agentvm.errors.tool import McpChanged
from agentvm.resources.tool_entry import parse_mcp
from agentvm.tools.base import CallContext, Caller, CallResult, CallTraits, Outcome
from agentvm.tools.mcp import servers as module
from agentvm.tools.mcp.pool import McpPool
from agentvm.tools.mcp.servers import McpServers, McpTool
from agentvm.tools.mcp.settings import McpServerSettings
from agentvm.tools.safe_http import SafeHttp

ALICE, BOB, EVE = Caller("acme", "alice"), Caller("acme", "bob"), Caller("globex", "eve")
MODES = ("good", "rug-pull", "rename", "bad-list", "hang-call", "crash-call")


@dataclass
class Rig:
    servers: McpServers
    launcher: Launcher
    now: float = 1000.0

    def tool(self, name: str, server: str = "good", **members: Any) -> McpTool:
        spec = ToolSpec(name=name, description="x", input_schema={"type": "object"})
        members.setdefault("traits", CallTraits())
        return McpTool(spec=spec, servers=self.servers, entry=parse_mcp(f"stdio:{server}"), name=name, **members)

    async def call(self, tool: McpTool, caller: Caller = ALICE, **input: object) -> Outcome:
        return await tool.run(input, CallContext(key="turn_1/call_1", caller=caller, deadline=0))


@asynccontextmanager
async def rig() -> AsyncIterator[Rig]:
    settings = {mode: McpServerSettings(argv=("/server", mode)) for mode in MODES}
    settings["tenants"] = McpServerSettings(argv=("/server", "good"), per="tenant")
    settings["everybodys"] = McpServerSettings(argv=("/server", "good"), per="server")
    launcher = Launcher()
    with anyio.fail_after(60):
        async with SafeHttp() as http, McpPool() as pool:
            made = Rig(McpServers(http=http, pool=pool, launch=launcher, settings=settings, clock=lambda: made.now), launcher)
            yield made
    assert launcher.running == 0


async def test_a_tool_runs_and_one_that_is_not_there_is_told() -> None:
    async with rig() as made:
        add = made.tool("add", traits=CallTraits.of("read"))
        assert await made.call(add, a=1, b=2) == CallResult(type="json", value={"sum": 3})
        assert (add.effect, add.world, add.repeat, add.timeout_seconds) == ("read", "open", "safe", 60)
        with pytest.raises(ToolFailed, match="has no tool nope"):
            await made.call(made.tool("nope"))
        with pytest.raises(ToolFailed, match="no MCP server other here"):
            await made.call(made.tool("echo", "other"))


async def pids(made: Rig, server: str) -> list[int]:
    found = []
    for caller in (ALICE, BOB, EVE):
        result = await made.call(made.tool("whoami", server), caller)
        assert isinstance(result, CallResult)
        assert isinstance(result.value, dict)
        found.append(result.value["pid"])
    return found


async def test_a_process_is_shared_by_those_whom_the_operator_lets_share_it() -> None:
    async with rig() as made:
        assert len(set(await pids(made, "good"))) == 3
        alice, bob, eve = await pids(made, "tenants")
        assert alice == bob != eve
        assert len(set(await pids(made, "everybodys"))) == 1


async def test_a_rug_pull_suspends_one_tool_and_the_others_go_on() -> None:
    async with rig() as made:
        entry = parse_mcp("stdio:rug-pull")
        frozen = (await made.servers.list_tools(entry, ALICE)).tools
        helper = made.tool("helper", "rug-pull", pin=frozen["helper"].digest, pinned=frozen["helper"])
        echo = made.tool("echo", "rug-pull", pin=frozen["echo"].digest)
        assert await made.call(helper) is not None
        made.now += 61
        with pytest.raises(McpChanged) as error:
            await made.call(helper)
        assert "evil.example" in str(error.value.details["changes"])
        assert await made.call(echo, text="x") == CallResult(type="text", value="x")


async def test_a_renamed_tool_is_suspended_and_a_new_one_does_not_appear_by_itself() -> None:
    async with rig() as made:
        frozen = (await made.servers.list_tools(parse_mcp("stdio:rename"), ALICE)).tools["helper"]
        made.now += 61
        with pytest.raises(McpChanged, match="no longer offers it"):
            await made.call(made.tool("helper", "rename", pin=frozen.digest))


async def test_a_list_is_read_at_most_once_a_minute_and_sooner_only_when_the_server_says_so() -> None:
    async with rig() as made:
        entry = parse_mcp("stdio:rug-pull")

        async def description() -> str | None:
            async with made.servers.lease(entry, ALICE) as connection:
                return (await made.servers.listing(connection, entry, ALICE)).tools["helper"].description

        assert await description() == "Helps."
        made.now += 59
        assert await description() == "Helps."
        made.servers._changed("stdio:rug-pull")
        assert await description() != "Helps."


async def test_whoever_publishes_is_told_the_list_as_it_is_now() -> None:
    async with rig() as made:
        entry = parse_mcp("stdio:rug-pull")
        before = await made.servers.list_tools(entry, ALICE)
        assert await made.servers.list_tools(entry, ALICE) == before
        made.now += 6
        assert await made.servers.list_tools(entry, ALICE) != before


async def test_tools_that_cannot_be_offered_are_named_with_the_reason() -> None:
    async with rig() as made:
        listing = await made.servers.list_tools(parse_mcp("stdio:bad-list"), ALICE)
        assert set(listing.unusable) == {"bomb", "far", "a b; rm", "twice"}
        with pytest.raises(ToolFailed, match="two tools of this name"):
            await made.call(made.tool("twice", "bad-list"))


async def test_arguments_become_headers_only_if_the_publisher_accepts_it() -> None:
    async with rig() as made:
        with pytest.raises(ToolFailed, match="HTTP headers"):
            await made.call(made.tool("header"), region="eu")
        assert await made.call(made.tool("header", headers_allowed=True), region="eu") is not None


async def test_a_crash_is_one_callers_and_the_next_call_starts_anew() -> None:
    async with rig() as made:
        for _ in range(2):
            with pytest.raises(ToolFailed, match="has ended"):
                await made.call(made.tool("echo", "crash-call"), text="x")
        assert len(made.launcher.started) == 2
        assert await made.call(made.tool("echo"), text="x") == CallResult(type="text", value="x")


async def test_a_hung_server_of_one_user_holds_nobody_up() -> None:
    async with rig() as made, anyio.create_task_group() as tasks:
        tasks.start_soon(made.call, made.tool("echo", "hang-call"))
        for caller in (ALICE, BOB, EVE):
            assert await made.call(made.tool("echo"), caller, text="x") == CallResult(type="text", value="x")
        tasks.cancel_scope.cancel()


def test_nothing_of_the_package_is_imported_before_the_first_call() -> None:
    code = "import sys, agentvm.tools.mcp.servers; print({name.split('.')[0] for name in sys.modules} & {'mcp', 'mcp_types'})"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == "set()"
    assert module.LIST_MIN_SECONDS >= 60
