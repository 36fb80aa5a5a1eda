"""Backup — how long a commit waits while a backup of the same database is made, and how long that and its restore take.

    python -m bench.backup [--megabytes 1024] [--seconds 10]

One process commits messages one after the other, as a server does, first alone and then while another process backs the
database up. Goal: the backup makes no commit wait for the whole of it; the pauses are those of a disk that two share.
"""

import argparse
import os
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import anyio
from tests.conformance.records import HOME, SESSION, default_session, image, message
from tests.conformance.store import ACME

from agentvm.storage.engine import DATABASE, open_store
from agentvm.storage.sql.container import ContainerStore
from bench.measure import percentile, table

BODY = 16_384
BATCH = 256
BACK_UP = """
import sys, time
from pathlib import Path
from agentvm.vm import system_clock
from agentvm.storage.engine import make_backup
ends, started = {}, time.monotonic()
def note(what, done, of): ends[what] = time.monotonic()
source, target = map(Path, sys.argv[1:])
made = make_backup(source, target, clock=system_clock, progress=note)
backed = time.monotonic()
print(ends["copying"] - started, backed - ends["copying"], made.size, flush=True)
"""
RESTORE = """
import sys, time
from pathlib import Path
from agentvm.storage.engine import restore_backup
started = time.monotonic()
restore_backup(Path(sys.argv[1]), Path(sys.argv[2]))
print(time.monotonic() - started)
"""


async def fill(home: ContainerStore, megabytes: int) -> None:
    await home.create(1)
    await home.add_image(image(), default_session(image()))
    log = home.log(SESSION)
    for batch in range(megabytes * 1024 * 1024 // BODY // BATCH):
        # Half of it can be compressed, as text can.
        texts = (os.urandom(BODY // 4).hex() + " " * (BODY // 2) for _ in range(BATCH))
        await log.record(messages=[message(f"m{batch}.{n}", text) for n, text in enumerate(texts)], now=2)


class Writer:
    """Commits until it is told to stop; how long each commit took, in ms."""

    def __init__(self, home: ContainerStore) -> None:
        self._log = home.log(SESSION)
        self._number = 0

    async def run(self, took: list[float]) -> None:
        while True:
            started = time.perf_counter()
            self._number += 1
            await self._log.record(messages=[message(f"w{self._number}", "x" * 500)], now=3)
            took.append((time.perf_counter() - started) * 1000)


async def child(code: str, *arguments: Path) -> str:
    done = await anyio.run_process([sys.executable, "-c", code, *map(str, arguments)], stderr=None)
    return done.stdout.decode()


def row(name: str, took: list[float]) -> list[str]:
    return [name, str(len(took)), *(f"{percentile(took, share):.1f}" for share in (0.5, 0.99, 1))]


async def main(megabytes: int, seconds: float) -> None:
    with TemporaryDirectory() as name:
        data_dir = Path(name) / "data"
        await anyio.Path(data_dir).mkdir()
        async with open_store(data_dir / DATABASE) as store:
            home = store.tenant(ACME).container(HOME)
            await fill(home, megabytes)
            writer = Writer(home)
            alone: list[float] = []
            beside: list[float] = []
            with anyio.move_on_after(seconds):
                await writer.run(alone)
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(writer.run, beside)
                said = await child(BACK_UP, data_dir, Path(name) / "b")
                tasks.cancel_scope.cancel()
        copying, packing, size = said.split()
        restoring = await child(RESTORE, Path(name) / "b", Path(name) / "new")
        database = (await anyio.Path(data_dir / DATABASE).stat()).st_size
    print(table([["commits", "number", "p50 ms", "p99 ms", "longest ms"], row("alone", alone), row("with a backup", beside)]))
    print(f"\n{database / 2**20:.0f} MiB: copied in {float(copying):.1f} s, packed to {int(size) / 2**20:.0f} MiB in", end=" ")
    print(f"{float(packing):.1f} s, restored with all checks in {float(restoring):.1f} s")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=int, default=1024)
    parser.add_argument("--seconds", type=float, default=10)
    given = parser.parse_args()
    anyio.run(main, given.megabytes, given.seconds)
