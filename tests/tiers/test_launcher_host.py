import os
import signal
import sys

import anyio
import pytest
from tests.tiers import paused_launcher
from tests.tiers.conftest import SRC
from tests.tiers.processes import is_alive, until

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


@pytest.mark.parametrize("namespaces", [True, False])
@pytest.mark.parametrize("point", ["fork", "settle"])
async def test_a_job_whose_launcher_died_before_it_asked_to_be_told_ends(point: str, namespaces: bool) -> None:
    program = f"import sys; sys.path[:0] = {[str(SRC), str(SRC.parent)]!r}; "
    program += f"import runpy; runpy.run_path({paused_launcher.__file__!r}, run_name='__main__')"
    settings = LauncherSettings(namespaces=namespaces, command=(sys.executable, "-I", "-c", program, point))
    async with open_launcher_host(settings) as host, host.lease() as life, life.job(has_stdin=False) as jail:
        assert life.report is not None
        if life.report.mode == "none":
            pytest.skip(f"this host has no jails: {life.report.why}")
        bounds = Bounds(cpu_seconds=60, memory_bytes=10**8, processes=8, disk_bytes=10**6, files=100)
        if point == "settle":
            await jail.line.send(JobWork(role="shell", code="exec sleep 1000", bounds=bounds))
        with anyio.fail_after(60):
            await anyio.wait_readable(jail.stdout)
            assert os.read(jail.stdout, 100) == b"paused"
            assert host.process_id is not None
            os.kill(host.process_id, signal.SIGKILL)
            with pytest.raises(EOFError):
                await jail.line.receive()


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
