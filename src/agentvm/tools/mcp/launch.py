"""MCP launch — starts the programs of MCP servers in a tier, each in a jail of its own that dies with its connection."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from agentvm.model.base import Record
from agentvm.model.secret import Secret
from agentvm.model.tier import Job, JobLimits, Need, TierRules
from agentvm.tiers.base import Process
from agentvm.tools.base import Caller
from agentvm.tools.mcp.servers import Launch
from agentvm.tools.mcp.settings import McpServerSettings

LIFE_MAX_MS = 24 * 60 * 60 * 1000
"""Time after which a process that is never idle is replaced."""
CPU_MAX_SECONDS = 3_600
WRITTEN_MAX_BYTES = 2**40
"""Bytes that a process may write in its life; a call is bounded by the connection."""


class ServerProgram(Record):
    """The program of a server, ready to be started."""

    need: Need
    job: Job
    rules: TierRules = TierRules()
    """Rules of the tenant whose users call it."""


OpenProgram = Callable[[ServerProgram], AbstractAsyncContextManager[Process]]
Prepare = Callable[[str, McpServerSettings, Caller], Awaitable[ServerProgram]]
"""Returns the program for a caller: with the files, packages and limits of its sandbox, and the secrets granted to it."""


def server_job(settings: McpServerSettings, secrets: Mapping[str, Secret], base: Job | None = None) -> Job:
    """Returns the job of a server. `base` has the values of its sandbox; its time is the connection's."""
    sandbox = base or Job(engine="command")
    limits = JobLimits(
        wall_ms=LIFE_MAX_MS,
        cpu_seconds=CPU_MAX_SECONDS,
        memory_bytes=sandbox.limits.memory_bytes,
        processes=sandbox.limits.processes,
        disk_bytes=sandbox.limits.disk_bytes,
        files=sandbox.limits.files,
        output_bytes=WRITTEN_MAX_BYTES,
    )
    return Job(
        engine="command",
        argv=settings.argv,
        env={**sandbox.env, **{name: secret.reveal() for name, secret in secrets.items()}},
        files=sandbox.files,
        executable=sandbox.executable,
        network=sandbox.network,
        packages=sandbox.packages,
        limits=limits,
    )


def jailed_launch(open_program: OpenProgram, prepare: Prepare) -> Launch:
    """Returns a function that starts a server for a caller: the program is prepared, and opened in a tier."""

    @asynccontextmanager
    async def launch(server_id: str, settings: McpServerSettings, caller: Caller) -> AsyncIterator[Process]:
        async with open_program(await prepare(server_id, settings, caller)) as process:
            yield process

    return launch
