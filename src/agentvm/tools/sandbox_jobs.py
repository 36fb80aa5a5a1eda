"""Sandbox jobs — a job for a tier from a sandbox resource and a request: limits, files, variables, network.

A request only narrows its sandbox: limits are the smaller ones, hosts those that both allow. Without a sandbox there is no
network and the limits are the server's defaults.
"""

import math
import sys
from collections.abc import Collection, Mapping
from typing import Any

import msgspec

from agentvm.errors import InvalidInput, ToolFailed, shorten
from agentvm.errors.tool import TierUnavailable, WorkspaceFull
from agentvm.model.base import Record
from agentvm.model.session_file import NAME_MAX_BYTES, folders_of
from agentvm.model.tier import INSTALL_SECONDS_MAX, Job, JobLimits, Need, TierName
from agentvm.resources.sandbox import PATH_DEPTH_MAX, PATH_MAX, SandboxLimits
from agentvm.resources.tool import ToolNeeds

WALL_MAX_MS = 600_000
MEMORY_MAX_BYTES = 4 * 1024**3
DISK_MAX_BYTES = 1024**3
OUTPUT_MAX_BYTES = 16 * 1024 * 1024
PROCESSES_MAX = 512
CPU_SECONDS_MAX = 600
NO_NEEDS = ToolNeeds()
GRACE_SECONDS = 10.0
"""Time beyond that of a job, for its start and its end."""
_DEFAULTS = JobLimits()
_ENGINES = {"python": "python", "shell": "shell", "node": "javascript", "javascript": "javascript"}
"""Names of a sandbox's `runtime` with the engine of each."""
_ISOLATORS: dict[str, TierName] = {"process": "process", "docker": "container", "container": "container", "remote": "remote"}


class JobFile(Record, forbid_unknown_fields=True):
    """A file that is no text: base64."""

    data: bytes


FileContent = str | JobFile


class SandboxSpec(Record):
    """A sandbox as it is rendered; its files hold bytes."""

    runtime: str | None = None
    isolator: str | None = None
    limits: SandboxLimits = SandboxLimits()
    hosts: tuple[str, ...] = ()
    env: Mapping[str, str] = msgspec.field(default_factory=dict)
    files: Mapping[str, bytes] = msgspec.field(default_factory=dict)
    packages: tuple[str, ...] = ()
    persistent: bool = False

    @classmethod
    def of(cls, rendered: Mapping[str, Any], files: Mapping[str, bytes]) -> "SandboxSpec":
        network = rendered.get("network") or {}
        return cls(
            runtime=rendered.get("runtime"),
            isolator=rendered.get("isolator"),
            limits=msgspec.convert(rendered.get("limits") or {}, SandboxLimits),
            hosts=tuple(network.get("allow") or ()) if network.get("mode") == "allowlist" else (),
            env=dict(rendered.get("env") or {}),
            files=dict(files),
            packages=tuple(rendered.get("packages") or ()),
            persistent=bool(rendered.get("persistent")),
        )


def rendered_sandbox(tool: str, rendered: Mapping[str, Any]) -> SandboxSpec:
    """Returns the sandbox that an image holds for a tool; `ToolFailed` when the image lacks one of its files."""
    files = rendered.get("files") or {}
    if binary := [path for path, content in files.items() if not isinstance(content, str) and "data" not in content]:
        raise ToolFailed(f"The image of {tool} is older than its file {binary[0]}, which is not text; build the image again")
    return SandboxSpec.of(rendered, bytes_of(msgspec.convert(files, dict[str, FileContent])))


def limits_of(*layers: SandboxLimits) -> JobLimits:
    """The limits of a job: of each the smallest that is stated, within the server's bounds."""

    def smallest(name: str, default: int, most: int) -> int:
        stated = [value for layer in layers if (value := getattr(layer, name)) is not None]
        return min(most, *stated) if stated else default

    return JobLimits(
        wall_ms=smallest("timeout_ms", _DEFAULTS.wall_ms, WALL_MAX_MS),
        cpu_seconds=smallest("cpu_seconds", _DEFAULTS.cpu_seconds, CPU_SECONDS_MAX),
        memory_bytes=smallest("memory_bytes", _DEFAULTS.memory_bytes, MEMORY_MAX_BYTES),
        processes=smallest("processes", _DEFAULTS.processes, PROCESSES_MAX),
        disk_bytes=smallest("file_bytes", _DEFAULTS.disk_bytes, DISK_MAX_BYTES),
        output_bytes=smallest("output_bytes", _DEFAULTS.output_bytes, OUTPUT_MAX_BYTES),
    )


def call_seconds(limits: JobLimits, packages: Collection[str]) -> float:
    """Time after which the job of a call has ended, by its own limit: its result then says so, with all that it wrote.

    The first job with some packages waits until they are installed.
    """
    return limits.wall_ms / 1000 + GRACE_SECONDS + (INSTALL_SECONDS_MAX if packages else 0)


def limits_needed(needs: ToolNeeds) -> SandboxLimits:
    """The limits that a tool needs, as those of a sandbox: they hold where its sandbox states none."""
    return SandboxLimits(
        memory_bytes=needs.memory_bytes,
        cpu_seconds=needs.cpu_seconds,
        processes=needs.processes,
        file_bytes=needs.disk_bytes,
    )


def need_of(job: Job, spec: SandboxSpec, needs: ToolNeeds = NO_NEEDS) -> Need:
    """The least that a tier must give to the job: the sandbox and the tool state it together.

    `TierUnavailable` when the limits of the job are below the tool's needs.
    """
    if spec.isolator is not None and spec.isolator not in _ISOLATORS:
        names = ", ".join(_ISOLATORS)
        raise TierUnavailable(f"The sandbox asks for the isolator {shorten(spec.isolator)}; this server knows {names}")
    engine = job.engine
    if (image := image_of(spec)) is not None:
        engine = f"image:{image}"
    elif engine == "command" and "/" not in job.argv[0]:
        engine = f"binary:{job.argv[0]}"
    for name in ("memory_bytes", "cpu_seconds", "processes", "disk_bytes"):
        least, limit = getattr(needs, name), getattr(job.limits, name)
        if least is not None and least > limit:
            raise TierUnavailable(f"The tool needs {name} of {least}; its sandbox, or this server, allows {limit}")
    return Need(
        engine=needs.engine or engine,
        packages=tuple(dict.fromkeys((*spec.packages, *needs.packages))),
        net=job.network,
        memory_bytes=job.limits.memory_bytes,
        disk_bytes=job.limits.disk_bytes,
        processes=job.limits.processes,
        wall_seconds=job.limits.wall_ms / 1000,
        walls=frozenset(needs.walls),
        tier=None if spec.isolator is None else _ISOLATORS[spec.isolator],
        persistent=spec.persistent,
        calls=bool(job.functions),
    )


def bytes_of(files: Mapping[str, FileContent]) -> dict[str, bytes]:
    return {path: content.encode() if isinstance(content, str) else content.data for path, content in files.items()}


def shown(files: Mapping[str, bytes]) -> dict[str, FileContent]:
    """Files for JSON: text where they are text."""
    return {path: _shown(data) for path, data in files.items()}


def _shown(data: bytes) -> FileContent:
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return JobFile(data=data)
    return JobFile(data=data) if "\0" in text else text


def engine_of(name: str | None, spec: SandboxSpec) -> str:
    """The engine that a request names, or the one of its sandbox; they must not contradict each other."""
    own = None if spec.runtime is None else _ENGINES.get(spec.runtime.partition(":")[0])
    if name is None and own is None:
        raise InvalidInput("`engine` is missing: python, shell, javascript or command")
    return name or own or ""


def image_of(spec: SandboxSpec) -> str | None:
    """The image that a runtime names; None for an engine of this machine: nothing runs in another version than it asks for."""
    name, _, version = (spec.runtime or "python").partition(":")
    here = ".".join(map(str, sys.version_info[:3]))
    is_here = not version or (name == "python" and f"{here}.".startswith(f"{version}."))
    return None if name in _ENGINES and is_here else spec.runtime


def check_files(files: Mapping[str, bytes], limits: JobLimits) -> None:
    """Refuses paths that leave the workspace or that no file can have, and files that do not fit into it."""
    for path in files:
        parts = path.split("/")
        if (
            not {"", ".", ".."}.isdisjoint(parts)
            or "\0" in path
            or len(path.encode()) > PATH_MAX
            or len(parts) > PATH_DEPTH_MAX
            or any(len(part.encode()) > NAME_MAX_BYTES for part in parts)
        ):
            raise InvalidInput(
                f"files: {shorten(path)!r} is not a path in a workspace: it must be relative, without . and .., with names of "
                f"up to {NAME_MAX_BYTES} bytes"
            )
        if above := next((folder for folder in folders_of(path) if folder in files), None):
            raise InvalidInput(f"files: {shorten(above)!r} cannot be a file and the folder of {shorten(path)!r}")
    size = sum(map(len, files.values()))
    if size > limits.disk_bytes or len(files) > limits.files:
        raise WorkspaceFull(f"{len(files)} files of {size} bytes; the workspace holds {limits.files} of {limits.disk_bytes}")


def seconds_of(limits: JobLimits) -> int:
    return math.ceil(limits.wall_ms / 1000)


def text_of(output: bytes) -> str:
    return output.decode("utf-8", "replace").replace("\0", "\ufffd")
