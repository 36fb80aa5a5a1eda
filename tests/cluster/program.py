"""A node to be killed: `python -m tests.cluster.program PORT DATA_DIR DATABASE NAME [PACE]`. Says its port when it listens."""

import signal
import sys
from collections.abc import AsyncGenerator

import anyio

from agentvm import ScriptedDriver, ServerConfig, start_server
from agentvm.config import SessionSettings, SystemSettings
from agentvm.drivers.base import ModelOutput, Prompt
from agentvm.drivers.scripted import ScriptStep, last_user_text, reply
from agentvm.model.cluster_settings import ClusterSettings
from agentvm.model.secret import Secret
from agentvm.model.tool_settings import ToolNetwork, ToolSettings

SERVER_KEY = "ab" * 32
WORDS = 60
LEASE_SECONDS = 4.0


def text_of(asked: str) -> str:
    """What the model answers in the end."""
    return "".join(words(asked))


def words(asked: str) -> list[str]:
    return [f"{asked}:{number} " for number in range(WORDS)]


def script(prompt: Prompt) -> list[ScriptStep]:
    return reply(*words(last_user_text(prompt)))


class Paced(ScriptedDriver):
    """Takes its time."""

    def __init__(self, pace_seconds: float) -> None:
        super().__init__(script)
        self._pace_seconds = pace_seconds

    async def run(self, prompt: Prompt) -> AsyncGenerator[ModelOutput, None]:
        async for output in super().run(prompt):
            await anyio.sleep(self._pace_seconds)
            yield output


async def main(port: str, data_dir: str, database: str, name: str, pace_seconds: str = "0.05") -> None:
    config = ServerConfig(
        system=SystemSettings(
            port=int(port),
            data_dir=data_dir,
            database=Secret(database),
            server_key=Secret(SERVER_KEY),
            shutdown_seconds=0.0,
        ),
        sessions=SessionSettings(titles="off"),
        tools=ToolSettings(network=ToolNetwork(allow=("127.0.0.0/8",))),
        cluster=ClusterSettings(enabled="on", name=name, lease_seconds=LEASE_SECONDS),
    )
    with anyio.open_signal_receiver(signal.SIGTERM) as signals:
        async with start_server(config, drivers={"scripted": Paced(float(pace_seconds))}) as server:
            sys.stdout.write(f"{server.port}\n")
            sys.stdout.flush()
            async for _ in signals:
                break


if __name__ == "__main__":
    anyio.run(main, *sys.argv[1:6])  # type: ignore[arg-type]  # as many as the program takes
