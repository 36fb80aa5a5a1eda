"""Million — a server with a million users: start, lists, search, backup, and the load of average and busiest minutes.

    python -m bench.million [--users 1000000] [--seconds 60] [--results FILE]

The store is generated (`bench.million_store`). Then its users send messages (`bench.million_load`), 12 and 60 in a second, and
12 while a backup runs; an answer is 100 deltas within 20 seconds, and every twentieth turn runs Python in a sandbox. Then the
histories of all who spoke are compared with what they heard. CPU and memory are the server's, without the sandboxes; the
scripted model runs in its process, as in the floor, which only forwards and gets the same load. `--seconds 1800` is the half
hour of the price proof. Clients and server share the machine's CPUs.
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
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import anyio
import anyio.to_thread

from agentvm.version import VERSION
from bench.disk import size_of
from bench.measure import Server, percentile, raise_file_limit, running, wait_ready
from bench.million_load import DELTAS, PACE_SECONDS, Load, check, open_socket, play
from bench.million_store import MESSAGES_MAX, SESSIONS_MAX, TALKER_STEP_MIN, TOPICS, fill
from bench.servers import DEFINITION

RESULTS = Path(__file__).parent / "results" / "million.json"
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


async def first_user(data_dir: Path) -> tuple[str, int]:
    """The image of the user of whom the others are copies, and the memory of a server without users."""
    with running("agentvm", data_dir=data_dir, tools=True) as server:
        wait_ready(server)
        empty = server.rss
        async with open_socket(server) as socket:
            data = {"requestId": "create", "containerId": "bench-0", "config": {"definition": DEFINITION}}
            await socket.send(json.dumps({"type": "image_create_request", "data": data}))
            async for text in socket:
                frame = json.loads(text)
                if frame.get("type") == "image_create_response":
                    return frame["data"]["record"]["imageId"], empty
    raise SystemExit("the server closed the socket")


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


async def measure(users: int, seconds: float, folder: Path) -> dict[str, object]:
    data_dir = folder / "data"
    data_dir.mkdir()
    image_id, empty = await first_user(data_dir)
    before, started = size_of(data_dir), time.monotonic()
    messages = fill(data_dir, users)
    filled, disk = time.monotonic() - started, size_of(data_dir) - before
    started = time.monotonic()
    with running("agentvm", PACE_SECONDS, deltas=DELTAS, data_dir=data_dir, tools=True) as server:
        wait_ready(server)
        ready, rss = time.monotonic() - started, server.rss

        def image_of(number: int) -> str:
            return f"{image_id}-{number}"

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
        floor = await play(server, RATES["peak"], seconds / 2, lambda number: "", users)
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "machine": f"{platform.machine()}, {os.cpu_count()} CPUs, Python {platform.python_version()}",
        "load_average": round(os.getloadavg()[2], 1),
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
        "added_first_p99_ms": round(loads["peak"].first_p99_ms - floor.first_p99_ms, 1),
        **looks,
        **checked,
        **{name: load.numbers for name, load in (*loads.items(), ("beside_backup", beside), ("floor_at_peak", floor))},
    }


def page(found: dict[str, Any]) -> str:
    """The results as the table of docs/cost.md, which a test compares."""
    average, peak, copied, floor = (found[name] for name in ("average", "peak", "beside_backup", "floor_at_peak"))
    loads = (average, peak, copied)
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
        "first delta, p50 and p99, of the floor in the busiest minutes": (
            f"{floor['first_p50_ms']:g} and {floor['first_p99_ms']:g} ms"
        ),
        "first delta, p50 and p99, average, while a backup runs": (
            f"{copied['first_p50_ms']:g} and {copied['first_p99_ms']:g} ms"
        ),
        "processes that wanted a CPU on average during the run, those of others too": f"{found['load_average']:g}",
        "turns, of these with a tool, failed": ", ".join(
            f"{sum(load[name] for load in loads):,}" for name in ("turns", "tool_turns", "failed")
        ),
        "users whose history was checked, of these with a broken promise": (
            f"{found['checked_users']:,}, {found['broken_histories']:,}"
        ),
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
