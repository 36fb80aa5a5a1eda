"""Turns — what a turn and a delta cost, next to a server that only forwards the same frames (the floor).

    python -m bench.turns [--clients 50] [--turns 20] [--rounds 3]

Every client has its own container and image on its own socket and sends its next message when the last turn has ended. Each
delta carries the time it was made, so latency is the server's alone. Two runs: as fast as the server can (its CPU is the limit,
so latency there is waiting for CPU), and paced as a model would be, one delta every 20 ms, which shows the latency people
meet. The first delta comes after the durable commit of the user's message, which the floor does not make. Trust the
ratios: times depend on the machine and on what else it does.
"""

import argparse
import json
import time
from dataclasses import dataclass, field

import anyio
from websockets.asyncio.client import ClientConnection, connect

from bench.measure import percentile, running, table
from bench.servers import DELTAS

PACE = 0.02


@dataclass
class Run:
    """One server's numbers."""

    seconds: float = 0.0
    cpu: float = 0.0
    turns: int = 0
    deltas: list[float] = field(default_factory=list)
    first: list[float] = field(default_factory=list)

    @property
    def cpu_per_delta(self) -> float:
        return self.cpu / (self.turns * DELTAS) * 1e6


async def prepare(socket: ClientConnection, number: int) -> str:
    """The frame that starts a turn."""
    request = {"type": "image_create_request", "data": {"requestId": "create", "containerId": f"bench-{number}"}}
    await socket.send(json.dumps(request))
    async for text in socket:
        frame = json.loads(text)
        if frame.get("type") == "image_create_response":
            image_id = frame["data"]["record"]["imageId"]
            return json.dumps(
                {"type": "message_send_request", "data": {"requestId": "send", "imageId": image_id, "content": "go"}}
            )
    raise SystemExit("the server closed the socket")


async def play(socket: ClientConnection, message: str, turns: int, run: Run) -> None:
    for _ in range(turns):
        sent = time.monotonic_ns()
        await socket.send(message)
        first = True
        async for frame in socket:
            text = str(frame)
            now = time.monotonic_ns()
            if text.startswith('{"type":"text_delta"'):
                at = text.index('"text":"') + 8
                run.deltas.append((now - int(text[at : at + 20])) / 1e6)
                if first:
                    run.first.append((now - sent) / 1e6)
                    first = False
            elif text.startswith('{"type":"turn_response"'):
                run.turns += 1
                break


async def measure(kind: str, clients: int, turns: int, pace: float) -> Run:
    run = Run()
    with running(kind, pace) as server:
        sockets = [await connect(f"ws://127.0.0.1:{server.port}/ws", compression=None) for _ in range(clients)]
        messages = [await prepare(socket, n) if kind == "agentvm" else "go" for n, socket in enumerate(sockets)]
        cpu, started = server.cpu, time.monotonic()
        async with anyio.create_task_group() as tasks:
            for socket, message in zip(sockets, messages, strict=True):
                tasks.start_soon(play, socket, message, turns, run)
        run.cpu, run.seconds = server.cpu - cpu, time.monotonic() - started
        for socket in sockets:
            await socket.close()
    return run


async def compare(clients: int, turns: int, rounds: int, pace: float) -> None:
    best: dict[str, Run] = {}
    for _ in range(rounds):
        # Interleaved, so that a busy moment of the machine does not hit only one of them.
        for kind in ("floor", "agentvm"):
            run = await measure(kind, clients, turns, pace)
            if kind not in best or run.cpu_per_delta < best[kind].cpu_per_delta:
                best[kind] = run
    rows = [["", "turns/s", "deltas/s", "first p50 ms", "p99", "delta p50 ms", "p99", "CPU µs/delta"]]
    for kind, run in best.items():
        rows.append(
            [
                kind,
                f"{run.turns / run.seconds:.0f}",
                f"{run.turns * DELTAS / run.seconds:.0f}",
                f"{percentile(run.first, 0.5) - pace * 1000:.1f}",
                f"{percentile(run.first, 0.99) - pace * 1000:.1f}",
                f"{percentile(run.deltas, 0.5):.2f}",
                f"{percentile(run.deltas, 0.99):.2f}",
                f"{run.cpu_per_delta:.1f}",
            ]
        )
    speed = f"a delta every {pace * 1000:.0f} ms" if pace else "as fast as possible"
    print(f"{clients} clients x {turns} turns of {DELTAS} deltas, {speed}, best of {rounds} rounds")
    print(table(rows))
    print("floor: the same stack, only forwarding. first: includes the durable commit of the message; see docs/benchmarks.md")
    print(f"CPU per delta, agentvm / floor: {best['agentvm'].cpu_per_delta / best['floor'].cpu_per_delta:.2f}\n")


async def main(clients: int, turns: int, rounds: int) -> None:
    await compare(clients, turns, rounds, 0.0)
    await compare(clients, max(1, turns // 5), rounds, PACE)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clients", type=int, default=50)
    parser.add_argument("--turns", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    anyio.run(main, options.clients, options.turns, options.rounds, backend_options={"use_uvloop": True})
