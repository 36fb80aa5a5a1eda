import os
import sys
from pathlib import Path

import anyio
import pytest
from tests.support.mcp_process import SERVER

from agentvm.drivers.base import ToolSpec
from agentvm.errors import ToolFailed
from agentvm.model.secret import Secret
from agentvm.model.tier import Job, JobLimits, Need
from agentvm.resources.tool_entry import parse_mcp
from agentvm.tiers.process import open_process_tier
from agentvm.tools.base import CallContext, Caller, CallResult, CallTraits, Outcome
from agentvm.tools.mcp.launch import ServerProgram, jailed_launch, server_job
from agentvm.tools.mcp.pool import McpPool
from agentvm.tools.mcp.servers import McpServers, McpTool
from agentvm.tools.mcp.settings import McpServerSettings
from agentvm.tools.safe_http import SafeHttp

pytestmark = pytest.mark.anyio
ALICE = Caller("acme", "alice")
PROGRAM = (os.path.realpath(sys.executable), "-I", "server.py")


def test_a_server_has_the_walls_of_its_sandbox_and_the_time_of_its_connection() -> None:
    files, limits = {"a": b"1"}, JobLimits(memory_bytes=7)
    sandbox = Job(engine="python", files=files, env={"A": "1"}, network=("a.example",), packages=("greeting",), limits=limits)
    job = server_job(McpServerSettings(argv=PROGRAM), {"KEY": Secret("s")}, sandbox)
    assert job.packages == ("greeting",)
    assert (job.engine, job.argv, job.files, job.network) == ("command", PROGRAM, {"a": b"1"}, ("a.example",))
    assert job.env == {"A": "1", "KEY": "s"}
    assert job.limits.memory_bytes == 7
    assert job.limits.wall_ms > 3_600_000
    assert server_job(McpServerSettings(argv=PROGRAM), {}).env == {}


@pytest.mark.skipif(sys.platform != "linux", reason="jails need Linux")
async def test_servers_run_in_jails_and_nothing_of_them_is_left() -> None:
    async def prepare(server_id: str, settings: McpServerSettings, caller: Caller) -> ServerProgram:
        job = server_job(settings, {"KEY": Secret("s")}, Job(engine="command", files={"server.py": SERVER.read_bytes()}))
        return ServerProgram(need=Need(engine="command"), job=job)

    modes = ("good", "crash-call", "grandchild", "hang-call")
    settings = {mode: McpServerSettings(argv=(*PROGRAM, mode)) for mode in modes}
    with anyio.fail_after(60):
        async with open_process_tier() as tier:
            if missing := (await tier.offer()).missing:
                pytest.skip(missing)
            async with SafeHttp() as http, McpPool() as pool:
                launch = jailed_launch(lambda program: tier.open(program.job), prepare)
                servers = McpServers(http=http, pool=pool, launch=launch, settings=settings)

                async def call(server: str, name: str) -> Outcome:
                    spec = ToolSpec(name=name, description="x", input_schema={})
                    tool = McpTool(
                        spec=spec, servers=servers, entry=parse_mcp(f"stdio:{server}"), name=name, traits=CallTraits()
                    )
                    return await tool.run({"text": "x"}, CallContext(key="k", caller=ALICE, deadline=0))

                assert await call("good", "echo") == CallResult(type="text", value="x")
                about = await call("grandchild", "whoami")
                assert isinstance(about, CallResult)
                assert isinstance(about.value, dict)
                assert about.value["env"]["KEY"] == "s"
                assert "SHELL" not in about.value["env"]
                with pytest.raises(ToolFailed, match="has ended"):
                    await call("crash-call", "echo")
                with anyio.move_on_after(0.2):
                    await call("hang-call", "echo")
            assert children(tier.launcher_process_id) == []


def children(process_id: int | None) -> list[str]:
    if process_id is None:
        return []
    return Path(f"/proc/{process_id}/task/{process_id}/children").read_text().split()
