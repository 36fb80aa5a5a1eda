"""A server to be killed whose model is elsewhere: `python -m tests.faults.billed PORT DATA_DIR PROVIDER_URL`. Says its port."""

import signal
import sys
from pathlib import Path

import anyio

from agentvm import ServerConfig, start_server
from agentvm.model.secret import Secret


def config_of(port: int, data_dir: Path | None, provider: str, driver: str = "anthropic") -> ServerConfig:
    return ServerConfig(
        port=port,
        data_dir=data_dir,
        grace=0,
        titles="off",
        llm_provider=driver,
        llm_model="claude-sonnet-4-6" if driver == "anthropic" else "gpt-4o",
        llm_api_key=Secret("sk-test"),
        llm_base_url=provider if driver == "anthropic" else f"{provider}/v1",
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
