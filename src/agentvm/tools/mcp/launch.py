"""MCP launch — starts the programs of MCP servers in a tier, each in a jail of its own that dies with its connection."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from agentvm.model.secret import Secret
from agentvm.model.tier import Job, JobLimits
from agentvm.tiers.base import Process
from agentvm.tools.base import Caller
from agentvm.tools.mcp.servers import Launch
from agentvm.tools.mcp.settings import McpServerSettings

LIFE_MAX_MS = 24 * 60 * 60 * 1000
"""Time after which a process that is never idle is replaced."""
CPU_MAX_SECONDS = 3_600
WRITTEN_MAX_BYTES = 2**40
"""Bytes that a process may write in its life; a call is bounded by the connection."""

OpenJob = Callable[[Job], AbstractAsyncContextManager[Process]]
Prepare = Callable[[str, McpServerSettings, Caller], Awaitable[Job]]
"""Returns the job of a server for a caller: the files and limits of its sandbox, and the secrets that were granted to it."""


def server_job(settings: McpServerSettings, secrets: Mapping[str, Secret], base: Job | None = None) -> Job:
    """Returns the job of a server. `base` has the files, network and limits of its sandbox; its time is the connection's."""
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
        limits=limits,
    )


def jailed_launch(open_job: OpenJob, prepare: Prepare) -> Launch:
    """Returns what starts a server for a caller: the job is prepared, and opened in the tier."""

    @asynccontextmanager
    async def launch(server_id: str, settings: McpServerSettings, caller: Caller) -> AsyncIterator[Process]:
        async with open_job(await prepare(server_id, settings, caller)) as process:
            yield process

    return launch
