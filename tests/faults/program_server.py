"""A server whose agent runs a program, and that dies in one of its calls: `… PORT DATA_DIR CALL`. Says its port.

Each call is a line in the file `calls`; the server kills itself in the call of that number, the first time.
"""

import os
import signal
import sys
from pathlib import Path

import anyio

from agentvm import Definition, ScriptedDriver, ServerConfig, start_server, tool
from agentvm.config import SessionSettings, SystemSettings
from agentvm.drivers.base import Prompt, UserEntry
from agentvm.drivers.scripted import ScriptStep, reply, tool_calls

CODE = """
for number, name in enumerate(("note", "look", "look", "note"), 1):
    try:
        print(tools[name](number))
    except ToolError as error:
        print(error)
"""


def script(prompt: Prompt) -> list[ScriptStep]:
    if isinstance(prompt.conversation[-1], UserEntry):
        return tool_calls(("p1", "run_python", {"code": CODE}))
    return reply("done")


async def main(port: int, data_dir: Path, deadly: int) -> None:
    calls = data_dir / "calls"

    def count(name: str, number: int) -> str:
        line = f"{name} {number}"
        with calls.open("a") as file:
            file.write(f"{line}\n")
        if number == deadly and calls.read_text().splitlines().count(line) == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        return line

    @tool(effect="write", world="closed")
    async def note(number: int) -> str:
        """Note a number."""
        return count("note", number)

    @tool(effect="read", world="closed")
    async def look(number: int) -> str:
        """Look at a number."""
        return count("look", number)

    config = ServerConfig(
        system=SystemSettings(port=port, data_dir=str(data_dir), shutdown_seconds=0), sessions=SessionSettings(titles="off")
    )
    definitions = [Definition(name="coder", tools=("run_python", "note", "look"))]
    drivers = {"scripted": ScriptedDriver(script)}
    with anyio.open_signal_receiver(signal.SIGTERM) as signals:
        async with start_server(config, definitions=definitions, drivers=drivers, tools=[note, look]) as server:
            sys.stdout.write(f"{server.port}\n")
            sys.stdout.flush()
            async for _ in signals:
                break


if __name__ == "__main__":
    anyio.run(main, int(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]))
