"""Jails when something is killed: whatever it was, nothing of the job is left, and the next job runs."""

import fcntl
import os
import signal
import subprocess
import sys
from pathlib import Path

import anyio
import pytest
from tests.tiers.conftest import MODES, SRC, settings_of
from tests.tiers.processes import counts, descendants, is_alive, until, until_running

from agentvm.errors.tool import TierBroken
from agentvm.model.tier import Job, JobLimits, JobResult
from agentvm.tiers.cgroup import PREFIX
from agentvm.tiers.launcher_host import LauncherSettings
from agentvm.tiers.process import ProcessTier, open_process_tier

# Grandchildren that have left their session and parent, in busy loops: the hardest to find again.
STUBBORN = """
import os, time
for _ in range(3):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            open("written", "w").write("x")
            while True:
                pass
        os._exit(0)
while True:
    time.sleep(1000)
"""
JOB = Job(engine="python", code=STUBBORN, limits=JobLimits(wall_ms=600_000, cpu_seconds=600))
PROCESSES_MIN = 4
"""The program and three grandchildren."""

SERVER = """
import sys
sys.path[:0] = [{source!r}, {root!r}]
import anyio
from agentvm.tiers.launcher_host import LauncherSettings
from agentvm.tiers.process import open_process_tier
from tests.faults.test_jail import JOB

async def main():
    async with open_process_tier(LauncherSettings(namespaces={namespaces}, command={command})) as tier:
        async with anyio.create_task_group() as tasks, tier.open(JOB):
            for _ in range(2):
                tasks.start_soon(tier.run, JOB)
            await anyio.sleep_forever()

anyio.run(main)
"""


@pytest.fixture(params=MODES)
def settings(request: pytest.FixtureRequest) -> LauncherSettings:
    return settings_of(request.param)


def folders() -> set[str]:
    return {name for name in os.listdir("/tmp") if name.startswith("agentvm-jails-")}


def is_left(name: str) -> bool:
    """Whether nobody holds the lock of a folder, so that its launcher is gone and it is still there."""
    try:
        descriptor = os.open(f"/tmp/{name}", os.O_RDONLY | os.O_DIRECTORY)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(descriptor)
    return True


def groups_of(launcher: int) -> list[Path]:
    """Control groups of the jobs of a launcher."""
    return [
        folder
        for rows in Path("/proc/self/cgroup").read_text().splitlines()
        for controllers, path in [rows.split(":", 2)[1:]]
        for folder in Path(f"/sys/fs/cgroup/{controllers}{path}").glob(f"{PREFIX}{launcher}-*")
    ]


def mounts_here() -> str:
    return Path("/proc/self/mountinfo").read_text()


async def all_gone(processes: list[int]) -> None:
    """Waits until all is gone. The job itself would end after ten minutes."""
    await until(lambda: not any(map(is_alive, processes)))


async def test_nothing_is_left_when_the_server_is_killed(settings: LauncherSettings) -> None:
    before, mounts = folders(), mounts_here()
    program = SERVER.format(
        source=str(SRC), root=str(SRC.parent), namespaces=settings.namespaces, command=tuple(settings.command)
    )
    with subprocess.Popen([sys.executable, "-c", program]) as server:  # noqa: ASYNC220 - it returns at once
        await until(lambda: len(descendants(server.pid)) >= 3 * PROCESSES_MIN + 1, 60)
        processes = descendants(server.pid)
        server.kill()
        await until(
            lambda: (
                not any(map(is_alive, processes))
                # Folders of other tests come and go.
                and not any(map(is_left, folders() - before))
                and not groups_of(processes[0])
            )
        )
    assert mounts_here() == mounts


@pytest.mark.parametrize("victim", ["launcher", "first process", "program"])
async def test_nothing_is_left_when_a_part_is_killed_and_the_next_job_runs(settings: LauncherSettings, victim: str) -> None:
    async with open_process_tier(settings) as tier:
        if (await tier.offer()).missing:
            pytest.skip("this host has no jails")
        assert tier.report is not None
        outcome = await run_until_killed(tier, victim)
        if victim == "launcher":
            assert isinstance(outcome, TierBroken)
        else:
            assert isinstance(outcome, JobResult)
            assert (outcome.signal, outcome.timed_out) == ("SIGKILL", False)
        assert (await tier.run(Job(engine="python", code="1 + 1"))).value == 2
        assert descendants(tier.launcher_process_id) == []
    assert not tier.report.scratch or os.path.basename(tier.report.scratch) not in folders()


async def test_a_killed_launcher_leaves_no_group_behind(settings: LauncherSettings) -> None:
    async with open_process_tier(settings) as tier:
        if "cgroup" not in (await tier.offer()).walls:
            pytest.skip("no control group was delegated to the tests")
        async with tier.open(JOB):
            launcher = tier.launcher_process_id
            assert launcher is not None
            assert groups_of(launcher)
            os.kill(launcher, signal.SIGKILL)
            # The next launcher sweeps.
            await until(lambda: tier.launcher_process_id is None)
            assert (await tier.run(Job(engine="python", code="1 + 1"))).value == 2
        assert groups_of(launcher) == []


async def run_until_killed(tier: ProcessTier, victim: str) -> object:
    """Kills a part of a running job; returns what its caller got."""
    got: list[object] = []

    async def run() -> None:
        try:
            got.append(await tier.run(JOB))
        except TierBroken as error:
            got.append(error)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(run)
        processes = await until_running(tier, PROCESSES_MIN)
        first = processes[0]
        # Without namespaces a guard comes first.
        guarded = "pid" not in (await tier.offer()).walls
        program = next(process for process in processes if parent_of(process) == first) if guarded else first
        target = {"launcher": tier.launcher_process_id, "first process": first, "program": program}[victim]
        assert target is not None
        os.kill(target, signal.SIGKILL)
        await all_gone(processes)
    return got[0]


def parent_of(process: int) -> int:
    try:
        return int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return 0


async def test_kills_at_every_moment_of_a_start_leave_nothing(settings: LauncherSettings) -> None:
    async with open_process_tier(settings) as tier:
        await tier.run(Job(engine="python", code="1"))
        before = counts(tier.launcher_process_id)
        for moment in range(40):
            with anyio.move_on_after(moment / 2000):
                await tier.run(JOB)
        assert descendants(tier.launcher_process_id) == []
        # The launcher may be looking for strays just now, which takes a descriptor.
        await until(lambda: all(now <= then for now, then in zip(counts(tier.launcher_process_id), before, strict=True)))


async def test_a_job_on_a_full_queue_of_kills_does_not_harm_its_neighbours() -> None:
    async with open_process_tier() as tier:
        values: list[object] = []

        async def good() -> None:
            values.append((await tier.run(Job(engine="python", code="import time\ntime.sleep(0.2)\n7"))).value)

        async with anyio.create_task_group() as tasks:
            for _ in range(5):
                tasks.start_soon(good)
            for _ in range(5):
                await run_and_cancel(tier)
        assert values == [7] * 5


async def run_and_cancel(tier: ProcessTier) -> None:
    with anyio.move_on_after(0.02):
        await tier.run(JOB)
