"""Syncs — how often a turn waits for the disk.

    python -m bench.syncs [--turns 100]

Turns run one after the other in this process, in a database whose files count when they are synced, checkpoints included. Turns
of the same moment share a commit, and so its sync; here no other turn shares them.
"""

import argparse
from collections import defaultdict
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import anyio
import apsw

from bench.disk import converse, create_image, open_runtime, words

WORDS = 100
BASE = apsw.vfs_names()[0]
"""The usual file system."""


class Syncs:
    """How many there were."""

    count = 0


class CountingFile(apsw.VFSFile):
    """A file that counts when it is synced."""

    def __init__(self, syncs: Syncs, filename: apsw.URIFilename | str | None, flags: list[int]) -> None:
        super().__init__(BASE, filename, flags)
        self._syncs = syncs

    def xSync(self, flags: int) -> None:
        self._syncs.count += 1
        super().xSync(flags)


class CountingFiles(apsw.VFS):
    """The usual file system, with files that count."""

    def __init__(self, syncs: Syncs) -> None:
        self._syncs = syncs
        super().__init__("counting", BASE, makedefault=True)

    def xOpen(self, name: apsw.URIFilename | str | None, flags: list[int]) -> apsw.VFSFile:
        return CountingFile(self._syncs, name, flags)


@contextmanager
def counting() -> Generator[Syncs]:
    """Counts the syncs of databases that are opened meanwhile."""
    syncs = Syncs()
    files = CountingFiles(syncs)
    try:
        yield syncs
    finally:
        apsw.set_default_vfs(BASE)
        files.unregister()


async def measure(turns: int) -> float:
    """Syncs of a turn."""
    with counting() as syncs, TemporaryDirectory() as name:
        async with open_runtime(Path(name), lambda: words(WORDS)) as agentx:
            image_id = await create_image(agentx, 0)
            ended: dict[object, anyio.Event] = defaultdict(anyio.Event)
            agentx.runtime.on("turn_response", lambda event: ended[event.context["turnId"]].set())
            await converse(agentx, ended, image_id, 1)
            before = syncs.count
            await converse(agentx, ended, image_id, turns)
            return (syncs.count - before) / turns


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=100)
    print(f"{anyio.run(measure, parser.parse_args().turns):.2f} syncs a turn")
