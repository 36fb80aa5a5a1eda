"""Killable — a server in a process of its own, whose model stops in the middle of an answer, or goes on."""

import contextlib
import random
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import anyio.abc


def free_port() -> int:
    """A port below those that the kernel gives to connections: it stays free while its server is away for a moment."""
    while True:
        port = random.SystemRandom().randrange(10_000, 32_768)
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port


SERVER = """
import sys
import anyio
from agentvm import ScriptedDriver, ServerConfig, start_server
from agentvm.config import SystemSettings
from agentvm.drivers.scripted import Pause, reply

async def main():
    gate = anyio.Event()
    if sys.argv[3] == "go":
        gate.set()
    def script(prompt):
        start, text, first, *rest = reply("before ", "after")
        return [start, text, first, Pause(gate), *rest]
    config = ServerConfig(system=SystemSettings(port=int(sys.argv[2]), data_dir=sys.argv[1]))
    async with start_server(config, drivers={"scripted": ScriptedDriver(script)}):
        print("ready", flush=True)
        await anyio.sleep_forever()

anyio.run(main)
"""


@contextlib.asynccontextmanager
async def server_process(data: Path, port: int, mode: str) -> AsyncIterator[anyio.abc.Process]:
    arguments = [sys.executable, "-c", SERVER, str(data), str(port), mode]
    async with await anyio.open_process(arguments, stdout=subprocess.PIPE, stderr=None) as process:
        assert process.stdout is not None
        try:
            with anyio.fail_after(60):
                while b"ready" not in await process.stdout.receive():
                    pass
            yield process
        finally:
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(signal.SIGKILL)
            await process.wait()
