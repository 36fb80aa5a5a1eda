"""Files — what it costs to put the files of a session into a jail and take the changed ones back, against `cp` of the same.

    python -m bench.files [--files 100] [--bytes 10000] [--rounds 40]

One round: read the rows, run a job that rewrites every file, store the changes. The floor copies the same files twice with
`cp`, in and out. Goal: at most three times the floor, without the time of an empty job, which `bench.tiers` measures.
"""

import argparse
import subprocess
import tempfile
import time
from pathlib import Path
from random import getrandbits

import anyio

from agentvm.blueprint.image import build
from agentvm.model.definition import Definition
from agentvm.model.ids import DEFAULT_TENANT, ContainerId, id_factory
from agentvm.model.image import ImageConfig
from agentvm.model.session_file import FileChange, FileDelta
from agentvm.model.tier import Job
from agentvm.storage.base import SessionWrite
from agentvm.storage.engine import open_store
from agentvm.tiers.process import open_process_tier
from bench.measure import table

REWRITE = "import os\nfor name in os.listdir():\n    with open(name, 'r+b') as file:\n        file.write(os.urandom(8))\n"


def copied(folder: Path, files: int, size: int, rounds: int) -> list[float]:
    source = folder / "source"
    source.mkdir()
    for number in range(files):
        (source / f"f{number}").write_bytes(number.to_bytes(8, "big") + bytes(size - 8))
    times = []
    for number in range(rounds):
        began = time.perf_counter()
        for target in ("in", "out"):
            subprocess.run(["cp", "-r", source, folder / f"{target}{number}"], check=True)
        times.append(time.perf_counter() - began)
    return times


async def carried(folder: Path, files: int, size: int, rounds: int) -> tuple[list[float], list[float]]:
    """Times of whole rounds, and of the job alone without files."""
    times, empty = [], []
    async with open_store(folder / "agentvm.db") as store, open_process_tier() as tier:
        home = store.tenant(DEFAULT_TENANT).container(ContainerId("c"))
        await home.create(1)
        image, session = build(
            Definition(name="d"),
            ImageConfig(),
            ContainerId("c"),
            name="",
            clock=lambda: 1,
            new_id=id_factory(lambda: 1, getrandbits),
        )
        await home.add_image(image, session)
        rows = home.files(session.session_id)

        async def keep(bodies: dict[str, bytes]) -> None:
            digests = await rows.put_all(tuple(bodies.values()), 1)
            changes = tuple(
                FileChange(path=path, digest=digest, size=len(body))
                for (path, body), digest in zip(bodies.items(), digests, strict=True)
            )
            write = SessionWrite(
                tenant_id=DEFAULT_TENANT, container_id=ContainerId("c"), session_id=session.session_id, now=1,
                files=[FileDelta(changes=changes, at=1)],
            )  # fmt: skip
            await store.commit([write])

        await keep({f"f{number}": number.to_bytes(8, "big") + bytes(size - 8) for number in range(files)})
        for _ in range(rounds + 1):
            began = time.perf_counter()
            listed = await rows.list()
            bodies = await rows.read_bodies({file.digest: file.size for file in listed})
            result = await tier.run(
                Job(engine="python", code=REWRITE, files={file.path: bodies[file.digest] for file in listed})
            )
            assert len(result.files) == files, result
            await keep(dict(result.files))
            times.append(time.perf_counter() - began)
            began = time.perf_counter()
            await tier.run(Job(engine="python", code="1"))
            empty.append(time.perf_counter() - began)
    return times[1:], empty[1:]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=100)
    parser.add_argument("--bytes", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=40)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        floor = copied(Path(name), asked.files, asked.bytes, asked.rounds)
        times, empty = anyio.run(carried, Path(name), asked.files, asked.bytes, asked.rounds)
    # The least: anything else is what other programs took meanwhile.
    whole, job, cp = (min(each) * 1e3 for each in (times, empty, floor))
    rows = [
        ("files in and out", "job alone", "cp twice", "ratio", "goal"),
        (f"{whole:.1f} ms", f"{job:.1f} ms", f"{cp:.1f} ms", f"{(whole - job) / cp:.2f}", "<= 3"),
    ]
    print(table(rows))


if __name__ == "__main__":
    main()
