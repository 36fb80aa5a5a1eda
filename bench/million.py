"""Million — a server with a million users: start, lists, search, backup, and the load of average and busiest minutes.

    python -m bench.million [--users 1000000] [--seconds 60] [--store DIR] [--results FILE]

The store is generated (`bench.million_store`), and with `--store` kept there and copied for each run, which then takes six
minutes; `--only-store` generates it and no more. Its users send messages (`bench.million_load`), 12 and 60 in a second, and 12
while a backup runs; an answer is 100 deltas within 20 seconds, and every twentieth turn runs Python in a sandbox. Then the
histories of all who spoke are compared with what they heard. CPU and memory are the server's, without the sandboxes; the
scripted model runs in its process, as in the floor, which only forwards and gets the same load. `--seconds 1800` is the half
hour of the price proof. Clients and server share the machine's CPUs.
"""

import argparse
import json
import os
import platform
import random
import shutil
import subprocess
import sys
import time
import urllib.parse
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import anyio
import anyio.to_thread
import msgspec

from agentvm.model.base import Record
from agentvm.version import VERSION
from bench import quotes
from bench.disk import size_of
from bench.measure import Server, percentile, raise_file_limit, running, wait_ready
from bench.million_load import DELTAS, PACE_SECONDS, Load, check, converse, first_user, open_socket, play
from bench.million_page import RESULTS, page
from bench.million_store import TALKER_STEP_MIN, TOPICS, fill

RATES = {"average": 12.0, "peak": 60.0}
"""Turns in a second: 30 million in a month, and five times as many."""
BACKUP_LOAD_SECONDS = 30.0
QUERIES_MAX = 200
TIMEOUT_SECONDS = 120


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
        "page_of_containers_ms": round(max(page, second) * 1e3, 1),
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


@dataclass(frozen=True)
class Start:
    """What a server takes until it is ready."""

    seconds: float
    cpu: float
    rss: int


def wait_start(server: Server, started: float) -> Start:
    wait_ready(server)
    return Start(time.monotonic() - started, server.cpu, server.rss)


def start_empty(data_dir: Path) -> Start:
    """The start of a server without users."""
    started = time.monotonic()
    with running("agentvm", data_dir=data_dir, tools=True) as server:
        return wait_start(server, started)


class Filled(Record):
    """A generated store."""

    users: int
    image_id: str
    messages: int
    fill_seconds: float
    disk_bytes: int


async def store_of(store: Path, users: int) -> Filled:
    """The store in a directory, which is generated if there is none of so many users."""
    data_dir, about = store / "data", store / "about.json"
    if about.exists():
        kept = msgspec.json.decode(about.read_bytes(), type=Filled)
        if kept.users == users:
            return kept
    about.unlink(missing_ok=True)
    shutil.rmtree(data_dir, ignore_errors=True)
    data_dir.mkdir(parents=True, mode=0o700)
    image_id = await first_user(data_dir)
    before, started = size_of(data_dir), time.monotonic()
    messages = fill(data_dir, users)
    filled = Filled(
        users=users,
        image_id=image_id,
        messages=messages,
        fill_seconds=round(time.monotonic() - started, 1),
        disk_bytes=size_of(data_dir) - before,
    )
    about.write_bytes(msgspec.json.encode(filled))
    return filled


async def beside_backup(server: Server, play_for: Callable[[float], Any], data_dir: Path, folder: Path) -> tuple[float, Load]:
    """Seconds of a backup, and the load that was there meanwhile."""
    took: list[float] = []
    loads: list[Load] = []

    async def copy() -> None:
        took.append(await anyio.to_thread.run_sync(backup, data_dir, folder))

    async def load() -> None:
        loads.append(await play_for(BACKUP_LOAD_SECONDS))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(copy)
        tasks.start_soon(load)
    return took[0], loads[0]


async def measure(users: int, seconds: float, store: Path, folder: Path) -> dict[str, object]:
    filled = await store_of(store, users)
    data_dir = folder / "data"
    shutil.copytree(store / "data", data_dir)
    # Else the kernel would write the copy beside whatever is measured.
    os.sync()
    empty = start_empty(folder / "empty")
    started = time.monotonic()
    with running("agentvm", PACE_SECONDS, deltas=DELTAS, data_dir=data_dir, tools=True) as server:
        ready = wait_start(server, started)

        def image_of(number: int) -> str:
            return f"{filled.image_id}-{number}"

        first = Load()
        async with open_socket(server) as socket:
            await converse(socket, image_of(users), first, uses_tool=False)
        looks = look(server, lambda number: f"bench-0-{number}", users)
        grown = size_of(data_dir)
        loads = {name: await play(server, rate, seconds, image_of, users) for name, rate in RATES.items()}
        growth = (size_of(data_dir) - grown) / max(1, sum(load.turns for load in loads.values()))
        rate = RATES["average"]
        kept, beside = await beside_backup(
            server, lambda lasting: play(server, rate, lasting, image_of, users), data_dir, folder
        )
        checked = await check(server, [*loads.values(), beside], image_of)
    with running("floor", PACE_SECONDS, deltas=DELTAS) as server:
        floor = await play(server, RATES["peak"], seconds, lambda number: "", users)
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "machine": f"{platform.machine()}, {os.cpu_count()} CPUs, Python {platform.python_version()}",
        "load_average": round(os.getloadavg()[2], 1),
        "version": VERSION,
        "users": users,
        "messages": filled.messages,
        "seconds_of_each_load": seconds,
        "fill_seconds": filled.fill_seconds,
        "disk_bytes_per_user": round(filled.disk_bytes / users),
        "rss_bytes_per_user": round(max(0, ready.rss - empty.rss) / users, 2),
        "ready_seconds": round(ready.seconds, 2),
        "ready_cpu_seconds": round(ready.cpu, 2),
        "empty_ready_seconds": round(empty.seconds, 2),
        "empty_ready_cpu_seconds": round(empty.cpu, 2),
        "first_message_ms": round(first.firsts[0], 1),
        "backup_seconds": round(kept, 1),
        "disk_bytes_per_turn": round(growth),
        "added_first_p99_ms": round(loads["peak"].first_p99_ms - floor.first_p99_ms, 1),
        **looks,
        **checked,
        **{name: load.numbers for name, load in (*loads.items(), ("beside_backup", beside), ("floor_at_peak", floor))},
    }


def main(users: int, seconds: float, store: Path | None, results: Path, *, only_store: bool) -> None:
    raise_file_limit()
    random.seed(1)
    uvloop = {"use_uvloop": True}
    if only_store:
        if store is None:
            raise SystemExit("--only-store needs --store DIR")
        print(anyio.run(store_of, store, users, backend_options=uvloop))
        return
    if store is not None:
        store.mkdir(parents=True, exist_ok=True)
    # Beside the store: a copy onto another disk would be slower.
    with TemporaryDirectory(dir=store) as folder:
        kept = store or Path(folder, "store")
        found = anyio.run(measure, users, seconds, kept, Path(folder), backend_options=uvloop)
    results.parent.mkdir(exist_ok=True)
    results.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
    print(page(found))
    if results == RESULTS:
        quotes.write()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--users", type=int, default=1_000_000)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--store", type=Path, help="where the generated store is kept, and is looked for")
    parser.add_argument("--only-store", action="store_true", help="generate the store, and no more")
    parser.add_argument("--results", type=Path, default=RESULTS)
    options = parser.parse_args()
    main(options.users, options.seconds, options.store, options.results, only_store=options.only_store)
