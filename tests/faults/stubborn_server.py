"""A runtime whose tool never heeds a cancellation, and that is closed while the tool runs. Says when it has ended."""

import contextlib
import sys

import anyio

from agentvm import Definition, ImageConfig, ScriptedDriver, ServerConfig, create_agentx, local_runtime, tool
from agentvm.config import MEMORY, SessionSettings, SystemSettings
from agentvm.drivers.scripted import in_turn, reply, tool_calls

SHUTDOWN_SECONDS = 0.2


async def main() -> None:
    begun = anyio.Event()

    @tool(effect="write", world="closed")
    async def cling() -> str:
        """Never ends."""
        begun.set()
        while True:
            with contextlib.suppress(BaseException):
                await anyio.sleep_forever()

    config = ServerConfig(
        system=SystemSettings(data_dir=MEMORY, shutdown_seconds=SHUTDOWN_SECONDS), sessions=SessionSettings(titles="off")
    )
    driver = ScriptedDriver(in_turn(tool_calls(("c1", "cling", {})), reply("done")))
    runtime = local_runtime(
        config,
        definitions=[Definition(name="d", tools=("cling",))],
        drivers={"scripted": driver},
        tools=[cling],
        overrides=False,
    )
    async with create_agentx(runtime) as agentx:
        image = await agentx.images.create(ImageConfig(definition="d"), container_id="c1")
        agent = await agentx.images.run(image.image_id)
        await agent.receive("go")
        await begun.wait()


if __name__ == "__main__":
    anyio.run(main)
    # The loop is closed, too: it would wait for every task that it knows.
    sys.stdout.write("ended\n")
