"""Containers: against a double of the API everywhere, and against a real engine where the machine has one."""

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import anyio
import httpx2
import msgspec
import pytest
from tests.support.container_engine import FakeEngine, open_fake_engine

from agentvm.errors.tool import TierBroken, TierUnavailable
from agentvm.model.tier import Job, JobLimits, JobResult, Need
from agentvm.tiers import container
from agentvm.tiers.container import GRACE_MS, ContainerSettings, ContainerTier, open_container_tier
from agentvm.tiers.docker_api import make_archive
from agentvm.tiers.scheduler import Scheduler

IMAGE = "localhost/agentvm-test:1"
SETTINGS = ContainerSettings(socket="", server="tests", images={"shell": IMAGE, "command": IMAGE, "python": IMAGE})
PROGRAMS = ("sh", "cat", "sleep", "rm", "ls", "id", "mkdir")


def now_ms() -> int:
    return round(time.time() * 1000)


@pytest.fixture(params=["double", "real"])
async def opened(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[ContainerTier]:
    """The tier on each engine."""
    if request.param == "double":
        async with open_fake_engine(tmp_path, IMAGE) as (_, socket), open_container_tier(at(socket), now_ms) as tier:
            yield tier
        return
    engine = request.getfixturevalue("container_engine")
    await import_image(engine, IMAGE, image_archive())
    async with open_container_tier(replace(at(engine), server=f"tests-{os.getpid()}"), now_ms) as tier:
        yield tier


def at(socket: str) -> ContainerSettings:
    return replace(SETTINGS, socket=socket)


@asynccontextmanager
async def double(tmp_path: Path, **changes: object) -> AsyncIterator[tuple[FakeEngine, ContainerTier]]:
    async with open_fake_engine(tmp_path, IMAGE) as (engine, socket):
        async with open_container_tier(replace(at(socket), **changes), now_ms) as tier:  # type: ignore[arg-type]
            yield engine, tier


def image_files(*more: Path) -> dict[str, bytes]:
    """A few programs of this host with their libraries, so that no registry is asked; of others their libraries only."""
    files: dict[str, bytes] = {}
    programs = {name: Path(shutil.which(name) or "/none") for name in PROGRAMS}
    for name, program in programs.items():
        files[f"bin/{name}"] = program.read_bytes()
    for program in (*programs.values(), *more):
        for word in subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout.split():
            if word.startswith("/"):
                files[word[1:]] = Path(word).read_bytes()
    return files


def image_archive() -> bytes:
    files = image_files()
    return make_archive(files, list(files), folders=("tmp", "etc"))


async def import_image(socket: str, name: str, archive: bytes) -> None:
    async with httpx2.AsyncClient(transport=httpx2.AsyncHTTPTransport(uds=socket), timeout=60) as client:
        if (await client.get(f"http://engine/v1.41/images/{name}/json")).status_code == 200:
            return
        reply = await client.post("http://engine/v1.41/images/create", params={"fromSrc": "-"}, content=archive)
        image_id = json.loads(reply.text.strip().splitlines()[-1])["status"]
        query = {"repo": name.rpartition(":")[0], "tag": "1"}
        reply = await client.post(f"http://engine/v1.41/images/{image_id}/tag", params=query)
        assert reply.status_code == 201, reply.text


async def run(tier: ContainerTier, code: str, **about: object) -> JobResult:
    with anyio.fail_after(60):
        return await tier.run(Job(engine="shell", code=code, owner="a", **about))  # type: ignore[arg-type]


async def test_a_script_runs_with_its_input_and_files_and_its_container_is_gone(opened: ContainerTier) -> None:
    script = 'cat; cat in/x > out; rm in/x; echo "$ARG_A" >&2; exit 3'
    result = await run(opened, script, input={"a": "q $(id)"}, files={"in/x": b"\0\xff", "same": b"1"})
    assert (result.exit_code, result.stdout, result.stderr) == (3, b'{"a":"q $(id)"}', b"q $(id)\n")
    assert (result.files, result.deleted) == ({"out": b"\0\xff"}, ("in/x",))
    assert await opened.sweep(everything=True) == 0
    offer = await opened.offer()
    assert {"shell", "command", f"image:{IMAGE}", "image:shell"} <= offer.engines
    assert (offer.persistent, offer.egress, "gvisor" in offer.walls) == (True, False, False)


async def test_attachments_are_copies_beside_the_workspace_and_the_next_job_sees_none(opened: ContainerTier) -> None:
    script = 'cat /in/a.txt; echo " ${AVM_IN##*/}"; echo x > /in/more'
    result = await run(opened, script, inputs={"a.txt": b"hello"}, keep="session")
    assert (result.stdout, result.files, result.deleted) == (b"hello in\n", {}, ())
    again = await run(opened, 'ls /in; echo "[$AVM_IN]"', keep="session")
    assert again.stdout == b"[]\n"


async def test_files_of_skills_are_copies_that_the_next_job_does_not_see(opened: ContainerTier) -> None:
    script = 'sh /skills/pdf/scripts/a.sh; echo "${AVM_SKILLS##*/}"; echo x > /skills/pdf/more'
    result = await run(opened, script, skills={"pdf/scripts/a.sh": b"echo hello"}, keep="session")
    assert (result.stdout, result.files) == (b"hello\nskills\n", {})
    again = await run(opened, 'ls /skills; echo "[$AVM_SKILLS]"', keep="session")
    assert again.stdout == b"[]\n"


async def test_packages_are_a_folder_that_the_container_sees_and_is_held_as_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    layer, held = tmp_path / "layer", list[str]()
    layer.mkdir()
    (layer / "seldom.py").write_text("name = 'seldom'")
    programs = tmp_path / "path"
    programs.mkdir()
    (programs / "python3").symlink_to(sys.executable)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")

    @asynccontextmanager
    async def hold(packages: Sequence[str]) -> AsyncIterator[str]:
        held.append(",".join(packages))
        try:
            yield str(layer)
        finally:
            held.pop()

    async with open_fake_engine(tmp_path, IMAGE) as (engine, socket):
        settings = replace(at(socket), packages=True)
        async with open_container_tier(settings, now_ms, layers=hold) as tier:
            assert (await tier.offer()).packages
            job = Job(engine="python", code="import seldom\nseldom.name", packages=("seldom==1",), owner="a")
            result = await tier.run(job)
            assert (result.value, held) == ("seldom", []), result.stderr
            assert (await tier.run(msgspec.structs.replace(job, keep="s"))).value == "seldom"
            # As long as the container lives.
            assert held == ["seldom==1"]
            (made,) = engine.containers.values()
            (mount,) = made.config["HostConfig"]["Mounts"]
            assert (mount["Source"], mount["Target"], mount["ReadOnly"]) == (str(layer), "/packages", True)
            monkeypatch.setattr(container, "IDLE_SECONDS", 0.0)
            assert (await tier.sweep(), held) == (1, [])
            plain = await tier.run(Job(engine="python", code="import os\n'PYTHONPATH' in os.environ"))
            assert plain.value is False
        monkeypatch.setattr(container, "_ABI", "print('cpython-399-other')")
        async with open_container_tier(settings, now_ms, layers=hold) as tier:
            with pytest.raises(TierUnavailable, match=f"that of the image {IMAGE} is cpython-399-other"):
                await tier.run(job)
            assert (held, engine.containers) == ([], {})


async def test_a_program_that_hangs_or_floods_is_killed_with_its_container(opened: ContainerTier) -> None:
    result = await run(opened, "sleep 100", limits=JobLimits(wall_ms=2_000))
    assert (result.timed_out, result.signal, result.exit_code) == (True, "SIGKILL", None)
    result = await run(opened, "while :; do echo xxxxxxxxxxxxxxxxxxx; done", limits=JobLimits(output_bytes=1_000))
    assert (result.truncated, len(result.stdout)) == (True, 1_000)
    with anyio.move_on_after(1.5) as scope:
        await run(opened, "sleep 100")
    assert scope.cancelled_caught
    assert await opened.sweep(everything=True) == 0


async def test_a_persistent_sandbox_keeps_its_container_and_nobody_elses(opened: ContainerTier) -> None:
    await run(opened, "echo x > file; sleep 300 > /dev/null 2>&1 &", keep="session")
    again = await run(opened, "ls", keep="session")
    # The files of a session are its rows: what is not among the job's is not there.
    assert again.stdout == b""
    other = await opened.run(Job(engine="shell", code="ls", owner="b", keep="session"))
    assert other.stdout == b""
    assert len(opened.persistent_names) == 2


async def test_a_kept_container_is_only_for_jobs_of_its_limits(opened: ContainerTier) -> None:
    for memory_bytes, kept in ((2**28, 1), (2**28, 1), (2**27, 2)):
        await run(opened, "true", keep="session", limits=JobLimits(memory_bytes=memory_bytes))
        assert len(opened.persistent_names) == kept


async def test_a_container_that_was_idle_for_a_minute_is_ended(opened: ContainerTier, monkeypatch: pytest.MonkeyPatch) -> None:
    await run(opened, "true", keep="session")
    assert await opened.sweep() == 0
    monkeypatch.setattr(container, "IDLE_SECONDS", 0.0)
    assert await opened.sweep() == 1
    assert opened.persistent_names == ()


async def test_python_gives_its_value(tmp_path: Path) -> None:
    async with double(tmp_path) as (engine, tier):
        job = Job(engine="python", code="def run(a):\n    print('p')\n    return [a]", input={"a": 1}, owner="a")
        result = await tier.run(job)
        assert (result.exit_code, result.value, result.stdout) == (0, [1], b"p\n")
        assert (await tier.run(Job(engine="python", code="1 + 1"))).value == 2
        own = await tier.run(Job(engine="python", code="def run(a):\n    return a\nrun(3)", script=True))
        assert (own.exit_code, own.value) == (0, 3)
        failed = await tier.run(Job(engine="python", code="1 / 0"))
        assert (failed.exit_code, b"ZeroDivisionError" in failed.stderr, failed.value) == (1, True, None)
        assert engine.containers == {}


async def test_a_container_has_no_network_no_rights_and_the_limits_of_its_job(tmp_path: Path) -> None:
    async with double(tmp_path, runtime="runsc") as (engine, tier):
        limits = JobLimits(memory_bytes=2**28, processes=9, disk_bytes=2**20, wall_ms=60_000)
        await run(tier, "true", limits=limits, keep="s")
        (made,) = engine.containers.values()
        host = made.config["HostConfig"]
        assert (host["NetworkMode"], host["CapDrop"], host["SecurityOpt"]) == ("none", ["ALL"], ["no-new-privileges"])
        assert (host["Memory"], host["MemorySwap"], host["PidsLimit"], host["Runtime"]) == (2**28, 2**28, 11, "runsc")
        assert {"Name": "fsize", "Soft": 2**20, "Hard": 2**20} in host["Ulimits"]
        assert made.config["User"] == "65534:65534"
        assert made.config["Labels"]["agentvm.server"] == "tests"
        assert int(made.config["Labels"]["agentvm.deadline"]) > now_ms()
        assert "gvisor" in (await tier.offer()).walls


async def test_what_a_crashed_server_left_is_deleted_at_the_start_and_what_is_overdue_each_minute(tmp_path: Path) -> None:
    async with open_fake_engine(tmp_path, IMAGE) as (engine, socket):
        labels = {"agentvm.server": "tests", "agentvm.deadline": str(now_ms() + 10**9)}
        foreign = {**labels, "agentvm.server": "another"}
        for of in (labels, foreign):
            engine._create({"Image": IMAGE, "Labels": of})
        async with open_container_tier(at(socket), now_ms) as tier:
            await engine.reach(lambda: len(engine.containers) == 1)
            (left,) = engine.containers.values()
            assert left.config["Labels"] == foreign
            await run(tier, "true", keep="kept")
            overdue = {**labels, "agentvm.deadline": str(now_ms() - GRACE_MS - 1)}
            engine._create({"Image": IMAGE, "Labels": overdue})
            assert await tier.sweep() == 1
        assert [one.config["Labels"] for one in engine.containers.values()] == [foreign]


async def test_prewarmed_containers_are_paused_and_taken(tmp_path: Path) -> None:
    async with double(tmp_path, prewarm={"shell": 2}) as (engine, tier):
        await engine.reach(lambda: [made.state for made in engine.containers.values()] == ["paused", "paused"])
        assert (await run(tier, "echo 1")).stdout == b"1\n"
        taken = next(line for line in engine.log if line.endswith("/unpause")).split("/")[2]
        assert f"POST /containers/{taken}/exec" in engine.log
        assert taken not in engine.containers


async def test_containers_that_are_ready_outlive_their_deadline_and_one_that_is_gone_is_replaced(tmp_path: Path) -> None:
    now = now_ms()
    settings = {"images": {"shell": IMAGE}, "prewarm": {"shell": 2}}
    async with open_fake_engine(tmp_path, IMAGE) as (engine, socket):
        async with open_container_tier(replace(at(socket), **settings), lambda: now) as tier:  # type: ignore[arg-type]
            await engine.reach(lambda: [made.state for made in engine.containers.values()] == ["paused", "paused"])
            now += 2 * container.PERSISTENT_MS
            assert await tier.sweep() == 0
            assert (await run(tier, "echo 1")).stdout == b"1\n"
            # Somebody deletes the other one.
            engine.containers.clear()
            assert (await run(tier, "echo 2")).stdout == b"2\n"


@pytest.mark.parametrize("limits", [JobLimits(processes=1), JobLimits(disk_bytes=2**20), JobLimits(memory_bytes=2**30)])
async def test_a_job_with_limits_of_its_own_gets_no_prewarmed_container(tmp_path: Path, limits: JobLimits) -> None:
    async with double(tmp_path, prewarm={"shell": 2}) as (engine, tier):
        await engine.reach(lambda: [made.state for made in engine.containers.values()] == ["paused", "paused"])
        assert (await tier.run(Job(engine="shell", code="echo 1", limits=limits))).stdout == b"1\n"
        assert not any(line.endswith("/unpause") for line in engine.log)


async def test_an_engine_that_refuses_or_is_gone_is_named_with_the_remedy(tmp_path: Path) -> None:
    async with double(tmp_path) as (engine, tier):
        engine.faults["/start"] = 500
        with pytest.raises(TierBroken, match="500") as failed:
            await run(tier, "true")
        assert failed.value.started is False
        assert engine.containers == {}
        engine.faults = {"/exec": 500}
        with pytest.raises(TierBroken) as failed:
            await run(tier, "true")
        assert failed.value.started is True
        assert engine.containers == {}
    async with open_container_tier(at(str(tmp_path / "none.sock")), now_ms) as tier:
        assert "no container engine at" in (await tier.offer()).missing
    async with open_fake_engine(tmp_path) as (engine, socket), open_container_tier(at(socket), now_ms) as tier:
        assert f"has no image of tools.docker.images ({IMAGE}" in (await tier.offer()).missing


async def test_only_images_of_the_operator_are_used(tmp_path: Path) -> None:
    async with double(tmp_path) as (engine, tier):
        scheduler = Scheduler([tier], slots={}, clock=now_ms)
        placed, _ = await scheduler.run(Need(engine=f"image:{IMAGE}"), Job(engine="shell", code="true"), tenant="a")
        assert placed.tier == "container"
        with pytest.raises(TierUnavailable, match="lacks engine image:evil"):
            await scheduler.run(Need(engine="image:evil"), Job(engine="shell", code="true"), tenant="a")
        with pytest.raises(TierUnavailable, match="has no network"):
            await scheduler.place(Need(engine="shell", net=("example.org",)))
        with pytest.raises(TierUnavailable):
            await tier.run(Job(engine="shell", image="evil"))
        with pytest.raises(TierUnavailable):
            tier.open(Job(engine="shell"))
        assert engine.containers == {}
