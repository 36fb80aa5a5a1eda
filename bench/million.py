"""Million — a server with a million users: start, lists, search, backup, and the load of average and busiest minutes.

    python -m bench.million [--users 1000000] [--seconds 60] [--results FILE]

The store is generated (`bench.million_store`). Then users chosen by Zipf's law send messages at Poisson times, at 12 and at
60 turns a second; an answer is 100 deltas within 20 seconds. `first` is the time from a message to its first delta, less the
model's own pace. CPU and memory are the server's; the scripted model runs in its process, as in the floor, which only forwards
and gets the same load. `--seconds 1800` is the half hour of the price proof. Clients and server share the machine's CPUs.
"""

import argparse
import json
import os
import platform
import random
import subprocess
import sys
import time
import urllib.parse
import urllib.request
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import anyio
from websockets.asyncio.client import connect

from agentvm.version import VERSION
from bench.density import connect_users, leave
from bench.disk import size_of
from bench.measure import Server, percentile, raise_file_limit, running, wait_ready
from bench.million_store import MESSAGES_MAX, SESSIONS_MAX, TALKER_STEP_MIN, TOPICS, fill

RESULTS = Path(__file__).parent / "results" / "million.json"
DELTAS, PACE_SECONDS = 100, 0.2
RATES = {"average": 12.0, "peak": 60.0}
"""Turns in a second: 30 million in a month, and five times as many."""
QUERIES_MAX = 200
TIMEOUT_SECONDS = 120


@dataclass
class Load:
    """The numbers of one load."""

    turns: int = 0
    failed: int = 0
    cpu_ms_per_turn: float = 0.0
    cpu_share: float = 0.0
    rss_mb: float = 0.0
    streams: int = 0
    first_p50_ms: float = 0.0
    first_p99_ms: float = 0.0
    firsts: list[float] = field(default_factory=list)


class Crowd:
    """Users by Zipf's law: few talk often. Nobody sends a message while the answer to another comes."""

    def __init__(self, users: int) -> None:
        self._users = users
        self.busy: set[int] = set()

    def choose(self) -> int:
        while (number := int(self._users ** random.random())) in self.busy:
            pass
        return number


async def speak(server: Server, image_id: str, number: int, load: Load, crowd: Crowd) -> None:
    request = {
        "type": "message_send_request",
        "data": {"requestId": "send", "imageId": image_id, "content": "go", "onBusy": "queue"},
    }
    crowd.busy.add(number)
    load.streams = max(load.streams, len(crowd.busy))
    try:
        with anyio.fail_after(TIMEOUT_SECONDS):
            address = f"ws://127.0.0.1:{server.port}/ws"
            async with connect(address, compression=None, ping_interval=None, open_timeout=60) as socket:
                sent, heard = time.monotonic(), False
                await socket.send(json.dumps(request))
                async for frame in socket:
                    text = str(frame)
                    if not heard and text.startswith('{"type":"text_delta"'):
                        load.firsts.append((time.monotonic() - sent - PACE_SECONDS) * 1e3)
                        heard = True
                    elif text.startswith('{"type":"turn_response"'):
                        load.turns += 1
                        return
                    elif '"system_error"' in text[:60]:
                        break
        load.failed += 1
    except (OSError, TimeoutError):
        load.failed += 1
    finally:
        crowd.busy.discard(number)


async def play(server: Server, rate: float, seconds: float, image_of: Callable[[int], str], users: int) -> Load:
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


def ask(server: Server, path: str, **query: object) -> tuple[float, object]:
    """Seconds of a request, and its response."""
    started = time.monotonic()
    url = f"http://127.0.0.1:{server.port}{path}?{urllib.parse.urlencode(query)}"
    with urllib.request.urlopen(url, timeout=TIMEOUT_SECONDS) as response:
        body = json.loads(response.read())
    return time.monotonic() - started, body


def look(server: Server, container_of: Callable[[int], str], users: int) -> dict[str, object]:
    """Pages of containers and sessions, and searches, of users all over the store."""
    page, body = ask(server, "/v1/containers", limit=100)
    assert isinstance(body, dict)
    second, _ = ask(server, "/v1/containers", limit=100, cursor=body["nextCursor"])
    lists, searches, hits = [], [], 0
    for number in range(QUERIES_MAX):
        talker = (1 + number * users // QUERIES_MAX) // TALKER_STEP_MIN * TALKER_STEP_MIN or TALKER_STEP_MIN
        lists.append(ask(server, "/v1/sessions", container=container_of(talker))[0])
        took, reply = ask(
            server, "/v1/sessions/search", q=TOPICS[number % len(TOPICS)].split()[0], container=container_of(talker)
        )
        assert isinstance(reply, dict)
        searches.append(took)
        hits += len(reply["items"])
    return {
        "page_of_containers_ms": round(min(page, second) * 1e3, 1),
        "sessions_of_a_user_p95_ms": round(percentile(lists, 0.95) * 1e3, 1),
        "search_p95_ms": round(percentile(searches, 0.95) * 1e3, 1),
        "search_hits": hits,
    }


def backup(data_dir: Path, folder: Path) -> float:
    """Seconds of a backup beside the running server."""
    started = time.monotonic()
    command = [
        sys.executable,
        "-c",
        "from agentvm.cli.main import main; main()",
        "backup",
        str(folder / "backup"),
        "--data-dir",
        str(data_dir),
    ]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, timeout=1800)
    return time.monotonic() - started


async def measure(users: int, seconds: float, folder: Path) -> dict[str, object]:
    data_dir = folder / "data"
    data_dir.mkdir()
    with running("agentvm", data_dir=data_dir) as server:
        wait_ready(server)
        empty = server.rss
        first = await connect_users(server, "agentvm", 0, 1)
        image_id = json.loads(first[0][1])["data"]["imageId"]
        await leave(first)
    before, started = size_of(data_dir), time.monotonic()
    messages = fill(data_dir, users)
    filled, disk = time.monotonic() - started, size_of(data_dir) - before
    started = time.monotonic()
    with running("agentvm", PACE_SECONDS, deltas=DELTAS, data_dir=data_dir) as server:
        wait_ready(server)
        ready = time.monotonic() - started
        rss = server.rss
        looks = look(server, lambda number: f"bench-0-{number}", users)
        kept = backup(data_dir, folder)
        grown = size_of(data_dir)
        loads = {
            name: await play(server, rate, seconds, lambda number: f"{image_id}-{number}", users)
            for name, rate in RATES.items()
        }
        turns = sum(load.turns for load in loads.values())
        growth = (size_of(data_dir) - grown) / max(1, turns)
    with running("floor", PACE_SECONDS, deltas=DELTAS) as server:
        floor = await play(server, RATES["peak"], seconds / 2, lambda number: "", users)
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "machine": f"{platform.machine()}, {os.cpu_count()} CPUs, Python {platform.python_version()}",
        "version": VERSION,
        "users": users,
        "messages": messages,
        "seconds_of_each_load": seconds,
        "fill_seconds": round(filled, 1),
        "disk_bytes_per_user": round(disk / users),
        "rss_bytes_per_user": round(max(0, rss - empty) / users, 2),
        "ready_seconds": round(ready, 2),
        "backup_seconds": round(kept, 1),
        "disk_bytes_per_turn": round(growth),
        **looks,
        **{
            name: {key: value for key, value in asdict(load).items() if key != "firsts"}
            for name, load in (*loads.items(), ("floor_at_peak", floor))
        },
    }


def page(found: dict[str, Any]) -> str:
    """The results as the table of docs/cost.md, which a test compares."""
    average, peak, floor = (found[name] for name in ("average", "peak", "floor_at_peak"))
    rows = {
        f"disk of a user who does nothing, every tenth with {SESSIONS_MAX} sessions and {MESSAGES_MAX} messages": (
            f"{found['disk_bytes_per_user']:,} bytes"
        ),
        "memory of such a user": f"{found['rss_bytes_per_user']:g} bytes",
        "from the start to `/ready`": f"{found['ready_seconds']:g} s",
        "a page of 100 containers": f"{found['page_of_containers_ms']:g} ms",
        "sessions of a user, p95": f"{found['sessions_of_a_user_p95_ms']:g} ms",
        "search in the messages of a user, p95": f"{found['search_p95_ms']:g} ms",
        "backup beside the running server": f"{found['backup_seconds']:g} s",
        "CPU of a turn, average and busiest minutes": f"{average['cpu_ms_per_turn']:g} and {peak['cpu_ms_per_turn']:g} ms",
        "CPU of a turn of the floor in the busiest minutes": f"{floor['cpu_ms_per_turn']:g} ms",
        "streams at once, memory of the server": f"{peak['streams']:,}, {peak['rss_mb']:g} MB",
        "first delta, p50 and p99, average": f"{average['first_p50_ms']:g} and {average['first_p99_ms']:g} ms",
        "first delta, p50 and p99, busiest minutes": f"{peak['first_p50_ms']:g} and {peak['first_p99_ms']:g} ms",
        "turns, of these failed": f"{average['turns'] + peak['turns']:,}, {average['failed'] + peak['failed']:,}",
    }
    return "\n".join(["| | |", "|---|---|", *(f"| {name} | {value} |" for name, value in rows.items())])


def main(users: int, seconds: float, results: Path) -> None:
    raise_file_limit()
    random.seed(1)
    with TemporaryDirectory() as folder:
        found = anyio.run(measure, users, seconds, Path(folder), backend_options={"use_uvloop": True})
    results.parent.mkdir(exist_ok=True)
    results.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
    print(page(found))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--users", type=int, default=1_000_000)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--results", type=Path, default=RESULTS)
    options = parser.parse_args()
    main(options.users, options.seconds, options.results)
