"""Container spec — requests to the engine: the settings of the tier, and a container with the limits of its job."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from agentvm.errors.tool import TierUnavailable
from agentvm.model.tier import Job, Wall
from agentvm.tiers.container_network import FORWARDER_PROCESSES_MAX
from agentvm.tiers.container_programs import HOLD
from agentvm.tiers.docker_api import USER

WALLS: frozenset[Wall] = frozenset({"process", "uid", "pid", "net", "ipc", "uts", "mount", "seccomp", "rlimits", "cgroup"})
"""Walls around every container."""

ContainerKey = tuple[str, str, str, bool, tuple[str, ...], tuple[int, int, int]]
"""The properties that jobs which share a container have in common."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerSettings:
    """The engine, and the images that the operator allows."""

    socket: str
    server: str
    """The id of this server, the same after a restart."""
    images: Mapping[str, str]
    """Images by name; one named as an engine runs that engine's jobs."""
    runtime: str | None = None
    """The runtime of the engine: `runsc` for gVisor."""
    prewarm: Mapping[str, int] = field(default_factory=dict)
    exchange: str = ""
    """A folder of this server that the engine can mount; empty for a tier without a network."""
    packages: bool = False

    @property
    def has_network(self) -> bool:
        """Whether containers can reach the proxy; gVisor connects to no socket of the host."""
        return bool(self.exchange) and self.runtime != "runsc"


def key_of(job: Job, image: str) -> ContainerKey:
    bounds = job.limits.memory_bytes, job.limits.processes, job.limits.disk_bytes
    return job.owner, job.keep, image, bool(job.network), job.packages, bounds


def check_job(job: Job, settings: ContainerSettings) -> None:
    """`TierUnavailable` for a job whose needs containers of this server do not meet."""
    if job.functions:
        raise TierUnavailable("Programs of the tier container call no tools")
    if job.network and not settings.has_network:
        why = "gVisor reaches no proxy" if settings.runtime == "runsc" else "the data directory is memory"
        raise TierUnavailable(f"The tier container has no network here: {why}")
    if job.packages and not settings.packages:
        raise TierUnavailable("The tier container has packages only with tools.packages.index and a data directory")
    if job.packages and job.engine == "javascript":
        raise TierUnavailable("packages are those of Python; this sandbox runs javascript")


def describe(
    job: Job, image: str, mounts: Sequence[Mapping[str, object]], settings: ContainerSettings, deadline: int
) -> dict[str, object]:
    """The body of the request for a container, which lives until the deadline at most."""
    limits = job.limits
    processes = limits.processes + 2 + (FORWARDER_PROCESSES_MAX if job.network else 0)
    return {
        "Image": image,
        "Cmd": list(HOLD),
        "Entrypoint": [],
        "User": USER,
        "WorkingDir": "/",
        "NetworkDisabled": True,
        "Labels": {"agentvm.server": settings.server, "agentvm.deadline": str(deadline)},
        "HostConfig": {
            "NetworkMode": "none",
            "Memory": limits.memory_bytes,
            "MemorySwap": limits.memory_bytes,
            "Mounts": list(mounts),
            "PidsLimit": processes,
            "CapDrop": ["ALL"],
            "Tmpfs": {"/tmp": f"rw,nosuid,nodev,mode=1777,size={limits.disk_bytes}"},
            "SecurityOpt": ["no-new-privileges"],
            "Ulimits": [
                {"Name": "fsize", "Soft": limits.disk_bytes, "Hard": limits.disk_bytes},
                {"Name": "nofile", "Soft": 1024, "Hard": 1024},
                {"Name": "nproc", "Soft": 4096, "Hard": 4096},
                {"Name": "core", "Soft": 0, "Hard": 0},
            ],
            **({} if settings.runtime is None else {"Runtime": settings.runtime}),
        },
    }
