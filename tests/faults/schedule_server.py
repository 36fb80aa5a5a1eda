"""A server with a schedule that is due, and that kills itself while the run begins: `… DATA_DIR NOW STEP`."""

import os
import signal
import sys
from typing import Any

import anyio

from agentvm.app import open_agentvm
from agentvm.config import ServerConfig, SystemSettings
from agentvm.drivers.scripted import ScriptedDriver
from agentvm.model.definition import Definition
from agentvm.sessions.sender import MessageSender
from agentvm.storage.sql.store import Store

STEPS: dict[str, tuple[type[Any], str, bool]] = {
    "before the turn is accepted": (MessageSender, "send", False),
    "before the commit": (Store, "commit", False),
    "after the commit": (Store, "commit", True),
}
"""The method at which it dies, and whether that has done its work."""
DEFINITIONS = [Definition(name="default")]


def config(data_dir: str) -> ServerConfig:
    return ServerConfig(system=SystemSettings(data_dir=data_dir))


def die_at(step: str) -> None:
    kind, name, is_done = STEPS[step]
    method = getattr(kind, name)

    async def deadly(*args: Any, **named: Any) -> Any:
        if is_done:
            await method(*args, **named)
        os.kill(os.getpid(), signal.SIGKILL)

    setattr(kind, name, deadly)


async def main(data_dir: str, now: int, step: str) -> None:
    die_at(step)
    async with open_agentvm(
        config(data_dir), drivers={"scripted": ScriptedDriver()}, definitions=DEFINITIONS, clock=lambda: now
    ):
        await anyio.sleep_forever()


if __name__ == "__main__":
    anyio.run(main, sys.argv[1], int(sys.argv[2]), sys.argv[3])
