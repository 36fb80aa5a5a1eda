"""Cluster — what a second node costs, and how long answers are silent when the node that tells them leaves.

    python -m bench.cluster [--sessions 20] [--turns 30] [--only deltas|commits|silence|keys]

Nodes are processes over one PostgreSQL and one NATS on this machine. *Deltas*: each session is followed on the node that runs
it and on another one, one delta every 20 ms; each carries the time it was made. *Commits*: turn after turn on one server alone
and on two nodes; the writers of the database count their transactions, and a node counts what it sends to the database within
each, with all sessions at a time. *Silence*: the longest time without a frame that a follower on another node notices, when the
node gets SIGTERM with no time for its turns, and when it is killed (its lease is 3 s). Every turn must end, or the benchmark
fails. *Keys*: the time from the reply to a revocation until the sockets of the key are closed, on three nodes in one process.
"""

import argparse
import json
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Generator, Sequence
from contextlib import AsyncExitStack, ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import anyio
import psycopg
from tests.provision.nats import nats
from tests.provision.postgres import Postgres, postgres
from websockets.asyncio.client import ClientConnection, connect

from agentvm import ScriptedDriver, ServerConfig, start_server
from agentvm.config import SessionSettings, SystemSettings
from agentvm.model.cluster_settings import ClusterSettings
from agentvm.model.principal import EVERYTHING, Principal
from agentvm.model.secret import Secret
from agentvm.server.collector import freeze_loaded, relax_collector
from agentvm.vm import OPEN_ACCESS
from bench.measure import percentile, table
from bench.servers import StampingDriver
from bench.turns import PACE_SECONDS, database

DELTAS = 100
SHORT_DELTAS = 10
SILENCE_DELTAS = 300
LEASE_SECONDS = 3.0
WAIT_SECONDS = 120.0
REVOCATIONS = 10
SOCKETS_PER_NODE = 5
OPERATOR = Principal(tenant_id=OPEN_ACCESS.tenant_id, permissions=EVERYTHING)
MARKS = "SELECT writer, mark FROM agentvm_commits WHERE writer >= 0"


class Sent:
    """Counts what the thread that writes sends to the database within each transaction."""

    def __init__(self) -> None:
        self.counts: Counter[int] = Counter()
        self._open: dict[int, int] = {}

    def install(self) -> None:
        execute = psycopg.Connection.execute

        def counted(raw: Any, query: Any, *arguments: Any, **more: Any) -> Any:
            if threading.current_thread().name.startswith("postgres-writer"):
                self._note(id(raw), str(query))
            return execute(raw, query, *arguments, **more)

        psycopg.Connection.execute = counted  # type: ignore[assignment, method-assign]  # of this process, which only measures

    def _note(self, connection: int, text: str) -> None:
        if text.startswith("BEGIN"):
            self._open[connection] = 0
        if connection in self._open:
            self._open[connection] += 1
            if text == "COMMIT":
                self.counts[self._open.pop(connection)] += 1


async def serve(name: str, url: str, bus: str, pace: str, deltas: str) -> None:
    """One node; without a name, a server that has the database alone. Tells its port, and when it ends what it has sent."""
    sent = Sent()
    sent.install()
    with TemporaryDirectory() as folder:
        system = SystemSettings(
            port=0, data_dir=folder, database=Secret(url), server_key=Secret("ab" * 32), shutdown_seconds=0.0
        )
        shared = ClusterSettings(
            enabled="on", name=name or None, lease_seconds=LEASE_SECONDS, nats=Secret(bus) if bus else None
        )
        alone = ServerConfig(system=system, sessions=SessionSettings(titles="off"))
        config = ServerConfig(system=system, sessions=alone.sessions, cluster=shared) if name else alone
        relax_collector()
        with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGUSR1) as signals:
            async with start_server(config, drivers={"scripted": StampingDriver(float(pace), int(deltas))}) as running:
                freeze_loaded()
                print(running.port, flush=True)
                async for number in signals:
                    if number == signal.SIGTERM:
                        break
                    sent.counts.clear()
    print(json.dumps(sent.counts), flush=True)


class Node:
    """The process of a node."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        assert process.stdout is not None
        self.process, self._output = process, process.stdout
        self.port = int(self._output.readline())

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def counts(self) -> dict[int, int]:
        """How many commits sent so many texts to the database; after its end."""
        return {int(count): times for count, times in json.loads(self._output.readline()).items()}


@contextmanager
def nodes(url: str, bus: str, names: Sequence[str], pace: float, deltas: int) -> Generator[list[Node]]:
    with ExitStack() as stack:
        opened = []
        for name in names:
            command = [sys.executable, "-m", "bench.cluster", "node", name, url, bus, str(pace), str(deltas)]
            process = stack.enter_context(
                subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parent.parent)
            )
            stack.callback(process.kill)
            opened.append(Node(process))
        yield opened


class Follower:
    """A socket that reads one session on one node."""

    def __init__(self, socket: ClientConnection) -> None:
        self.socket = socket
        self.late: list[float] = []
        """Milliseconds of each delta."""
        self.silence = 0.0
        """The longest time between two frames within a turn, in seconds."""
        self._frame_at = 0.0

    async def create(self, number: int) -> tuple[str, str]:
        """A new image and its session."""
        request = {"type": "image_create_request", "data": {"requestId": "create", "containerId": f"bench-{number}"}}
        await self.socket.send(json.dumps(request))
        async for text in self.socket:
            frame = json.loads(text)
            if frame.get("type") == "image_create_response":
                return frame["data"]["record"]["imageId"], frame["data"]["record"]["sessionId"]
        raise SystemExit("the server closed the socket")

    async def subscribe(self, session_id: str) -> None:
        await self.socket.send(json.dumps({"type": "subscribe", "sessionId": session_id, "afterCursor": "0"}))

    async def ask(self, image_id: str) -> None:
        request = {"type": "message_send_request", "data": {"requestId": "send", "imageId": image_id, "content": "go"}}
        await self.socket.send(json.dumps(request))

    async def read_turn(self, begun: anyio.Event | None = None) -> None:
        """Returns at the end of a turn; says when its first delta has come."""
        self._frame_at = 0.0
        with anyio.fail_after(WAIT_SECONDS):
            async for frame in self.socket:
                text = str(frame)
                now = time.monotonic_ns()
                if text.startswith('{"type":"text_delta"'):
                    at = text.index('"text":"') + 8
                    self.late.append((now - int(text[at : at + 20])) / 1e6)
                    if self._frame_at:
                        self.silence = max(self.silence, now / 1e9 - self._frame_at)
                    self._frame_at = now / 1e9
                    if begun is not None and len(self.late) >= SHORT_DELTAS:
                        begun.set()
                elif text.startswith('{"type":"turn_response"'):
                    return
        raise SystemExit("the server closed the socket before the turn had ended")


async def follow(stack: AsyncExitStack, node: Node) -> Follower:
    address = f"ws://127.0.0.1:{node.port}/ws"
    return Follower(await stack.enter_async_context(connect(address, compression=None, ping_interval=None, open_timeout=60)))


async def measure_deltas(url: str, bus: str, sessions: int) -> list[Follower]:
    """Followers on the node that runs the turns, then those on another one."""
    with nodes(url, bus, ("a", "b"), PACE_SECONDS, DELTAS) as (a, b):
        async with AsyncExitStack() as stack:
            here = [await follow(stack, a) for _ in range(sessions)]
            there = [await follow(stack, b) for _ in range(sessions)]
            images = []
            for number, (own, other) in enumerate(zip(here, there, strict=True)):
                image_id, session_id = await own.create(number)
                images.append(image_id)
                await other.subscribe(session_id)
            # The first turn warms both up and is not counted.
            for _ in range(2):
                for each in (*here, *there):
                    each.late.clear()
                async with anyio.create_task_group() as tasks:
                    for own, other, image_id in zip(here, there, images, strict=True):
                        tasks.start_soon(other.read_turn)
                        tasks.start_soon(own.read_turn)
                        await own.ask(image_id)
            return here + there


async def compare_deltas(server: Postgres, sessions: int) -> None:
    rows = [["deltas", "own node p50 ms", "p99", "other node p50 ms", "p99", "more p50 ms (goal 3)"]]
    with nats() as bus:
        for name, address in (("with NATS", bus.url), ("by polling", "")):
            with database(server) as url:
                followers = await measure_deltas(url, address, sessions)
            own, other = (
                [late for each in some for late in each.late] for some in (followers[:sessions], followers[sessions:])
            )
            numbers = [percentile(own, 0.5), percentile(own, 0.99), percentile(other, 0.5), percentile(other, 0.99)]
            rows.append([name, *(f"{number:.2f}" for number in (*numbers, numbers[2] - numbers[0]))])
    print(table(rows), flush=True)


def marks(url: str) -> dict[int, int]:
    with psycopg.connect(url) as connection:
        return dict(connection.execute(MARKS).fetchall())


async def count_commits(url: str, bus: str, names: Sequence[str], turns: int, sessions: int) -> tuple[float, dict[int, int]]:
    """Commits of a turn, one turn after the other; and of many at a time how many texts each commit sent."""
    with nodes(url, bus, names, 0.0, SHORT_DELTAS) as opened:
        async with AsyncExitStack() as stack:
            clients = [await follow(stack, opened[0]) for _ in range(sessions)]
            images = [(await client.create(number))[0] for number, client in enumerate(clients)]

            async def play(client: Follower, image_id: str, times: int) -> None:
                for _ in range(times):
                    await client.ask(image_id)
                    await client.read_turn()

            await play(clients[0], images[0], 5)
            before = marks(url)
            await play(clients[0], images[0], turns)
            commits = sum(mark - before[writer] for writer, mark in marks(url).items() if writer in before)
            # Not the start of the server, nor what its clients have created.
            opened[0].signal(signal.SIGUSR1)
            async with anyio.create_task_group() as tasks:
                for client, image_id in zip(clients, images, strict=True):
                    tasks.start_soon(play, client, image_id, turns)
        opened[0].signal(signal.SIGTERM)
        return commits / turns, opened[0].counts()


async def compare_commits(server: Postgres, turns: int, sessions: int) -> None:
    rows = [["", "commits/turn", "texts/commit p50", "p99", "most"]]
    with nats() as bus:
        for title, names in (("alone", ("",)), ("two nodes", ("a", "b"))):
            with database(server) as url:
                commits, counts = await count_commits(url, bus.url, names, turns, sessions)
            texts = [count for count, times in counts.items() for _ in range(times)]
            rows.append([title, f"{commits:.2f}", *(f"{percentile(texts, share):.0f}" for share in (0.5, 0.99, 1.0))])
    print(table(rows), flush=True)


async def measure_silence(url: str, bus: str, sessions: int, number: signal.Signals) -> float:
    with nodes(url, bus, ("a", "b", "c"), PACE_SECONDS, SILENCE_DELTAS) as (a, b, _):
        async with AsyncExitStack() as stack:
            asking = await follow(stack, a)
            followers = [await follow(stack, b) for _ in range(sessions)]
            begun = [anyio.Event() for _ in followers]
            async with anyio.create_task_group() as tasks:
                for place, follower in enumerate(followers):
                    image_id, session_id = await asking.create(place)
                    await follower.subscribe(session_id)
                    tasks.start_soon(follower.read_turn, begun[place])
                    await asking.ask(image_id)
                for event in begun:
                    await event.wait()
                a.signal(number)
            return max(follower.silence for follower in followers)


async def compare_silence(server: Postgres, sessions: int) -> None:
    rows = [["silence", "longest s", "goal s"]]
    with nats() as bus:
        for title, number, goal in (("SIGTERM", signal.SIGTERM, "0.5"), ("SIGKILL", signal.SIGKILL, "5")):
            with database(server) as url:
                rows.append([title, f"{await measure_silence(url, bus.url, sessions, number):.2f}", goal])
    print(table(rows), flush=True)


async def time_revocations(url: str, bus: str) -> list[float]:
    """Milliseconds until every client of a revoked key knows, on three nodes."""
    times = []
    async with AsyncExitStack() as stack:
        running = []
        for name in "abc":
            config = ServerConfig(
                system=SystemSettings(
                    port=0, data_dir=":memory:", database=Secret(url), server_key=Secret("ab" * 32), auth="on"
                ),
                cluster=ClusterSettings(enabled="on", name=name, nats=Secret(bus)),
            )
            running.append(await stack.enter_async_context(start_server(config, drivers={"scripted": ScriptedDriver()})))
        access = running[0].server.vm.tenancy.access
        for _ in range(REVOCATIONS):
            key, secret = await access.issue(OPERATOR.tenant_id, name="bench", granter=OPERATOR)
            sockets = [
                await stack.enter_async_context(connect(f"ws://127.0.0.1:{node.port}/ws?token={secret.reveal()}"))
                for node in running
                for _ in range(SOCKETS_PER_NODE)
            ]
            await access.revoke(OPERATOR.tenant_id, key.key_id)
            began = time.monotonic()
            with anyio.fail_after(WAIT_SECONDS):
                for socket in sockets:
                    await socket.wait_closed()
            times.append((time.monotonic() - began) * 1_000)
    return times


async def compare_revocations(server: Postgres) -> None:
    with nats() as bus, database(server) as url:
        times = await time_revocations(url, bus.url)
    row = [f"{percentile(times, 0.5):.1f}", f"{max(times):.1f}", "50"]
    print(table([["a revoked key, p50 ms", "longest", "goal"], row]), flush=True)


async def main(sessions: int, turns: int, only: str | None) -> None:
    with postgres() as server:
        if only in (None, "deltas"):
            await compare_deltas(server, sessions)
        if only in (None, "commits"):
            await compare_commits(server, turns, sessions)
        if only in (None, "silence"):
            await compare_silence(server, sessions)
        if only in (None, "keys"):
            await compare_revocations(server)


if __name__ == "__main__":
    if sys.argv[1:2] == ["node"]:
        anyio.run(serve, *sys.argv[2:7], backend_options={"use_uvloop": True})  # type: ignore[arg-type]  # as many as it takes
    else:
        parser = argparse.ArgumentParser(description=__doc__)
        parser.add_argument("--sessions", type=int, default=20)
        parser.add_argument("--turns", type=int, default=30)
        parser.add_argument("--only", choices=["deltas", "commits", "silence", "keys"])
        options = parser.parse_args()
        anyio.run(main, options.sessions, options.turns, options.only)
