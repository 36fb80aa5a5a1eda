"""Million load — users chosen by Zipf's law who send messages at Poisson times, and a look at the histories afterwards.

`first` is the time from a message to its first delta, less the model's own pace. A turn with a tool runs Python in a sandbox
before it answers; its first delta counts from the result on. What was heard of each answer is compared with what is stored.
"""

import json
import random
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from zlib import crc32

import anyio
from websockets.asyncio.client import ClientConnection, connect

from bench.measure import Server, percentile, running, wait_ready
from bench.servers import DEFINITION, TOOL_QUESTION

DELTAS, PACE_SECONDS = 100, 0.2
TOOL_SHARE = 0.05
"""Turns that run a tool."""
TIMEOUT_SECONDS = 120
READERS_MAX = 20
"""Histories that are looked at at once."""

ImageOf = Callable[[int], str]


@dataclass
class Load:
    """The numbers of one load."""

    turns: int = 0
    tool_turns: int = 0
    failed: int = 0
    failures: Counter[str] = field(default_factory=Counter)
    """How often turns failed, by the code of the error, or its kind."""
    cpu_ms_per_turn: float = 0.0
    cpu_share: float = 0.0
    rss_mb: float = 0.0
    streams: int = 0
    first_p50_ms: float = 0.0
    first_p99_ms: float = 0.0
    firsts: list[float] = field(default_factory=list)
    heard: defaultdict[int, list[int]] = field(default_factory=lambda: defaultdict(list))
    """By user: the checksums of the answers, in their order."""

    @property
    def numbers(self) -> dict[str, object]:
        return {key: value for key, value in vars(self).items() if key not in ("firsts", "heard")}


class Crowd:
    """Users by Zipf's law: few talk often. Nobody sends a message while the answer to another comes."""

    def __init__(self, users: int) -> None:
        self._users = users
        self.busy: set[int] = set()

    def choose(self) -> int:
        while (number := int(self._users ** random.random())) in self.busy:
            pass
        return number


def open_socket(server: Server) -> connect:
    return connect(f"ws://127.0.0.1:{server.port}/ws", compression=None, ping_interval=None, open_timeout=60, max_size=None)


async def first_user(data_dir: Path) -> str:
    """Makes the user of whom the others are copies; returns the id of the image."""
    with running("agentvm", data_dir=data_dir, tools=True) as server:
        wait_ready(server)
        async with open_socket(server) as socket:
            data = {"requestId": "create", "containerId": "bench-0", "config": {"definition": DEFINITION}}
            await socket.send(json.dumps({"type": "image_create_request", "data": data}))
            async for text in socket:
                frame = json.loads(text)
                if frame.get("type") == "image_create_response":
                    return str(frame["data"]["record"]["imageId"])
    raise SystemExit("the server closed the socket")


async def speak(server: Server, image_id: str, number: int, load: Load, crowd: Crowd) -> None:
    crowd.busy.add(number)
    load.streams = max(load.streams, len(crowd.busy))
    uses_tool = random.random() < TOOL_SHARE
    try:
        with anyio.fail_after(TIMEOUT_SECONDS):
            async with open_socket(server) as socket:
                said = await converse(socket, image_id, load, uses_tool=uses_tool)
        if said is None:
            load.failed += 1
            return
        load.turns += 1
        load.tool_turns += uses_tool
        load.heard[number].append(said)
    except (OSError, TimeoutError) as error:
        load.failures[type(error).__name__] += 1
        load.failed += 1
    finally:
        crowd.busy.discard(number)


async def converse(socket: ClientConnection, image_id: str, load: Load, *, uses_tool: bool) -> int | None:
    """Sends a message and hears its answer; the checksum of its text, or None if it was none."""
    content = TOOL_QUESTION if uses_tool else "go"
    data = {"requestId": "send", "imageId": image_id, "content": content, "onBusy": "queue"}
    since, text = time.monotonic(), ""
    await socket.send(json.dumps({"type": "message_send_request", "data": data}))
    async for frame in socket:
        said = str(frame)
        if said.startswith('{"type":"text_delta"'):
            if not text:
                load.firsts.append((time.monotonic() - since - PACE_SECONDS) * 1e3)
            text += json.loads(said)["data"]["text"]
        elif said.startswith('{"type":"tool_result"'):
            since = time.monotonic()
        elif said.startswith('{"type":"turn_response"'):
            outcome = json.loads(said)["data"].get("outcome", "completed")
            if outcome == "completed":
                return crc32(text.encode())
            load.failures[outcome] += 1
            return None
        elif '"system_error"' in said[:60]:
            load.failures[json.loads(said)["data"]["code"]] += 1
            return None
    load.failures["closed"] += 1
    return None


async def play(server: Server, rate: float, seconds: float, image_of: ImageOf, users: int) -> Load:
    """Turns at Poisson times; the load has ended when the last of them has."""
    load, crowd, cpu, started = Load(), Crowd(users), server.cpu, time.monotonic()
    async with anyio.create_task_group() as tasks:
        while time.monotonic() - started < seconds:
            await anyio.sleep(random.expovariate(rate))
            number = crowd.choose()
            tasks.start_soon(speak, server, image_of(number), number, load, crowd)
        load.rss_mb = round(server.rss / 2**20, 1)
    used, lasted = server.cpu - cpu, time.monotonic() - started
    load.cpu_ms_per_turn = round(used / max(1, load.turns) * 1e3, 2)
    load.cpu_share = round(used / lasted, 3)
    load.first_p50_ms = round(percentile(load.firsts, 0.5), 1)
    load.first_p99_ms = round(percentile(load.firsts, 0.99), 1)
    return load


async def check(server: Server, loads: list[Load], image_of: ImageOf) -> dict[str, int]:
    """Reads the histories of all who spoke: each answer that was heard is stored once, in its order, and is the same."""
    expected: defaultdict[int, list[int]] = defaultdict(list)
    for load in loads:
        for number, heard in load.heard.items():
            expected[number] += heard
    broken: list[int] = []
    limit = anyio.CapacityLimiter(READERS_MAX)

    async def one(number: int) -> None:
        async with limit, open_socket(server) as socket:
            stored = [crc32(text.encode()) for text in answers(await messages_of(socket, image_of(number)))]
        if stored != expected[number]:
            broken.append(number)

    async with anyio.create_task_group() as tasks:
        for number in expected:
            tasks.start_soon(one, number)
    return {"checked_users": len(expected), "broken_histories": len(broken)}


async def messages_of(socket: ClientConnection, image_id: str) -> list[dict[str, Any]]:
    data = {"requestId": "read", "imageId": image_id}
    await socket.send(json.dumps({"type": "image_messages_request", "data": data}))
    with anyio.fail_after(TIMEOUT_SECONDS):
        async for frame in socket:
            said = json.loads(frame)
            if said.get("type") == "image_messages_response":
                found: list[dict[str, Any]] = said["data"]["messages"]
                return found
    raise SystemExit("the server closed the socket")


def answers(messages: list[dict[str, Any]]) -> list[str]:
    """The texts that the model has said."""
    spoken = [message["content"] for message in messages if message["subtype"] == "assistant"]
    texts = ["".join(part["text"] for part in content if part["type"] == "text") for content in spoken]
    return [text for text in texts if text]
