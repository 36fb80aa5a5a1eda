"""Servers under test — `python -m bench.servers agentvm|floor [PACE]` serves a scripted 100-delta reply and prints its port.

`floor` is the same stack (uvicorn, the same socket protocol, the same scripted model) that does nothing but forward: what lies
between the two is what AgentVM itself costs.
"""

import sys
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import anyio
import uvicorn

from agentvm import ServerConfig, start_server
from agentvm.drivers.base import (
    MessageStarted,
    MessageStopped,
    ModelOutput,
    Prompt,
    TextDelta,
    TextStarted,
    TextStopped,
    UsageReported,
)
from agentvm.drivers.scripted import ScriptedDriver, Step
from agentvm.model.usage import Usage
from agentvm.protocol.codec import MAX_FRAME
from agentvm.server.serving import bind
from agentvm.server.transport import JoiningProtocol

DELTAS = 100
PACE = float(sys.argv[2]) if len(sys.argv) > 2 else 0.0
"""Seconds between two deltas; 0 for as fast as they can be taken."""

CONTEXT = {
    "containerId": "bench-0001",
    "imageId": "img_mwhhh3mx_5zwio2k0q1ab",
    "agentId": "agent_mwhhh3mx_5zwio2k0q1ab",
    "sessionId": "sess_mwhhh3mx_5zwio2k0q1ab",
    "turnId": "turn_mwhhh3mx_5zwio2k0q1ab",
}
_ENVELOPE = (
    '{{"type":"{}","timestamp":1794725960366,"data":{},"source":"agent","category":"stream","intent":"notification",'
    + f'"context":{CONTEXT!s}'.replace("'", '"').replace("{", "{{").replace("}", "}}")
    + "}}"
)


def reply_of_deltas(prompt: Prompt) -> Iterable[Step]:
    yield MessageStarted("", "scripted")
    yield TextStarted()
    for _ in range(DELTAS):
        yield TextDelta("")
    yield TextStopped()
    yield UsageReported(Usage(input_tokens=10, output_tokens=DELTAS))
    yield MessageStopped("end_turn")


class StampingDriver(ScriptedDriver):
    """Each delta carries the moment it was made, so that a client sees how long it took to arrive."""

    def __init__(self, pace: float) -> None:
        super().__init__(reply_of_deltas)
        self._pace = pace

    async def run(self, prompt: Prompt) -> AsyncGenerator[ModelOutput, None]:
        async for output in super().run(prompt):
            if isinstance(output, TextDelta):
                if self._pace:
                    await anyio.sleep(self._pace)
                output = TextDelta(f"{time.monotonic_ns():020d} some words of an answer ")
            yield output


async def serve_agentvm() -> None:
    with TemporaryDirectory() as data_dir:
        config = ServerConfig(port=0, data_dir=Path(data_dir), grace=0)
        async with start_server(config, drivers={"scripted": StampingDriver(PACE)}) as running:
            print(running.port, flush=True)
            await anyio.sleep_forever()


async def forward(scope: dict[str, Any], receive: Callable[[], Awaitable[Any]], send: Callable[[Any], Awaitable[None]]) -> None:
    """Answers every frame with the model's deltas and a last frame; knows nothing else."""
    driver = StampingDriver(PACE)
    prompt = Prompt(model="scripted", conversation=(), max_tokens=1)
    await receive()
    await send({"type": "websocket.accept"})
    while (await receive())["type"] == "websocket.receive":
        async for output in driver.run(prompt):
            if isinstance(output, TextDelta):
                data = f'{{"text":"{output.text}"}}'
                await send({"type": "websocket.send", "text": _ENVELOPE.format("text_delta", data)})
        await send({"type": "websocket.send", "text": _ENVELOPE.format("turn_response", "{}")})


async def serve_floor() -> None:
    bound = bind("127.0.0.1", 0)
    config = uvicorn.Config(
        forward,
        http="httptools",
        ws=JoiningProtocol,
        lifespan="off",
        log_config=None,
        access_log=False,
        ws_max_size=MAX_FRAME,
        ws_per_message_deflate=False,
    )
    print(bound.getsockname()[1], flush=True)
    await uvicorn.Server(config).serve([bound])


if __name__ == "__main__":
    main = {"agentvm": serve_agentvm, "floor": serve_floor}[sys.argv[1]]
    anyio.run(main, backend_options={"use_uvloop": True})
