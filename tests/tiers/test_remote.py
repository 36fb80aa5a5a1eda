"""Jobs on another server: two real AgentVMs, and a server that lies, refuses or goes away."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import anyio
import anyio.abc
import msgspec
import pytest

from agentvm import ScriptedDriver, ServerConfig, start_server
from agentvm.app import open_agentvm
from agentvm.config import MEMORY, SystemSettings
from agentvm.drivers.scripted import echo
from agentvm.errors import ToolFailed
from agentvm.errors.tool import TierBroken, TierUnavailable
from agentvm.model.ids import DEFAULT_TENANT
from agentvm.model.secret import Secret
from agentvm.model.tier import Job, JobLimits, JobOwner, JobResult, Need, Placed
from agentvm.model.tier_settings import RemoteSettings
from agentvm.model.tool_settings import ToolSettings
from agentvm.server.local import RunningServer
from agentvm.tiers.remote import RemoteTier
from agentvm.vm import AgentVM

SLOW = Job(engine="shell", code="sleep 300", limits=JobLimits(wall_ms=600_000))


@asynccontextmanager
async def worker() -> AsyncIterator[RunningServer]:
    """A server that asks for keys."""
    config = ServerConfig(system=SystemSettings(port=0, data_dir=MEMORY, shutdown_seconds=0, auth="on"))
    async with start_server(config, drivers={"scripted": ScriptedDriver(echo)}) as running:
        yield running


@asynccontextmanager
async def with_remote(running: RunningServer, key: str | None = None) -> AsyncIterator[AgentVM]:
    """Another server, whose jobs can go there."""
    assert running.first_key is not None
    remote = RemoteSettings(url=running.url, key=Secret(key) if key else running.first_key)
    config = ServerConfig(system=SystemSettings(data_dir=MEMORY), tools=ToolSettings(remote=remote))
    async with open_agentvm(config, drivers={"scripted": ScriptedDriver(echo)}) as vm:
        yield vm


async def run(vm: AgentVM, job: Job) -> tuple[Placed, JobResult]:
    owner = JobOwner(tenant_id=DEFAULT_TENANT)
    with anyio.fail_after(60):
        return await vm.jobs.run(owner, Need(engine=job.engine, tier="remote"), msgspec.structs.replace(job, key="k"))


@dataclass
class Watched:
    """Whether a job has begun on a server, and ended."""

    begun: anyio.Event = field(default_factory=anyio.Event)
    ended: anyio.Event = field(default_factory=anyio.Event)


async def watch(running: RunningServer, monkeypatch: pytest.MonkeyPatch) -> Watched:
    scheduler, watched = await running.server.vm.tiers.scheduler(), Watched()
    original = scheduler.run

    async def run_watched(*given: Any, **named: Any) -> Any:
        watched.begun.set()
        try:
            return await original(*given, **named)
        finally:
            watched.ended.set()

    monkeypatch.setattr(scheduler, "run", run_watched)
    return watched


async def test_a_job_runs_on_the_other_server_and_comes_back_whole() -> None:
    code = "import os\ndef run(a):\n    open('out', 'wb').write(open('in', 'rb').read() * 2)\n    os.remove('old')\n"
    code += "    print('p')\n    return [a, os.environ['X']]"
    async with worker() as running, with_remote(running) as vm:
        job = Job(engine="python", code=code, input={"a": 1}, env={"X": "1"}, files={"in": b"\0\xff", "old": b""})
        placed, result = await run(vm, job)
        assert (placed.tier, result.exit_code, result.value, result.stdout) == ("remote", 0, [1, "1"], b"p\n")
        assert (result.files, result.deleted) == ({"out": b"\0\xff\0\xff"}, ("old",))
        own = Job(engine="python", code="def run(a):\n    return a\nrun(3)", script=True)
        assert (await run(vm, own))[1].value == 3
        script = Job(engine="shell", code="cat $AVM_IN/notes.txt; ls /in", inputs={"notes.txt": b"\0\xff"})
        placed, result = await run(vm, script)
        assert (placed.tier, result.stdout) == ("remote", "\ufffd\ufffdnotes.txt\n".encode())
        skilled = Job(engine="shell", code="sh $AVM_SKILLS/pdf/a.sh", skills={"pdf/a.sh": b"echo hello"})
        assert (await run(vm, skilled))[1].stdout == b"hello\n"
        placed, result = await run(vm, Job(engine="shell", code="sleep 60", limits=JobLimits(wall_ms=300)))
        assert (result.timed_out, result.signal) == (True, "SIGKILL")


async def test_a_wrong_key_is_told_before_anything_is_sent() -> None:
    async with worker() as running, with_remote(running, key="avm_wrong") as vm:
        with pytest.raises(TierUnavailable, match=r"tools\.remote: .*refused"):
            await run(vm, Job(engine="shell", code="true"))


async def test_a_job_that_is_cancelled_here_ends_there(monkeypatch: pytest.MonkeyPatch) -> None:
    async with worker() as running, with_remote(running) as vm:
        watched = await watch(running, monkeypatch)
        with anyio.fail_after(60):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(run, vm, SLOW)
                await watched.begun.wait()
                assert not watched.ended.is_set()
                tasks.cancel_scope.cancel()
            await watched.ended.wait()


async def test_a_job_whose_server_goes_away_fails_with_the_reason_and_is_not_run_again(monkeypatch: pytest.MonkeyPatch) -> None:
    failures: list[TierBroken] = []

    async def job(vm: AgentVM) -> None:
        # It stops in an orderly way, so it answers still; a connection that breaks is told as such.
        with pytest.raises(TierBroken, match=r"failed|is gone") as failed:
            await run(vm, SLOW)
        failures.append(failed.value)

    async def serve(stop: anyio.Event, *, task_status: anyio.abc.TaskStatus[RunningServer]) -> None:
        async with worker() as running:
            task_status.started(running)
            await stop.wait()

    stop = anyio.Event()
    async with anyio.create_task_group() as tasks:
        running = await tasks.start(serve, stop)
        async with with_remote(running) as vm, anyio.create_task_group() as jobs:
            watched = await watch(running, monkeypatch)
            jobs.start_soon(job, vm)
            with anyio.fail_after(60):
                await watched.begun.wait()
            stop.set()
    assert [failure.started for failure in failures] == [True]


def asked(*replies: tuple[int, object]) -> RemoteTier:
    """A tier whose server answers with these, one after the other."""
    left = list(replies)

    async def ask(method: str, path: str, body: bytes, seconds: float) -> tuple[int, bytes]:
        status, reply = left.pop(0)
        return status, reply if isinstance(reply, bytes) else msgspec.json.encode(reply)

    return RemoteTier(ask, "worker.example")


@pytest.mark.parametrize(
    "reply",
    [
        b"<html>",
        {"exitCode": 0},
        {"durationMs": 1, "files": {"../up": "x"}},
        {"durationMs": 1, "files": {"/etc/passwd": "x"}},
        {"durationMs": 1, "files": {"a": "x" * 100}},
        {"durationMs": 1, "deleted": ["never-there"]},
        {"durationMs": 1, "stdout": 7},
    ],
)
async def test_a_server_that_lies_is_not_believed(reply: object) -> None:
    tier = asked((200, reply))
    with pytest.raises(TierBroken) as failed:
        await tier.run(Job(engine="shell", code="true", limits=JobLimits(disk_bytes=50)))
    assert failed.value.started is True


async def test_output_beyond_its_bound_is_cut() -> None:
    tier = asked((200, {"durationMs": 10**12, "exitCode": 0, "stdout": "x" * 100}))
    result = await tier.run(Job(engine="shell", code="true", limits=JobLimits(output_bytes=10, wall_ms=1_000)))
    assert (len(result.stdout), result.truncated, result.duration_ms <= 11_000) == (10, True, True)


@pytest.mark.parametrize(("status", "started"), [(401, False), (422, False), (429, False), (500, True), (502, True)])
async def test_a_refusal_has_run_nothing_and_a_failure_may_have(status: int, started: bool) -> None:
    tier = asked((status, {"error": {"code": "busy", "message": "no"}}))
    with pytest.raises(TierBroken, match="busy: no") as failed:
        await tier.run(Job(engine="shell", code="true"))
    assert failed.value.started is started


@pytest.mark.parametrize(
    ("reply", "missing"),
    [
        ((401, {"error": {"code": "unauthenticated", "message": "no key"}}), "unauthenticated: no key"),
        ((200, b"<html>"), "is not an AgentVM server"),
        ((200, {"permissions": ["sessions:read"]}), "tools:invoke"),
    ],
)
async def test_what_is_missing_is_in_the_offer(reply: tuple[int, object], missing: str) -> None:
    assert missing in (await asked(reply).offer()).missing


async def test_a_server_that_does_not_answer_is_missing_and_asked_again_later() -> None:
    async def fail(method: str, path: str, body: bytes, seconds: float) -> tuple[int, bytes]:
        raise ToolFailed("worker.example did not answer")

    tier = RemoteTier(fail, "worker.example")
    assert "did not answer" in (await tier.offer()).missing
    with pytest.raises(TierBroken, match=r"is gone: worker\.example did not answer") as failed:
        await tier.run(Job(engine="shell", code="true"))
    assert failed.value.started is True
    with pytest.raises(TierUnavailable):
        tier.open(Job(engine="shell"))
    with pytest.raises(TierUnavailable):
        await tier.run(Job(engine="shell", code="true", network=("example.org",)))
