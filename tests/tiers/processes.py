"""Processes as the kernel shows them: those below another, their memory, mounts and descriptors."""

import os
from collections.abc import Callable
from pathlib import Path

import anyio

from agentvm.tiers.process import ProcessTier


def descendants(process: int | None) -> list[int]:
    """Living processes below one."""
    children: dict[int, list[int]] = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            fields = Path(f"/proc/{name}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if fields[0] != "Z":
            children.setdefault(int(fields[1]), []).append(int(name))
    found = list(children.get(process or -1, ()))
    for child in found:
        found += children.get(child, ())
    return found


def is_alive(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def resident_bytes(process: int | None) -> int:
    return int(Path(f"/proc/{process}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def out_of_memory_order(process: int) -> int:
    """How much earlier than others the kernel ends a process when there is no memory left."""
    return int(Path(f"/proc/{process}/oom_score_adj").read_text())


def counts(process: int | None) -> tuple[int, int, int]:
    """Descriptors of this process and of another, and the mounts of the other."""
    mounts = Path(f"/proc/{process}/mounts").read_text().count("\n")
    return len(os.listdir("/proc/self/fd")), len(os.listdir(f"/proc/{process}/fd")), mounts


async def until(done: Callable[[], bool], seconds: float = 60) -> None:
    with anyio.fail_after(seconds):
        while not done():  # noqa: ASYNC110 - the kernel tells nobody
            await anyio.sleep(0.005)


async def until_running(tier: ProcessTier, count: int = 1) -> list[int]:
    """Waits for so many processes of a job."""
    await until(lambda: len(descendants(tier.launcher_process_id)) >= count)
    return descendants(tier.launcher_process_id)
