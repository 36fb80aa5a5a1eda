"""Neighbour — what one tenant's noise costs another: the p50 of its requests in alternating pairs, without and with noise.

    python -m bench.neighbour [--messages 20000] [--containers 300] [--seconds 1.5] [--pairs 15] [--only search]

Server, noise and neighbour are three processes. The noise is one of
    search      8 sockets search a word that is in each of the tenant's messages
    containers  6 sockets search 32 words over all of the tenant's containers
    large       8 sockets send messages of 100 KB, 13 a second in all
    history     4 sockets ask for the messages of a session that has all of them
The goal is a median ratio of at most 1.10. Trust the ratios, and only those of a quiet machine with a processor to spare.
"""

import argparse
import json
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from itertools import cycle
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import anyio
from tests.conformance.records import default_session, image
from websockets.asyncio.client import ClientConnection, connect

from agentvm import ServerConfig, start_server
from agentvm.config import SessionSettings, SystemSettings
from agentvm.drivers.scripted import ScriptedDriver, reply
from agentvm.model.account import Tenant
from agentvm.model.ids import ContainerId, MessageId, SessionId, TenantId
from agentvm.model.message import Message, UserMessage
from agentvm.model.principal import EVERYTHING, Principal
from agentvm.vm import AgentVM
from bench.measure import percentile, table

NOISY, QUIET = TenantId("tnt_noisy"), TenantId("tnt_quiet")
LONG = SessionId("long")
SOCKETS = {"search": 8, "containers": 6, "large": 8, "history": 4}
LARGE_BYTES = 100_000
LARGE_PER_SECOND = 13
PIECE = 500
START_SECONDS = 2.0
SETTLE_SECONDS = 0.3


def said(number: int) -> Message:
    return UserMessage(id=MessageId(f"m{number}"), timestamp=number + 1, role="user", content=f"the word {number} of many more")


async def fill(vm: AgentVM, messages: int, containers: int) -> None:
    """All of the noisy tenant's messages in one session, and its many containers."""
    home = vm.tenancy.store.tenant(NOISY).container(ContainerId("home"))
    await home.create(1)
    await home.add_image(image("long"), default_session(image("long")))
    log = home.log(default_session(image("long")).session_id)
    for start in range(0, messages, PIECE):
        await log.record(messages=[said(number) for number in range(start, min(start + PIECE, messages))], now=1)
    for number in range(containers):
        await vm.tenancy.store.tenant(NOISY).container(ContainerId(f"c{number}")).create(1)
    while await vm.tenancy.store.tend_search(limit=2_000):
        pass


async def serve(messages: int, containers: int) -> None:
    operator = Principal(tenant_id=TenantId("default"), permissions=EVERYTHING)
    with TemporaryDirectory() as folder:
        config = ServerConfig(
            system=SystemSettings(port=0, data_dir=str(Path(folder)), shutdown_seconds=0, auth="on", log_level="warning"),
            sessions=SessionSettings(titles="off"),
        )
        async with start_server(config, drivers={"scripted": ScriptedDriver(lambda _: reply("ok"))}) as running:
            vm = running.server.vm
            keys = []
            for tenant_id in (NOISY, QUIET):
                tenant = Tenant(tenant_id=tenant_id, slug=tenant_id, name="T", created_at=1, updated_at=1)
                await vm.tenancy.store.directory.add_tenant(tenant)
                keys.append((await vm.tenancy.access.issue(tenant_id, name="k", granter=operator))[1].reveal())
            await fill(vm, messages, containers)
            print(json.dumps([f"{running.ws_url}?token={key}" for key in keys]), flush=True)
            await anyio.sleep_forever()


class Peer:
    """One socket: a request, then its reply."""

    def __init__(self, socket: ClientConnection) -> None:
        self._socket = socket

    async def ask(self, command: str, **data: object) -> Any:
        await self._socket.send(json.dumps({"type": f"{command}_request", "data": {**data, "requestId": "r"}}))
        async for text in self._socket:
            # A history is large; what it holds is not the question.
            if f'"{command}_response"' in text[:200] or f'"{command}_response"' in text[-400:]:
                return json.loads(text)["data"] if len(text) < 100_000 else {}
        raise SystemExit("the server closed the socket")


@asynccontextmanager
async def peer(url: str) -> AsyncIterator[Peer]:
    async with connect(url, max_size=None) as socket:
        yield Peer(socket)


async def make_noise(row: str, url: str) -> None:
    """Until it is killed."""
    async with anyio.create_task_group() as tasks:
        for number in range(SOCKETS[row]):
            tasks.start_soon(_noise, row, url, number)


async def _noise(row: str, url: str, number: int) -> None:
    words = " ".join(f"word{index}" for index in range(32))
    async with peer(url) as one:
        image_id = image("long").image_id
        if row == "large":
            image_id = (await one.ask("image_create", containerId=f"noise-{number}"))["record"]["imageId"]
        while True:
            began = time.monotonic()
            match row:
                case "search":
                    await one.ask("session_search", q="the")
                case "containers":
                    await one.ask("session_search", q=words)
                case "history":
                    await one.ask("image_messages", imageId=image_id)
                case _:
                    await one.ask("message_send", imageId=image_id, content="some words of it " * (LARGE_BYTES // 17))
                    pause = SOCKETS[row] / LARGE_PER_SECOND - (time.monotonic() - began)
                    await anyio.sleep(max(0.0, pause))


async def measure(one: Peer, image_id: str, session_id: str, seconds: float) -> dict[str, float]:
    """Milliseconds, the p50 of each kind of request; 20 ms between two, so that the neighbour itself is no noise."""

    def act(kind: str) -> Awaitable[Any]:
        match kind:
            case "read":
                return one.ask("session_get", sessionId=session_id)
            case "write":
                return one.ask("session_set_title", sessionId=session_id, title="A title")
            case _:
                return one.ask("message_send", imageId=image_id, content="hello")

    took: dict[str, list[float]] = {"read": [], "write": [], "send": []}
    until = time.monotonic() + seconds
    for kind in cycle(took):
        if time.monotonic() > until and all(took.values()):
            break
        began = time.perf_counter()
        await act(kind)
        took[kind].append((time.perf_counter() - began) * 1000)
        await anyio.sleep(0.02)
    return {kind: percentile(values, 0.5) for kind, values in took.items()}


@contextmanager
def child(*options: str) -> Iterator["subprocess.Popen[str]"]:
    command = [sys.executable, "-m", "bench.neighbour", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parent.parent) as process:
        try:
            yield process
        finally:
            process.kill()


async def compare(row: str, urls: list[str], seconds: float, pairs: int) -> list[list[str]]:
    async with peer(urls[1]) as one:
        made = (await one.ask("image_create", containerId="home"))["record"]
        ask: Callable[[], Awaitable[dict[str, float]]] = lambda: measure(one, made["imageId"], made["sessionId"], seconds)  # noqa: E731
        await ask()
        found: list[tuple[dict[str, float], dict[str, float]]] = []
        with child("--noise", row, "--url", urls[0]) as noise:
            await anyio.sleep(START_SECONDS)
            for number in range(pairs):
                pair = {}
                # In turn, so that a machine that becomes slower favours neither.
                for loud in (True, False) if number % 2 else (False, True):
                    noise.send_signal(signal.SIGCONT if loud else signal.SIGSTOP)
                    await anyio.sleep(SETTLE_SECONDS)
                    pair[loud] = await ask()
                found.append((pair[False], pair[True]))
    rows = []
    for kind in ("read", "write", "send"):
        ratios = [during[kind] / without[kind] for without, during in found]
        before, after = (statistics.median(each[side][kind] for each in found) for side in (0, 1))
        rows.append([row, kind, f"{before:.2f}", f"{after:.2f}", f"{statistics.median(ratios):.2f}"])
    return rows


async def main(given: argparse.Namespace) -> None:
    rows = [["noise", "neighbour", "p50 ms", "with noise", "median ratio"]]
    with child("--serve", "--messages", str(given.messages), "--containers", str(given.containers)) as server:
        if server.stdout is None or not (line := server.stdout.readline()):
            raise SystemExit("the server did not start")
        for row in SOCKETS if given.only is None else (given.only,):
            rows += await compare(row, json.loads(line), given.seconds, given.pairs)
    print(f"{given.messages} messages, {given.containers} containers, {given.pairs} pairs of {given.seconds} s")
    print(table(rows))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Neighbour")
    parser.add_argument("--messages", type=int, default=20_000)
    parser.add_argument("--containers", type=int, default=300)
    parser.add_argument("--seconds", type=float, default=1.5)
    parser.add_argument("--pairs", type=int, default=15)
    parser.add_argument("--only", choices=sorted(SOCKETS))
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--noise", choices=sorted(SOCKETS), help=argparse.SUPPRESS)
    parser.add_argument("--url", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        anyio.run(serve, options.messages, options.containers)
    elif options.noise:
        anyio.run(make_noise, options.noise, options.url)
    else:
        anyio.run(main, options)
