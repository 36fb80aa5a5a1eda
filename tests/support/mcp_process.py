"""MCP servers as plain processes of the test: the port that the jail fills in production."""

import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import anyio
from anyio.abc import Process

from agentvm.tools.base import Caller
from agentvm.tools.mcp.settings import McpServerSettings

SERVER = Path(__file__).with_name("mcp_server.py")


class PlainProcess:
    """A process whose group is killed when its context is left."""

    def __init__(self, process: Process) -> None:
        self.process = process
        self.stderr_tail = ""

    async def send(self, data: bytes) -> None:
        assert self.process.stdin is not None
        await self.process.stdin.send(data)

    async def receive(self) -> bytes:
        assert self.process.stdout is not None
        try:
            return await self.process.stdout.receive(65536)
        except anyio.EndOfStream:
            return b""

    async def drain(self) -> None:
        assert self.process.stderr is not None
        async for piece in self.process.stderr:
            self.stderr_tail = (self.stderr_tail + piece.decode(errors="replace"))[-2000:]


@asynccontextmanager
async def plain_process(*argv: str) -> AsyncIterator[PlainProcess]:
    """Runs a program with an empty environment, in a group of its own."""
    async with await anyio.open_process(argv, env={}, start_new_session=True, stderr=subprocess.PIPE) as process:
        plain = PlainProcess(process)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(plain.drain)
            try:
                yield plain
            finally:
                tasks.cancel_scope.cancel()
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)


class Launcher:
    """Starts `mcp_server.py` in the mode that its settings name, and counts."""

    def __init__(self) -> None:
        self.started: list[tuple[str, Caller]] = []
        self.pids: list[int] = []
        self.running = 0

    @asynccontextmanager
    async def __call__(self, server_id: str, settings: McpServerSettings, caller: Caller) -> AsyncIterator[PlainProcess]:
        self.started.append((server_id, caller))
        async with plain_process(sys.executable, "-I", str(SERVER), *settings.argv[1:]) as process:
            self.pids.append(process.process.pid)
            self.running += 1
            try:
                yield process
            finally:
                self.running -= 1
