"""A node for `tests.cluster.chaos`: `… PORT DATA_DIR DATABASE NAME NATS NOTES`. Says its port when it listens.

Whatever leaves the node is a line in a file of the folder NOTES, which outlives it: each call of the model, what that has
reported, and each run of the tool, which must not be repeated.
"""

import itertools
import json
import os
import signal
import sys
import time
from collections.abc import AsyncGenerator
from pathlib import Path

import anyio
import msgspec

from agentvm import Definition, ScriptedDriver, ServerConfig, start_server, tool
from agentvm.config import SessionSettings, SystemSettings
from agentvm.drivers.base import ModelOutput, Prompt, UsageReported, UserEntry
from agentvm.drivers.scripted import ScriptStep, last_user_text, reply, tool_calls
from agentvm.model.cluster_settings import ClusterSettings
from agentvm.model.secret import Secret

SERVER_KEY = "ab" * 32
WORDS = 40
PACE_SECONDS = 0.02
LEASE_SECONDS = 3.0
CALLS_OF_A_PROCESS = 1_000


def words(asked: str) -> list[str]:
    return [f"{asked}:{number} " for number in range(WORDS)]


def script(prompt: Prompt) -> list[ScriptStep]:
    asked = last_user_text(prompt)
    if asked.startswith("note") and isinstance(prompt.conversation[-1], UserEntry):
        return tool_calls(("call_1", "note", {"text": asked}), text="Let me note that. ")
    return reply(*words(asked))


class Notes:
    """Lines that are there whatever becomes of the process."""

    def __init__(self, folder: Path, name: str) -> None:
        self.first_call = CALLS_OF_A_PROCESS * (1 + len([*folder.iterdir()]))
        self._file = os.open(folder / f"{name}-{time.time_ns()}.jsonl", os.O_CREAT | os.O_WRONLY | os.O_APPEND)

    def add(self, **members: object) -> None:
        os.write(self._file, json.dumps(members).encode() + b"\n")


class Counted(ScriptedDriver):
    """Takes its time, and reports the number of each call as tokens read from a cache, so that the ledger names it."""

    def __init__(self, notes: Notes) -> None:
        super().__init__(script, prompts_max=1)
        self._notes = notes
        self._numbers = itertools.count(notes.first_call)

    async def run(self, prompt: Prompt) -> AsyncGenerator[ModelOutput, None]:
        number = next(self._numbers)
        self._notes.add(call=number, text=last_user_text(prompt))
        async for output in super().run(prompt):
            await anyio.sleep(PACE_SECONDS)
            if isinstance(output, UsageReported):
                usage = msgspec.structs.replace(output.usage, cache_read_tokens=number)
                self._notes.add(reported=number, output=usage.output_tokens)
                yield UsageReported(usage)
            else:
                yield output


async def main(port: str, data_dir: str, database: str, name: str, nats: str, folder: str) -> None:
    notes = Notes(Path(folder), name)

    @tool(effect="write", world="closed")
    async def note(text: str) -> str:
        """Note a text."""
        notes.add(noted=text)
        return "noted"

    system = SystemSettings(
        port=int(port),
        data_dir=data_dir,
        database=Secret(database),
        server_key=Secret(SERVER_KEY),
        shutdown_seconds=0.0,
    )
    cluster = ClusterSettings(enabled="on", name=name, lease_seconds=LEASE_SECONDS, nats=Secret(nats))
    config = ServerConfig(system=system, sessions=SessionSettings(titles="off"), cluster=cluster)
    definitions = [Definition(name="writer", tools=("note",))]
    drivers = {"scripted": Counted(notes)}
    with anyio.open_signal_receiver(signal.SIGTERM) as signals:
        async with start_server(config, definitions=definitions, drivers=drivers, tools=[note]) as server:
            sys.stdout.write(f"{server.port}\n")
            sys.stdout.flush()
            async for _ in signals:
                break


if __name__ == "__main__":
    anyio.run(main, *sys.argv[1:7])  # type: ignore[arg-type]  # as many as the program takes
