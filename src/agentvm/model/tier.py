"""Tiers — the records of running foreign code: requirements of a job, offers of tiers, the choice, and the result."""

from collections.abc import Mapping
from typing import Annotated, Literal

from msgspec import Meta, field

from agentvm.model.base import Record
from agentvm.model.ids import TenantId, UserId

TierName = Literal["inline", "isolate", "process", "container", "remote"]
TIERS: tuple[TierName, ...] = ("inline", "isolate", "process", "container", "remote")
"""Tiers from the weakest wall to the strongest."""

Wall = Literal[
    "process",
    "uid",
    "user",
    "pid",
    "net",
    "ipc",
    "uts",
    "mount",
    "landlock",
    "seccomp",
    "rlimits",
    "cgroup",
    "interpreter",
    "gvisor",
    "machine",
]
Enforced = Literal["total", "each", "none"]
"""How far a limit reaches: for a job as a whole, for each of its processes, or not at all."""

INSTALL_SECONDS_MAX = 600
"""Time in which the packages of a sandbox must be installed."""
Positive = Annotated[int, Meta(ge=1, le=2**53)]


class JobLimits(Record):
    """Limits of one job, each kept by the kernel or by the job's first process."""

    wall_ms: Positive = 60_000
    """Time from the start to the end, waiting for a slot included."""
    cpu_seconds: Positive = 60
    memory_bytes: Positive = 512 * 1024 * 1024
    processes: Positive = 32
    disk_bytes: Positive = 64 * 1024 * 1024
    """Bytes of the workspace. They are memory, and so are those of the folder for temporary files, which may be as many."""
    files: Positive = 10_000
    output_bytes: Positive = 1024 * 1024
    """Bytes of stdout and stderr together; the job is killed at more."""
    calls: Positive = 200
    """Calls of functions of the server."""


class KnownAnswer(Record):
    """The answer of a function of the server that the code has had in an earlier run."""

    value: bytes = b"null"
    """JSON."""
    error: str | None = None


class Job(Record):
    """One run of foreign code."""

    engine: str
    """`python`, `shell`, `javascript`, `command`, or one of the subset engines."""
    code: str = ""
    """The text of the program; empty Python runs `main.py` of the files."""
    script: bool = False
    """Whether Python code runs as it stands, and a function `run` in it is its own business."""
    argv: tuple[str, ...] = ()
    input: object = None
    """JSON: the arguments of `run(**input)`, `ARG_<NAME>` of a script; on stdin as well, unless `stdin` is set."""
    stdin: bytes = b""
    env: Mapping[str, str] = field(default_factory=dict)
    """All variables besides PATH, HOME, TMPDIR and LANG."""
    files: Mapping[str, bytes] = field(default_factory=dict)
    """The workspace, by relative paths."""
    executable: frozenset[str] = frozenset()
    inputs: Mapping[str, bytes] = field(default_factory=dict)
    """Files in `/in`, by name; no change of them is kept. AVM_IN names the folder, another where the host forbids mounts."""
    skills: Mapping[str, bytes] = field(default_factory=dict)
    """Files below `/skills`, by path, as those in `/in`; AVM_SKILLS names the folder."""
    limits: JobLimits = JobLimits()
    network: tuple[str, ...] = ()
    """Hosts that the job may reach, as in a sandbox: `api.example.org`, `*.example.org:443`."""
    functions: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Functions of the server that Python code may call as `tools.<name>(…)`, each with the names of its parameters."""
    known: tuple[KnownAnswer, ...] = ()
    """Answers to the first calls of functions, for code that is run again: it does not wait for them."""
    packages: tuple[str, ...] = ()
    """Python packages that the code can import."""
    key: str = ""
    """The call that the job belongs to; stable over restarts."""
    owner: str = ""
    """The tenant; jobs of two owners never share a warm process. Set by the scheduler."""
    image: str = ""
    """The image that the job needs, on a tier that has images; empty for the engine's own."""
    keep: str = ""
    """Name of the sandbox that lives on between calls, for a persistent one; empty for one that dies with the job."""


class JobOwner(Record):
    """The tenant and the user that a job is billed to."""

    tenant_id: TenantId
    user_id: UserId | None = None


class JobUsage(Record):
    cpu_ms: int = 0
    max_rss_bytes: int = 0
    """Memory of the largest process."""


class JobResult(Record):
    """The end of a job, successful or not."""

    exit_code: int | None = None
    """None for a program that was killed."""
    signal: str | None = None
    """The name of the signal that ended it: `SIGKILL`."""
    stdout: bytes = b""
    stderr: bytes = b""
    truncated: bool = False
    """Whether it wrote more than it may, and was killed for it."""
    timed_out: bool = False
    oom: bool = False
    duration_ms: int = 0
    usage: JobUsage = JobUsage()
    value: object = None
    """JSON: the value of `run`, or of the last expression of a Python script; long JSON (`agentvm.model.long_json`) is text."""
    files: Mapping[str, bytes] = field(default_factory=dict)
    """Files that were added or changed."""
    deleted: tuple[str, ...] = ()
    executable: frozenset[str] = frozenset()
    left_out: int = 0
    """Entries of the workspace that were not read back: links, devices, too many, too large, names that are no text."""

    @property
    def succeeded(self) -> bool:
        return self.exit_code == 0


class Need(Record):
    """The least that a tier must give to a job."""

    engine: str
    """`python`, `python-subset`, `shell`, `shell-subset`, `javascript`, `command`, `binary:<name>` or `image:<reference>`."""
    packages: tuple[str, ...] = ()
    net: tuple[str, ...] = ()
    memory_bytes: int = 0
    disk_bytes: int = 0
    processes: int = 0
    wall_seconds: float = 0.0
    walls: frozenset[str] = frozenset()
    """Names of walls; one that no tier knows is one that every tier lacks."""
    tier: TierName | None = None
    """The least tier; a weaker one never replaces it."""
    persistent: bool = False
    calls: bool = False
    """Whether the code calls functions of the server."""
    talks: bool = False
    """Whether the program lives on and is talked to."""


FULL_ENGINES: Mapping[str, str] = {"python-subset": "python", "shell-subset": "shell"}
"""Subset engines with the engine that runs their programs as well."""


class Enforces(Record):
    memory: Enforced = "none"
    disk: Enforced = "none"
    processes: Enforced = "none"


class Offer(Record):
    """The abilities of a tier on this machine, now."""

    tier: TierName
    engines: frozenset[str] = frozenset()
    walls: frozenset[Wall] = frozenset()
    enforces: Enforces = Enforces()
    egress: bool = False
    packages: bool = False
    persistent: bool = False
    calls: bool = False
    talks: bool = False
    max_disk_bytes: int = 2**53
    free_slots: int = 1
    """Slots that are free, and places in the queue for one."""
    start_ms: float = 0.0
    price_per_second: int = 0
    """In billionths of a dollar."""
    broken_until: int | None = None
    """Unix ms: it failed to start, and is not tried again before."""
    missing: str = ""
    """The reason why the tier offers nothing, with the remedy."""


class TierRules(Record):
    """Rules of the operator or of a tenant."""

    allow: tuple[TierName, ...] | None = None
    """Tiers that may be used; None for all."""
    walls: frozenset[Wall] = frozenset()
    """Walls that every job must have."""

    def narrowed(self, other: "TierRules") -> "TierRules":
        """Both rules together: a second one can only restrict."""
        allow = self.allow if other.allow is None else tuple(t for t in other.allow if self.allow is None or t in self.allow)
        return TierRules(allow=allow, walls=self.walls | other.walls)


class Placed(Record):
    """The tier that runs a job, and the verdict on every offer."""

    tier: TierName
    price: int = 0
    start_ms: float = 0.0
    why: tuple[tuple[str, str], ...] = ()
    escalated_from: TierName | None = None
    """The weaker tier that was tried before; its verdict names the missing wall or engine."""


class Unplaced(Record):
    """No tier can run the job."""

    reason: str
    why: tuple[tuple[str, str], ...] = ()
