"""Edge — counts what a turn at the edge takes in miniflare, and writes it beside the other coefficients of `avm cost`.

    python -m bench.edge [FILE] [--turns 200]

Requests and rows are counted by the objects' own log, and are exact. CPU is that of workerd, with Workers and objects in one
process: a turn is without its deltas, by the slope between turns of 10 and of 100 deltas as fast as possible; a delta is one
that comes alone, as models send them. The storage of a byte of text is the slope between both texts. The machine of the
platform is another one.
"""

import argparse
import platform
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from tempfile import TemporaryDirectory

import anyio
from tests.provision.edge import EdgeTools, edge_tools
from tests.support.answers import message_end, message_start, stream, text_block
from tests.support.edge import Burst, EdgeServer
from tests.support.provider import Delay, ScriptedProvider, Step
from tests.support.wire import Client19, client

from agentvm.cost.coefficients import EdgeCoefficients, Measured
from bench import quotes
from bench.coefficients import FILE, save
from bench.disk import QUESTION, words
from bench.measure import cpu_of_family

FEW, MANY = 10, 100
WORDS = {FEW: 10, MANY: 200}
"""Of an answer of so many deltas; the longer one is the text of a usual turn."""
PACE_SECONDS = 0.005
"""Between deltas that come alone."""
PACED_TURNS = 40
SESSION_TURNS = 5
TURNS_MAX = 200
BOOKED_TURNS, KEPT_TURNS = 20, 90
"""Turns whose calls a server books, and those that their container holds before: three months of thirty each."""
BOOKED_LEASE_SECONDS = 0.3
"""Until the alarm of such a turn, which ends before."""
COUNTED = ("accept", "fold", "message", "alarm")
"""Requests that are billed. Others are those of the measurement."""
KEY_READS = "at most: edge/src/key_watch.ts looks a key up once a minute while something is said or heard"


@dataclass(frozen=True)
class Run:
    """What turns of one kind have taken. CPU is in seconds of workerd."""

    cpu_per_turn: float
    bursts: list[Burst]
    text_bytes: int
    """Of a question and its answer."""
    storage_per_turn: float


def answer_of(deltas: int) -> list[str]:
    said, size = words(WORDS[deltas]), WORDS[deltas] // deltas
    return ["".join(said[start : start + size]) for start in range(0, len(said), size)]


async def talk(one: Client19, provider: ScriptedProvider, image_ids: Sequence[str], deltas: int, pace: float) -> None:
    """Turns in sessions of the usual length: what was said before is read with each message."""
    pieces: list[Step] = list(text_block(0, *answer_of(deltas)))
    if pace:
        pieces = [step for piece in pieces for step in (Delay(pace), piece)]
    provider.play(stream([message_start(), *pieces, *message_end()]))
    for image_id in image_ids:
        for _ in range(SESSION_TURNS):
            await one.say(image_id, QUESTION)
            # The client looks through all that it has heard.
            one.events.clear()


class Server(BaseHTTPRequestHandler):
    """A server that books everything."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        self.send_response(200)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Says nothing."""


async def measure_booked(tools: EdgeTools, folder: Path) -> list[Burst]:
    """What turns take of their object when a server books their calls."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Server) as booking:
        threading.Thread(target=booking.serve_forever, daemon=True).start()
        variables = {"NODE_URL": f"http://127.0.0.1:{booking.server_port}", "NODE_KEY": "bench"}
        server = EdgeServer(tools, folder, LEASE_SECONDS=str(BOOKED_LEASE_SECONDS), **variables)
        server.start()
        try:
            async with server.provider() as provider, client(server.new_url()) as alice:
                image_ids = await _images(alice, KEPT_TURNS // SESSION_TURNS)
                await talk(alice, provider, image_ids, MANY, 0)
                booked = [await _booked(server, alice, image_ids[number % len(image_ids)]) for number in range(BOOKED_TURNS)]
                return [burst for bursts in booked for burst in bursts]
        finally:
            server.stop()
            booking.shutdown()


async def _booked(server: EdgeServer, alice: Client19, image_id: str) -> list[Burst]:
    mark = len(server.log)
    await alice.say(image_id, QUESTION)
    alice.events.clear()
    return [burst for burst in await server.bursts(mark, "alarm") if burst.what in COUNTED]


async def measure(server: EdgeServer, turns: int, booked: list[Burst]) -> EdgeCoefficients:
    url = server.new_url()
    async with server.provider() as provider:
        mark = len(server.log)
        async with client(url) as alice:
            first = await _images(alice, 1)
            connected = [burst for burst in await server.bursts(mark, "putImage") if burst.what == "listen"]
            # The engine compiles what it runs often.
            await talk(alice, provider, first, MANY, 0)
            few, many = [await _run(server, alice, provider, deltas, turns) for deltas in (FEW, MANY)]
            paced = await _run(server, alice, provider, MANY, PACED_TURNS, PACE_SECONDS)
    return _coefficients(turns, len(connected), few, many, paced, booked)


async def _run(
    server: EdgeServer, alice: Client19, provider: ScriptedProvider, deltas: int, turns: int, pace: float = 0
) -> Run:
    image_ids = await _images(alice, turns // SESSION_TURNS)
    await _log_of(server, alice, len(server.log))
    mark, start = len(server.log), cpu_of_family(server.pid)
    await talk(alice, provider, image_ids, deltas, pace)
    cpu = (cpu_of_family(server.pid) - start) / turns
    bursts = [burst for burst in await _log_of(server, alice, mark) if burst.what in COUNTED]
    sizes = [burst.size_bytes for burst in bursts]
    return Run(cpu, bursts, len(QUESTION) + len("".join(answer_of(deltas))), (max(sizes) - min(sizes)) / turns)


async def _log_of(server: EdgeServer, alice: Client19, mark: int) -> list[Burst]:
    """The log since a mark, with everything that was asked so far."""
    await alice.settle()
    return await server.bursts(mark, "containers")


async def _images(alice: Client19, count: int) -> list[str]:
    """Images whose agents run: the first message of one would start it, which is a row more."""
    image_ids = [str((await alice.image("bench"))["imageId"]) for _ in range(count)]
    for image_id in image_ids:
        await alice.request("image_run_request", imageId=image_id)
    return image_ids


def _coefficients(turns: int, connected: int, few: Run, many: Run, paced: Run, booked: list[Burst]) -> EdgeCoefficients:
    source, slope = f"bench.edge, {turns} turns of {MANY} deltas", f"bench.edge, slope of {FEW} to {MANY} deltas"
    together = max(0.0, (many.cpu_per_turn - few.cpu_per_turn) / (MANY - FEW))
    turn = max(0.0, few.cpu_per_turn - FEW * together)
    delta = max(0.0, (paced.cpu_per_turn - turn) / MANY)
    text = max(0.0, (many.storage_per_turn - few.storage_per_turn) / (many.text_bytes - few.text_bytes))
    bursts = many.bursts
    of_server = f"bench.edge, {BOOKED_TURNS} turns with a server that books their calls"
    return EdgeCoefficients(
        date=datetime.now(UTC).date().isoformat(),
        machine=f"{platform.machine()}, workerd in miniflare",
        worker_requests_per_connection=Measured(value=1, unit="requests", source="the upgrade; frames are not requests"),
        object_requests_per_connection=Measured(value=connected, unit="requests", source="bench.edge, log of the objects"),
        object_requests_per_turn=Measured(value=round(len(bursts) / turns, 3), unit="requests", source=source),
        rows_per_turn=Measured(value=round(sum(burst.rows for burst in bursts) / turns, 3), unit="rows", source=source),
        rows_read_per_turn=Measured(
            value=round(sum(burst.rows_read for burst in bursts) / turns, 1),
            unit="rows",
            source=f"{source}, in one container with {2 * turns // SESSION_TURNS} sessions",
        ),
        awake_per_turn=Measured(value=round(sum(burst.ms for burst in bursts) / turns, 3), unit="ms", source=source),
        object_requests_per_booked_turn=_of_booked(len(booked), "requests", of_server),
        rows_per_booked_turn=_of_booked(sum(burst.rows for burst in booked), "rows", of_server),
        rows_read_per_booked_turn=_of_booked(
            sum(burst.rows_read for burst in booked), "rows", f"{of_server}, in a container that holds {KEPT_TURNS}"
        ),
        awake_per_booked_turn=_of_booked(sum(burst.ms for burst in booked), "ms", of_server),
        key_reads_per_turn=Measured(value=1, unit="reads", source=KEY_READS),
        cpu_per_turn=Measured(value=round(turn * 1e3, 3), unit="ms", source=f"{slope}, at 0 deltas"),
        cpu_per_delta=Measured(
            value=round(delta * 1e6, 2), unit="us", source=f"bench.edge, {PACED_TURNS} turns of {MANY} paced deltas"
        ),
        storage_per_turn=Measured(
            value=round(few.storage_per_turn - few.text_bytes * text), unit="bytes", source="bench.edge, at no text"
        ),
        storage_per_text=Measured(value=round(text, 3), unit="bytes", source="bench.edge, slope of short to long answers"),
    )


def _of_booked(sum_: float, unit: str, source: str) -> Measured:
    return Measured(value=round(sum_ / BOOKED_TURNS, 3), unit=unit, source=source)


def counted(turns: int = TURNS_MAX) -> EdgeCoefficients:
    """Counts in Workers of its own."""
    tools = edge_tools()
    with TemporaryDirectory() as folder, TemporaryDirectory() as other:
        booked = anyio.run(measure_booked, tools, Path(other))
        server = EdgeServer(tools, Path(folder), LEASE_SECONDS="60")
        server.start()
        try:
            return anyio.run(measure, server, turns, booked)
        finally:
            server.stop()


def main(file: Path, turns: int) -> None:
    save(file, {"edge": counted(turns)})
    if file == FILE:
        quotes.write()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path, nargs="?", default=FILE, help="the coefficients, whose section `edge` is written")
    parser.add_argument("--turns", type=int, default=TURNS_MAX)
    options = parser.parse_args()
    main(options.file, options.turns)
