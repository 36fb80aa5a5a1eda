import os
import subprocess

import pytest

from agentvm.model.tier import Job, JobLimits
from agentvm.tiers.cgroup import PREFIX, Groups, JobGroup
from agentvm.tiers.process import ProcessTier


@pytest.fixture
def groups() -> Groups:
    found = Groups.find()
    if found.version == "none":
        pytest.skip("no control group was delegated to the tests")
    return found


def test_a_group_is_made_with_its_limits_and_goes(groups: Groups) -> None:
    name = f"{PREFIX}{os.getpid()}-test"
    group = groups.make(name, memory_bytes=50 * 2**20, processes=5)
    assert group.counts_memory
    assert not group.ran_out_of_memory()
    group.close()
    assert group.entries == []
    # Its launcher, this process, is alive.
    groups.sweep()
    with pytest.raises(FileExistsError):
        groups.make(name, memory_bytes=2**20, processes=5)
    assert groups.remove(name)
    assert groups.remove(name)


def test_groups_of_a_launcher_that_was_killed_are_swept(groups: Groups) -> None:
    # As long as it lives, launchers elsewhere on this machine leave its groups alone, too.
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as launcher:
        name = f"{PREFIX}{launcher.pid}-7"
        groups.make(name, memory_bytes=2**20, processes=5).close()
        groups.sweep()
        assert all(name in os.listdir(parent) for parent in groups._parents())
    groups.sweep()
    assert not any(name in os.listdir(parent) for parent in groups._parents())


def test_where_there_is_none_nothing_happens() -> None:
    group = JobGroup()
    group.enter()
    group.close()
    assert not group.counts_memory
    assert not group.ran_out_of_memory()
    assert Groups().make("x", memory_bytes=1, processes=1).entries == []
    assert Groups().remove("x")


async def test_a_process_that_lives_on_is_limited_as_a_whole(tier: ProcessTier, groups: Groups) -> None:
    code = """
import os, sys
children = []
for _ in range(4):
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        kept = bytearray(b"x") * (60 * 1024 * 1024)
        os.write(write, b"1")
        os.read(0, 1)
        os._exit(0)
    os.close(write)
    os.read(read, 1)
    children.append(child)
print(sum(os.waitpid(child, os.WNOHANG)[0] == 0 for child in children), flush=True)
sys.stdin.read()
"""
    limits = JobLimits(memory_bytes=100 * 2**20, disk_bytes=2**20)
    async with tier.open(Job(engine="python", code=code, limits=limits)) as process:
        assert int(await process.receive()) <= 1
