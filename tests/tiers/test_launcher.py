"""The launcher tells the truth about its host: each wall is taken away in turn, by a filter on the launcher itself."""

import sys

import pytest

from agentvm.model.tier import Job
from agentvm.tiers import launcher_program
from agentvm.tiers.launcher_host import LauncherSettings
from agentvm.tiers.process import open_process_tier

# A launcher on a host that refuses something: a filter is put on it before it looks around.
PROGRAM = """
import runpy, sys, pathlib
program = runpy.run_path({path!r})
source = pathlib.Path({path!r}).parent.parent
program["adopt_packages"](source)
import importlib, os, socket
kernel, seccomp = (importlib.import_module("agentvm.tiers." + name) for name in ("kernel", "seccomp"))
launcher = importlib.import_module("agentvm.tiers.launcher")
{before}
kernel.prctl(kernel.Prctl.SET_NO_NEW_PRIVS, 1)
seccomp.install({filter})
launcher.serve(socket.socket(fileno=int(sys.argv[-1])))
"""
NOBODY = """
importlib.import_module("shutil")
os.setgroups([])
os.setresgid(65534, 65534, 65534)
os.setresuid(65534, 65534, 65534)
kernel.prctl(kernel.Prctl.SET_DUMPABLE, 1)
"""
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="jails need Linux")


def host(denying: str, before: str = "") -> LauncherSettings:
    program = PROGRAM.format(path=launcher_program.__file__, filter=denying, before=before)
    return LauncherSettings(command=(sys.executable, "-I", "-c", program))


async def test_a_host_that_refuses_namespaces_is_known_and_still_runs_jobs() -> None:
    async with open_process_tier(host("seccomp.deny_namespaces()")) as tier:
        offer = await tier.offer()
        assert offer.missing == ""
        assert {"landlock", "seccomp"} <= offer.walls
        assert {"mount", "pid", "net", "user"}.isdisjoint(offer.walls)
        assert (offer.egress, offer.enforces.disk) == (False, "each")
        assert (await tier.run(Job(engine="python", code="2"))).value == 2


@pytest.mark.parametrize("before", ["", NOBODY])
async def test_a_host_that_lets_unshare_and_then_refuses_to_mount_is_seen_through(before: str) -> None:
    async with open_process_tier(host("seccomp.deny({'mount': 165 if kernel.MACHINE == 'x86_64' else 40})", before)) as tier:
        offer = await tier.offer()
        assert "mount" not in offer.walls
        assert offer.missing == ""


async def test_a_host_that_lets_unshare_and_then_refuses_to_clone_is_seen_through() -> None:
    async with open_process_tier(host("seccomp.deny_namespaces(only_clone=True)")) as tier:
        offer = await tier.offer()
        assert {"mount", "pid", "net"}.isdisjoint(offer.walls)
        assert (await tier.run(Job(engine="python", code="4"))).value == 4


async def test_a_host_without_namespaces_and_without_landlock_offers_nothing() -> None:
    both = "seccomp.deny({'mount': 165, 'unshare': 272, 'landlock_create_ruleset': 444})"
    async with open_process_tier(host(both)) as tier:
        offer = await tier.offer()
        assert "neither namespaces nor Landlock" in offer.missing
        assert offer.engines == frozenset()


async def test_a_host_without_landlock_still_has_namespaces() -> None:
    async with open_process_tier(host("seccomp.deny({'landlock_create_ruleset': 444})")) as tier:
        offer = await tier.offer()
        assert "landlock" not in offer.walls
        assert "mount" in offer.walls
        assert (await tier.run(Job(engine="python", code="3"))).value == 3


async def test_a_host_that_refuses_filters_offers_nothing() -> None:
    # The filter that refuses further filters is itself one: the last that the host takes.
    async with open_process_tier(host("seccomp.deny({'seccomp': kernel.number_of('seccomp')})")) as tier:
        assert "no seccomp filter" in (await tier.offer()).missing


async def test_engines_are_those_that_a_jail_can_see() -> None:
    async with open_process_tier() as tier:
        engines = (await tier.offer()).engines
        assert {"python", "command", "binary:ls"} <= engines
        assert "binary:no-such-program" not in engines
