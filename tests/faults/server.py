"""A server to be killed: `python -m tests.faults.server PORT DATA_DIR [GRACE [ALLOWED…]]`. Says its port when it listens."""

import os
import signal
import sys
from collections.abc import AsyncGenerator
from pathlib import Path

import anyio

from agentvm import ScriptedDriver, ServerConfig, start_server
from agentvm.config import SessionSettings, SystemSettings
from agentvm.drivers.base import ModelOutput, Prompt, UserEntry
from agentvm.drivers.scripted import ScriptStep, last_user_text, reply, tool_calls
from agentvm.model.tool_settings import ToolNetwork, ToolSettings

PACE = float(os.environ.get("MODEL_PACE", "0.002"))
"""Seconds between two outputs of the model."""

HELD_AFTER = 6
"""Outputs that a message "… until restarted" gets from the first server; the rest comes from the second."""


def text_of(asked: str) -> str:
    """What the model answers in the end, for whoever checks."""
    return "".join(words(asked))


def words(asked: str) -> list[str]:
    return [f"{asked}:{number} " for number in range(30)]


def script(prompt: Prompt) -> list[ScriptStep]:
    asked = last_user_text(prompt)
    if asked.startswith("poison"):
        # As a bug in native code would: without a word.
        os.kill(os.getpid(), signal.SIGKILL)
    if asked.startswith("tool") and isinstance(prompt.conversation[-1], UserEntry):
        return tool_calls(("call_1", "calculator", {"expression": "6*7"}), text="Let me see.")
    return reply(*words(asked))


class Paced(ScriptedDriver):
    """Takes its time, and does not remember its prompts: that would be a leak of the tests' own."""

    def __init__(self, data_dir: Path) -> None:
        super().__init__(script)
        self._first = not (data_dir / "agentvm.db").exists()

    async def run(self, prompt: Prompt) -> AsyncGenerator[ModelOutput, None]:
        number = 0
        async for output in super().run(prompt):
            self.prompts.clear()
            await anyio.sleep(PACE)
            yield output
            number += 1
            if self._first and number == HELD_AFTER and "until restarted" in last_user_text(prompt):
                await anyio.sleep_forever()


async def main(port: int, data_dir: Path, grace: float, allow: tuple[str, ...]) -> None:
    config = ServerConfig(
        system=SystemSettings(port=port, data_dir=str(data_dir), shutdown_seconds=grace),
        sessions=SessionSettings(titles="off"),
        tools=ToolSettings(network=ToolNetwork(allow=allow)),
    )
    with anyio.open_signal_receiver(signal.SIGTERM) as signals:
        async with start_server(config, drivers={"scripted": Paced(data_dir)}) as server:
            sys.stdout.write(f"{server.port}\n")
            sys.stdout.flush()
            async for _ in signals:
                break


if __name__ == "__main__":
    grace = float(sys.argv[3]) if len(sys.argv) > 3 else 0.0
    anyio.run(main, int(sys.argv[1]), Path(sys.argv[2]), grace, tuple(sys.argv[4:]))
