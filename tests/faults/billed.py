"""A server to be killed whose model is elsewhere: `python -m tests.faults.billed PORT DATA_DIR PROVIDER_URL`. Says its port."""

import signal
import sys
from pathlib import Path

import anyio

from agentvm import ServerConfig, start_server
from agentvm.config import MEMORY, LlmSettings, SessionSettings, SystemSettings
from agentvm.model.gateway_settings import AnthropicSwitch, GatewaySettings
from agentvm.model.secret import Secret


def config_of(port: int, data_dir: Path | None, provider: str, driver: str = "anthropic") -> ServerConfig:
    return ServerConfig(
        system=SystemSettings(port=port, data_dir=str(data_dir or MEMORY), shutdown_seconds=0),
        sessions=SessionSettings(titles="off"),
        gateways=GatewaySettings(anthropic=AnthropicSwitch(enabled="on")),
        llm=LlmSettings(
            provider=driver,
            model="claude-sonnet-4-6" if driver == "anthropic" else "gpt-4o",
            api_key=Secret("sk-test"),
            base_url=provider if driver == "anthropic" else f"{provider}/v1",
        ),
    )


async def main(port: int, data_dir: Path, provider: str) -> None:
    with anyio.open_signal_receiver(signal.SIGTERM) as signals:
        async with start_server(config_of(port, data_dir, provider)) as server:
            sys.stdout.write(f"{server.port}\n")
            sys.stdout.flush()
            async for _ in signals:
                break


if __name__ == "__main__":
    anyio.run(main, int(sys.argv[1]), Path(sys.argv[2]), sys.argv[3])
