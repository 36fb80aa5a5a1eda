"""Servers under test — `python -m bench.servers agentvm|floor|uvicorn` serves a scripted reply of deltas and prints its port.

    --pace 0.02              seconds between two deltas; 0 for as fast as they can be taken
    --deltas 100             deltas of one reply
    --data-dir DIR           agentvm only: keeps what is there, and leaves it
    --provider http://…      agentvm only: a model over HTTP instead of the scripted one
    --database postgresql:…  agentvm only: a database instead of SQLite
    --tools                  agentvm only: has a definition whose agents run Python when they are asked to

`floor` is the same stack (uvicorn, the same socket protocol, the same scripted model) that does nothing but forward: what lies
between the two is what AgentVM itself costs. `uvicorn` is the floor with uvicorn's own socket protocol.
"""

import argparse
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import anyio
import uvicorn
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from agentvm import ServerConfig, start_server
from agentvm.config import LlmSettings, ProviderSettings, SystemSettings
from agentvm.drivers.base import (
    Driver,
    MessageStarted,
    MessageStopped,
    ModelOutput,
    Prompt,
    TextChunk,
    TextStarted,
    TextStopped,
    UsageReported,
    UserEntry,
)
from agentvm.drivers.scripted import ScriptedDriver, ScriptStep, last_user_text, tool_calls
from agentvm.model.definition import Definition
from agentvm.model.secret import Secret
from agentvm.model.usage import Usage
from agentvm.protocol.codec import FRAME_MAX_BYTES
from agentvm.server.collector import freeze_loaded, relax_collector
from agentvm.server.serving import bind
from agentvm.server.transport import JoiningProtocol
from agentvm.sharing.byte_budget import ByteBudget

DELTAS = 100
CALLS_MAX = 100_000
"""More than any benchmark has turns: none waits for another. Of the 200 by default a tenant gets 150."""
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
_STALE_DELTA = _ENVELOPE.format("text_delta", '{"text":"00000000000000000000 some words of an answer "}')


DEFINITION = "bench"
"""The definition with a tool."""
TOOL_QUESTION = "calculate"


def reply_with_tool(count: int, prompt: Prompt) -> Iterable[ScriptStep]:
    """Runs Python first, if that was the question."""
    if isinstance(prompt.conversation[-1], UserEntry) and last_user_text(prompt) == TOOL_QUESTION:
        return tool_calls((f"call_{time.monotonic_ns()}", "run_python", {"code": "print(sum(range(100)))"}))
    return reply_of_deltas(count, prompt)


def reply_of_deltas(count: int, prompt: Prompt) -> Iterable[ScriptStep]:
    yield MessageStarted("", "scripted")
    yield TextStarted()
    for _ in range(count):
        yield TextChunk("")
    yield TextStopped()
    yield UsageReported(Usage(input_tokens=10, output_tokens=count))
    yield MessageStopped("end_turn")


class StampingDriver(ScriptedDriver):
    """Each delta carries the moment it was made, so that a client sees how long it took to arrive."""

    max_calls = CALLS_MAX

    def __init__(self, pace: float, deltas: int = DELTAS, *, tools: bool = False) -> None:
        super().__init__(partial(reply_with_tool if tools else reply_of_deltas, deltas))
        self._pace = pace

    async def run(self, prompt: Prompt) -> AsyncGenerator[ModelOutput, None]:
        async for output in super().run(prompt):
            if isinstance(output, TextChunk):
                if self._pace:
                    await anyio.sleep(self._pace)
                output = TextChunk(f"{time.monotonic_ns():020d} some words of an answer ")
            yield output


async def serve_agentvm(
    pace: float,
    deltas: int,
    data_dir: Path | None,
    provider: str | None,
    database: str | None = None,
    *,
    tools: bool = False,
) -> None:
    with TemporaryDirectory() as temporary:
        system = SystemSettings(
            port=0,
            data_dir=str(data_dir or Path(temporary)),
            shutdown_seconds=0,
            database=None if database is None else Secret(database),
        )
        config = ServerConfig(system=system)
        drivers: dict[str, Driver] | None = {"scripted": StampingDriver(pace, deltas, tools=tools)}
        if provider is not None:
            providers = {"anthropic": ProviderSettings(max_concurrent=CALLS_MAX)}
            config = replace(
                config,
                llm=LlmSettings(
                    model="anthropic/claude-bench", base_url=provider, api_key=Secret("bench"), providers=providers
                ),
            )
            drivers = None
        definitions = [Definition(name=DEFINITION, tools=("run_python",))] if tools else []
        # As `avm serve` does.
        relax_collector()
        async with start_server(config, drivers=drivers, definitions=definitions) as running:
            freeze_loaded()
            print(running.port, flush=True)
            await anyio.sleep_forever()


Receive = Callable[[], Awaitable[Any]]
Send = Callable[[Any], Awaitable[None]]


async def forward(pace: float, deltas: int, scope: dict[str, Any], receive: Receive, send: Send) -> None:
    """Answers every frame with the model's deltas and a last frame, a number with as many frames; knows nothing else."""
    driver = StampingDriver(pace, deltas)
    prompt = Prompt(model="scripted", conversation=(), max_tokens=1)
    await receive()
    await send({"type": "websocket.accept"})
    while (message := await receive())["type"] == "websocket.receive":
        if message["text"].isdigit():
            for _ in range(int(message["text"]) - 1):
                await send({"type": "websocket.send", "text": _STALE_DELTA})
        else:
            async for output in driver.run(prompt):
                if isinstance(output, TextChunk):
                    data = f'{{"text":"{output.text}"}}'
                    await send({"type": "websocket.send", "text": _ENVELOPE.format("text_delta", data)})
        await send({"type": "websocket.send", "text": _ENVELOPE.format("turn_response", "{}")})


async def serve_floor(pace: float, deltas: int, protocol: Callable[..., WebSocketsSansIOProtocol]) -> None:
    bound = bind("127.0.0.1", 0)
    config = uvicorn.Config(
        partial(forward, pace, deltas),
        interface="asgi3",
        http="httptools",
        ws=protocol,  # type: ignore[arg-type]  # uvicorn only calls it
        lifespan="off",
        log_config=None,
        access_log=False,
        ws_max_size=FRAME_MAX_BYTES,
        ws_per_message_deflate=False,
    )
    print(bound.getsockname()[1], flush=True)
    await uvicorn.Server(config).serve([bound])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kind", choices=["agentvm", "floor", "uvicorn"])
    parser.add_argument("--pace", type=float, default=0.0)
    parser.add_argument("--deltas", type=int, default=DELTAS)
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--provider")
    parser.add_argument("--database")
    parser.add_argument("--tools", action="store_true")
    chosen = parser.parse_args()
    ours = partial(JoiningProtocol, budget=ByteBudget())
    serve = partial(serve_floor, chosen.pace, chosen.deltas, ours if chosen.kind == "floor" else WebSocketsSansIOProtocol)
    if chosen.kind == "agentvm":
        parts = (chosen.pace, chosen.deltas, chosen.data_dir, chosen.provider, chosen.database)
        serve = partial(serve_agentvm, *parts, tools=chosen.tools)
    anyio.run(serve, backend_options={"use_uvloop": True})
