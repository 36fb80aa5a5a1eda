import os
import signal
import sys

import anyio
import pytest
from tests.tiers import paused_launcher
from tests.tiers.conftest import SRC
from tests.tiers.paused_launcher import STEPS
from tests.tiers.processes import descendants, is_alive, until

from agentvm.errors.tool import TierBroken
from agentvm.tiers.frames import Bounds, JobWork
from agentvm.tiers.launcher_host import LauncherSettings, open_launcher_host


async def test_one_launcher_serves_all_and_another_follows_when_it_dies() -> None:
    async with open_launcher_host() as host:
        async with host.lease() as first, host.lease() as second:
            assert first is second
            launcher = host.process_id
            assert launcher is not None
        os.kill(launcher, signal.SIGKILL)
        await until(lambda: host.process_id != launcher)
        async with host.lease() as third:
            assert third is not first
            assert third.report is not None


async def test_a_job_whose_launcher_dies_is_told_and_does_not_hang() -> None:
    async with open_launcher_host() as host, host.lease() as life:
        assert host.process_id is not None
        async with life.job(has_stdin=True) as jail:
            os.kill(host.process_id, signal.SIGKILL)
            with anyio.fail_after(60), pytest.raises(EOFError):
                await jail.line.receive()
            assert await jail.wait() is None
        with pytest.raises(TierBroken):
            async with life.job(has_stdin=False):
                pass


BOUNDS = Bounds(cpu_seconds=60, memory_bytes=10**9, processes=8, disk_bytes=10**6, files=100)


@pytest.mark.parametrize("namespaces", [True, False])
@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("victim", ["job", "launcher"])
async def test_a_job_whose_start_is_killed_at_any_step_leaves_nothing(victim: str, step: str, namespaces: bool) -> None:
    if step == "network" and not namespaces:
        pytest.skip("without namespaces there is no network")
    program = f"import sys; sys.path[:0] = {[str(SRC), str(SRC.parent)]!r}; "
    program += f"import runpy; runpy.run_path({paused_launcher.__file__!r}, run_name='__main__')"
    settings = LauncherSettings(namespaces=namespaces, command=(sys.executable, "-I", "-c", program, step))
    work = JobWork(role="shell", code="exec sleep 1000", bounds=BOUNDS, files={"a": b"x"}, network=step == "network")
    async with open_launcher_host(settings) as host, host.lease() as life:
        report, launcher = life.report, host.process_id
        assert report is not None
        assert launcher is not None
        if report.mode == "none":
            pytest.skip(f"this host has no jails: {report.why}")
        async with life.job(has_stdin=False) as jail:
            await jail.line.send(work)
            with anyio.fail_after(60):
                await anyio.wait_readable(jail.stdout)
                assert os.read(jail.stdout, 100) == b"paused"
                processes = descendants(launcher)
                os.kill(processes[-1] if victim == "job" else launcher, signal.SIGKILL)
                await until(lambda: not any(map(is_alive, processes)))
                assert (await jail.wait() is not None) == (victim == "job")
        # The folder of a job goes with it; that of the launcher with the launcher.
        await until(lambda: victim == "launcher" or report.scratch == "" or os.listdir(report.scratch) == [])
    assert not is_alive(launcher)
    assert report.scratch == "" or os.path.basename(report.scratch) not in os.listdir("/tmp")


async def test_a_launcher_that_says_nothing_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agentvm.tiers.launcher_host.START_SECONDS", 0.2)
    monkeypatch.setattr("agentvm.tiers.launcher_host.STOP_SECONDS", 0.1)
    async with open_launcher_host(LauncherSettings(command=("/bin/sh", "-c", "exec sleep 1000"))) as host:
        with anyio.fail_after(60), pytest.raises(TierBroken, match="did not answer"):
            async with host.lease():
                pass
        launcher = host.process_id
    assert launcher is None or not is_alive(launcher)


async def test_a_launcher_that_speaks_nonsense_is_given_up() -> None:
    code = "import os, sys; os.write(int(sys.argv[-1]), b'x' * 100)"
    async with open_launcher_host(LauncherSettings(command=("python3", "-c", code))) as host:
        with anyio.fail_after(60), pytest.raises(TierBroken):
            async with host.lease():
                pass
