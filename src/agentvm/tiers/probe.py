"""Probe — the launcher's report about this machine, as an offer and as lines for people.

Nothing is guessed: the launcher has tried each wall in a child of its own before it reported.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from agentvm.model.tier import Enforces, Offer, Wall
from agentvm.tiers.frames import HostReport
from agentvm.tiers.launcher_host import LauncherSettings, open_launcher_host

START_MS = 6.0
"""Time of an empty job, the best of a hundred on two busy cores."""
MAX_DISK_BYTES = 1024 * 1024 * 1024
"""The largest workspace: it is memory."""

REMEDY = (
    "allow unprivileged user namespaces (sysctl kernel.apparmor_restrict_unprivileged_userns=0, or "
    "user.max_user_namespaces above 0; in Docker --security-opt seccomp=unconfined), or run the server as root"
)
_NO_WALLS = (
    f"this host allows neither namespaces nor Landlock, or no seccomp filter; use a Linux kernel from 5.13 on, or {REMEDY}"
)
NO_LAUNCHER = Offer(tier="process", missing="the launcher of sandboxes could not be started")


def offer_of(report: HostReport) -> Offer:
    """The offer of the process tier."""
    if report.mode == "none":
        return Offer(tier="process", missing=f"{report.why}: {_NO_WALLS}" if report.why else _NO_WALLS)
    apart = report.mode == "namespaces"
    walls: set[Wall] = {"process", "rlimits", "seccomp"}
    if apart:
        walls |= {"user", "pid", "net", "ipc", "uts", "mount"}
    if report.landlock:
        walls.add("landlock")
    if report.own_uid:
        walls.add("uid")
    if report.cgroup != "none":
        walls.add("cgroup")
    return Offer(
        tier="process",
        engines=frozenset(report.engines),
        walls=frozenset(walls),
        enforces=Enforces(
            # Only some jobs are put into a control group; each process has its limit in any case.
            memory="each",
            disk="total" if apart else "each",
            processes="total",
        ),
        egress=apart,
        packages=apart,
        calls=True,
        talks=True,
        max_disk_bytes=MAX_DISK_BYTES,
        start_ms=START_MS,
    )


async def probe(settings: LauncherSettings) -> HostReport:
    """Returns the report of a launcher with these settings; `TierBroken` if it cannot be started."""
    async with open_launcher_host(settings) as host, host.lease() as launcher:
        assert launcher.report is not None
        return launcher.report


@dataclass(frozen=True, slots=True)
class WallLine:
    """One wall, for `avm doctor`."""

    name: str
    stands: bool
    text: str
    remedy: str | None = None


def describe(report: HostReport) -> Iterator[WallLine]:
    """Returns the walls of this machine, each with its meaning."""
    if report.mode == "namespaces":
        yield WallLine("sandbox", True, "jobs run in namespaces of their own, with private mounts and no network")
    elif report.mode == "landlock":
        text = f"jobs run without namespaces ({report.why}): no network at all, workspaces in a folder"
        yield WallLine("sandbox", False, text, f"For egress and private mounts: {REMEDY}.")
    else:
        yield WallLine("sandbox", False, f"code tools are not offered: {report.why or 'no wall would hold'}", f"{_NO_WALLS}.")
    if report.landlock:
        yield WallLine("landlock", True, f"version {report.landlock}")
    else:
        yield WallLine("landlock", False, "not in this kernel", "Use a kernel from 5.13 on with landlock in its lsm= list.")
    if not report.seccomp:
        yield WallLine("seccomp", False, "filters of system calls are refused", "Use a kernel with CONFIG_SECCOMP_FILTER.")
    groups = {
        "v2": "memory of a whole job is limited where that is needed",
        "v1": "memory of a whole job is limited where that is needed (version 1)",
        "none": "memory is limited for each process, not for a job as a whole",
    }
    remedy = None if report.cgroup != "none" else "To limit it as a whole: Delegate=yes in the server's systemd unit."
    # The limit for each process stands in any case.
    yield WallLine("cgroup", True, groups[report.cgroup], remedy)
    engines = [name for name in ("python", "shell", "javascript") if name in report.engines]
    yield WallLine("engines", True, ", ".join(engines) + ", programs of the host")
