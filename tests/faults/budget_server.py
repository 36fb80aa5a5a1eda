"""A server whose agent uses up the budget of a turn, and that kills itself: `… PORT DATA_DIR DEADLY`. Says its port.

DEADLY is the line of the file `calls` at which it dies, the first time. The clock of tools is moved by the tools themselves.
"""

import os
import signal
import sys
from pathlib import Path
from typing import Any

import anyio

from agentvm import Definition, ScriptedDriver, ServerConfig, start_server, tool
from agentvm.config import SessionSettings, SystemSettings
from agentvm.drivers.base import Prompt, ToolResultsEntry
from agentvm.drivers.scripted import ScriptStep, reply, tool_calls
from agentvm.model.limits import Limits
from agentvm.runtime import call_run

LIMITS = Limits(tool_calls=6, tool_seconds=600)
WORK_SECONDS = 400.0
CODE = """
for number in range(9):
    try:
        print(tools.look("{program} " + str(number)))
    except ToolError as error:
        print(error)
        break
"""


class ToolClock:
    """The module `anyio` with a clock that can be moved."""

    moved_seconds = 0.0

    def current_time(self) -> float:
        return anyio.current_time() + self.moved_seconds

    def __getattr__(self, name: str) -> Any:
        return getattr(anyio, name)


def script(prompt: Prompt) -> list[ScriptStep]:
    steps = sum(isinstance(entry, ToolResultsEntry) for entry in prompt.conversation)
    if "programs" in str(prompt.conversation[0]):
        code = CODE.replace("{program}", f"p{steps}").replace("range(9)", "range(2)" if steps == 0 else "range(9)")
        return reply("done") if steps == 2 else tool_calls((f"p{steps}", "run_python", {"code": code}))
    return reply("done") if steps == 3 else tool_calls((f"w{steps}", "work", {"name": f"w{steps}"}))


async def main(port: int, data_dir: Path, deadly: str) -> None:
    calls, clock = data_dir / "calls", ToolClock()
    vars(call_run)["anyio"] = clock

    def count(line: str) -> str:
        with calls.open("a") as file:
            file.write(f"{line}\n")
        if line == deadly and calls.read_text().splitlines().count(line) == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        return line

    @tool(effect="read", world="closed")
    async def look(name: str) -> str:
        """Look at something."""
        return count(name)

    @tool(effect="read", world="closed")
    async def work(name: str) -> str:
        """Work for long."""
        clock.moved_seconds += WORK_SECONDS
        return count(name)

    config = ServerConfig(
        system=SystemSettings(port=port, data_dir=str(data_dir), shutdown_seconds=0),
        sessions=SessionSettings(titles="off"),
        limits=LIMITS,
    )
    definitions = [Definition(name="coder", tools=("run_python", "look", "work"))]
    drivers = {"scripted": ScriptedDriver(script)}
    with anyio.open_signal_receiver(signal.SIGTERM) as signals:
        async with start_server(config, definitions=definitions, drivers=drivers, tools=[look, work]) as server:
            sys.stdout.write(f"{server.port}\n")
            sys.stdout.flush()
            async for _ in signals:
                break


if __name__ == "__main__":
    anyio.run(main, int(sys.argv[1]), Path(sys.argv[2]), sys.argv[3])
