"""Walls and limits of containers on a real engine, with an image that holds this interpreter; skipped where there is none."""

import os
import sys
import sysconfig
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path

import anyio
import pytest
from tests.tiers.test_container import image_files, import_image, now_ms
from tests.tiers.test_container_network import FETCH
from tests.tiers.test_egress import NAMES, upstream

from agentvm.errors.tool import TierBroken
from agentvm.model.public_address import AddressRules
from agentvm.model.tier import Job, JobLimits, JobResult
from agentvm.tiers.container import ContainerSettings, ContainerTier, open_container_tier
from agentvm.tiers.docker_api import make_archive, open_docker_api
from agentvm.tiers.egress import EgressPolicy

IMAGE = "localhost/agentvm-python-test:1"
LEFT_OUT = {"test", "idlelib", "site-packages", "lib2to3", "ensurepip", "tkinter", "turtledemo", "__pycache__", "pydoc_data"}
ATTACKS = """
import os, socket
def attempt(deed):
    try:
        deed()
        return "done"
    except OSError as error:
        return type(error).__name__
def dial(address):
    with socket.create_connection(address, timeout=5):
        pass
def run():
    status = open("/proc/self/status").read()
    return {
        "uid": os.getuid(),
        "capabilities": next(line.split()[1] for line in status.splitlines() if line.startswith("CapEff")),
        "interfaces": [name for _, name in socket.if_nameindex()],
        "dial": attempt(lambda: dial(("192.0.2.1", 80))),
        "root": attempt(lambda: open("/mine", "w")),
        "mount": attempt(lambda: os.chroot("/tmp")),
        "kill": attempt(lambda: os.kill(1, 0)),
    }
"""
FORKS = """
import os, time
count = 0
try:
    while count < 200:
        if os.fork() == 0:
            time.sleep(100)
        count += 1
except OSError:
    pass
count
"""


def python_archive() -> bytes:
    """The few programs of the other tests, and this interpreter with its standard library below `/usr`."""
    library = Path(sysconfig.get_path("stdlib"))
    files = image_files(Path(sys.executable).resolve(), *library.glob("lib-dynload/*.so"))
    files["usr/bin/python3"] = Path(sys.executable).resolve().read_bytes()
    for path in library.rglob("*"):
        inner = path.relative_to(library)
        if path.is_file() and path.suffix in (".py", ".so") and LEFT_OUT.isdisjoint(inner.parts):
            files[f"usr/lib/{library.name}/{inner}"] = path.read_bytes()
    return make_archive(files, [name for name in files if not name.endswith(".py")], folders=("tmp", "etc"))


@pytest.fixture
async def settings(container_engine: str, tmp_path: Path) -> ContainerSettings:
    await import_image(container_engine, IMAGE, python_archive())
    images = dict.fromkeys(("python", "shell"), IMAGE)
    return ContainerSettings(
        socket=container_engine, server=f"tests-{os.getpid()}", images=images, exchange=str(tmp_path / "exchange")
    )


@pytest.fixture
async def tier(settings: ContainerSettings) -> AsyncIterator[ContainerTier]:
    policy = EgressPolicy(rules=AddressRules.parse(["127.0.0.1"]), resolve=NAMES)
    async with open_container_tier(settings, now_ms, policy) as tier:
        yield tier


async def run(tier: ContainerTier, code: str, **about: object) -> JobResult:
    with anyio.fail_after(60):
        return await tier.run(Job(engine="python", code=code, owner="a", **about))  # type: ignore[arg-type]


async def test_a_program_has_no_network_no_rights_and_no_writable_system(tier: ContainerTier) -> None:
    result = await run(tier, ATTACKS, input={})
    assert result.value == {
        "uid": 65534,
        "capabilities": "0" * 16,
        "interfaces": ["lo"],
        "dial": "OSError",
        "root": "PermissionError",
        "mount": "PermissionError",
        "kill": "done",
    }, result.stderr


async def test_memory_processes_and_disk_end_at_the_limits_of_the_job(tier: ContainerTier) -> None:
    limits = JobLimits(memory_bytes=64 * 2**20, processes=20, disk_bytes=2**20)
    eaten = await run(tier, "kept = [bytearray(b'x') * 10_000_000 for _ in range(100)]", limits=limits)
    assert (eaten.exit_code, eaten.oom, eaten.value) == (137, True, None), eaten.stderr
    forked = await run(tier, FORKS, limits=limits)
    assert isinstance(forked.value, int)
    assert 1 <= forked.value <= 20
    full = await run(tier, "open('/tmp/big', 'wb').write(bytes(2_000_000))", limits=limits)
    assert full.exit_code == 1
    assert b"OSError" in full.stderr
    # Those whose neighbours had it all are not touched.
    assert (await run(tier, "1 + 1")).value == 2
    assert await tier.sweep(everything=True) == 0


async def test_allowed_hosts_are_reached_through_the_proxy_and_no_others(tier: ContainerTier, tmp_path: Path) -> None:
    async with upstream() as server:
        allowed = (f"api.example:{server.port}",)
        for keep in ("", "session", "session"):
            url = f"http://api.example:{server.port}/a"
            result = await run(tier, FETCH, input={"url": url}, network=allowed, keep=keep)
            assert result.value == [200, "hello"], result.stderr
        url = f"http://evil.example:{server.port}/a"
        refused = await run(tier, FETCH, input={"url": url}, network=allowed)
        assert isinstance(refused.value, list)
        assert (refused.value[0], len(server.requests)) == (403, 3)
        around = await run(tier, ATTACKS, input={}, network=allowed)
        assert isinstance(around.value, dict)
        assert (around.value["interfaces"], around.value["dial"]) == (["lo"], "OSError")


async def test_what_a_crashed_server_left_is_gone_after_its_next_start(settings: ContainerSettings) -> None:
    label = f"agentvm.server={settings.server}"
    async with open_docker_api(settings.socket) as api, AsyncExitStack() as crashed:
        tier = await crashed.enter_async_context(open_container_tier(settings, now_ms))
        await run(tier, "1", keep="session")
        (left,) = await api.list_containers(label)
        async with open_container_tier(settings, now_ms):
            with anyio.fail_after(60):
                while await api.list_containers(label):  # noqa: ASYNC110 - the engine tells nobody
                    await anyio.sleep(0.05)
        with pytest.raises(TierBroken, match="404"):
            await api.get(f"/containers/{left['Id']}/json")


async def test_containers_are_kept_ready_and_paused(settings: ContainerSettings) -> None:
    async with (
        open_docker_api(settings.socket) as api,
        open_container_tier(replace(settings, prewarm={"python": 1}), now_ms) as tier,
    ):
        with anyio.fail_after(60):
            while [one["State"] for one in await api.list_containers(f"agentvm.server={settings.server}")] != ["paused"]:  # noqa: ASYNC110 - the engine tells nobody
                await anyio.sleep(0.05)
        assert (await run(tier, "1 + 1")).value == 2
