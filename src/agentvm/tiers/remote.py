"""Remote tier — jobs on another AgentVM: a machine as a wall. It is called like by any client, with its own key.

The job's deadline goes along, and a job that is cancelled closes its connection, which ends it there. Responses are bounded
and validated as untrusted. When the connection is lost, the job fails: its progress is unknown, so it is not repeated.
"""

import base64
import math
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager

import anyio
import msgspec

from agentvm.errors import ToolFailed, shorten
from agentvm.errors.tool import EgressRefused, TierBroken, TierUnavailable
from agentvm.model.base import Record, record_from
from agentvm.model.long_json import read_json
from agentvm.model.tier import Enforces, Job, JobResult, JobUsage, Offer, TierName, Wall
from agentvm.tiers.base import HostCalls, Process, RemoteRequest

OFFER_SECONDS = 30.0
"""Time for which the other server's answer is believed."""
PROBE_SECONDS = 5.0
START_MS = 50.0
GRACE_SECONDS = 10.0
"""Time that the other server has for its answer after the job's deadline."""
PERMISSION = "tools:invoke"
_ENGINES = frozenset({"python", "python-subset", "shell", "shell-subset", "javascript", "command"})
_WALLS: frozenset[Wall] = frozenset({"machine", "process", "seccomp", "rlimits"})


class _FileData(Record):
    data: bytes


class _Usage(Record):
    cpu_ms: int = 0
    max_rss_bytes: int = 0


class RemoteOutcome(Record):
    """The reply of the other server, as far as it is used."""

    duration_ms: int
    exit_code: int | None = None
    signal: str | None = None
    stdout: str = ""
    stderr: str = ""
    truncated: bool = False
    timed_out: bool = False
    oom: bool = False
    usage: _Usage = _Usage()
    value: msgspec.Raw = msgspec.Raw(b"null")
    files: dict[str, str | _FileData] = msgspec.field(default_factory=dict)
    deleted: tuple[str, ...] = ()
    executable: tuple[str, ...] = ()
    left_out: int = 0


class _Identity(Record):
    permissions: tuple[str, ...]


class RemoteTier:
    """The sandboxes of another server."""

    name: TierName = "remote"

    def __init__(self, ask: RemoteRequest, host: str) -> None:
        self._ask = ask
        self._host = host
        self._offer: Offer | None = None
        self._offered = -math.inf

    async def offer(self) -> Offer:
        if self._offer is None or anyio.current_time() - self._offered > OFFER_SECONDS:
            self._offer, self._offered = await self._probe(), anyio.current_time()
        return self._offer

    async def run(self, job: Job, calls: HostCalls | None = None) -> JobResult:
        if job.network or job.functions or job.packages:
            raise TierUnavailable("The tier remote has no network, no packages, and its programs call no tools")
        body = msgspec.json.encode(_request(job))
        try:
            status, reply = await self._ask("POST", "/v1/sandboxes/run", body, job.limits.wall_ms / 1000 + GRACE_SECONDS)
        except EgressRefused:
            raise
        except ToolFailed as error:
            raise _lost(f"The server {self._host}, which ran the job, is gone: {error}") from None
        if status != 200:
            raise _refusal(self._host, status, reply)
        return _result(job, self._decoded(reply))

    def open(self, job: Job) -> AbstractAsyncContextManager[Process]:
        """Refused: programs that live on run on the tier process."""
        raise TierUnavailable("The tier remote runs no programs that are talked to")

    async def _probe(self) -> Offer:
        try:
            status, reply = await self._ask("GET", "/v1/auth/whoami", b"", PROBE_SECONDS)
        except ToolFailed as error:
            return Offer(tier="remote", missing=f"tools.remote: {error}")
        if status != 200:
            return Offer(tier="remote", missing=f"tools.remote: {_refusal(self._host, status, reply)}")
        try:
            permissions = msgspec.json.decode(reply, type=_Identity).permissions
        except msgspec.MsgspecError:
            return Offer(tier="remote", missing=f"tools.remote.url: {self._host} is not an AgentVM server")
        if PERMISSION not in permissions:
            return Offer(tier="remote", missing=f"tools.remote.key has not the permission {PERMISSION} at {self._host}")
        enforces = Enforces(memory="each", disk="total", processes="total")
        return Offer(tier="remote", engines=_ENGINES, walls=_WALLS, enforces=enforces, start_ms=START_MS)

    def _decoded(self, reply: bytes) -> RemoteOutcome:
        try:
            return msgspec.json.decode(reply, type=RemoteOutcome)
        except (msgspec.MsgspecError, RecursionError) as error:
            raise _lost(f"The server {self._host} sent no result of a job: {error}") from None


def _lost(text: str) -> TierBroken:
    error = TierBroken(text)
    error.started = True
    return error


def _refusal(host: str, status: int, reply: bytes) -> TierUnavailable:
    """Returns the error of the other server: below status 500 it has refused the job, and nothing was run; from 500 on that is
    unknown."""
    try:
        error = msgspec.json.decode(reply, type=dict[str, dict[str, object]])["error"]
        text = f"{error.get('code')}: {error.get('message')}"
    except (msgspec.MsgspecError, KeyError):
        text = f"status {status}"
    failed = status >= 500
    broken = TierBroken(f"The server {host} {'failed' if failed else 'refused'}: {text[:300]}")
    broken.started = failed
    return broken


def _request(job: Job) -> dict[str, object]:
    limits = job.limits
    return {
        "engine": job.engine,
        "code": job.code,
        "argv": job.argv,
        "input": job.input,
        "stdin": job.stdin.decode(errors="replace"),
        "env": dict(job.env) | ({"AVM_CALL_KEY": job.key} if job.key else {}),
        "files": _as_data(job.files),
        "executable": sorted(job.executable & job.files.keys()),
        # A server that does not know one of them runs all other jobs.
        **({"script": True} if job.script else {}),
        **{name: _as_data(files) for name, files in (("inputs", job.inputs), ("skills", job.skills)) if files},
        "limits": {
            "timeoutMs": limits.wall_ms,
            "memoryBytes": limits.memory_bytes,
            "cpuSeconds": limits.cpu_seconds,
            "processes": limits.processes,
            "fileBytes": limits.disk_bytes,
            "outputBytes": limits.output_bytes,
        },
    }


def _as_data(files: Mapping[str, bytes]) -> dict[str, dict[str, str]]:
    return {path: {"data": base64.b64encode(data).decode()} for path, data in files.items()}


def _result(job: Job, outcome: RemoteOutcome) -> JobResult:
    limits = job.limits
    files = {path: content.encode() if isinstance(content, str) else content.data for path, content in outcome.files.items()}
    output = outcome.stdout.encode(), outcome.stderr.encode()
    _check(files, outcome.deleted, job)
    try:
        value = read_json(bytes(outcome.value))
    except ValueError as error:
        raise _lost(f"The other server sent a value that is no JSON: {error}") from None
    return record_from(
        JobResult,
        outcome,
        stdout=output[0][: limits.output_bytes],
        stderr=output[1][: limits.output_bytes],
        truncated=outcome.truncated or sum(map(len, output)) > 2 * limits.output_bytes,
        duration_ms=max(0, min(outcome.duration_ms, limits.wall_ms + round(GRACE_SECONDS * 1000))),
        value=value,
        usage=JobUsage(cpu_ms=max(0, outcome.usage.cpu_ms), max_rss_bytes=max(0, outcome.usage.max_rss_bytes)),
        files=files,
        executable=frozenset(outcome.executable) & files.keys(),
    )


def _check(files: Mapping[str, bytes], deleted: tuple[str, ...], job: Job) -> None:
    for path in files:
        if not {"", ".", ".."}.isdisjoint(path.split("/")) or "\0" in path:
            raise _lost(f"The other server sent a file that is in no workspace: {shorten(path)!r}")
    if len(files) > job.limits.files or sum(map(len, files.values())) > job.limits.disk_bytes:
        raise _lost("The other server sent more files than the workspace holds")
    if strange := next((path for path in deleted if path not in job.files), None):
        raise _lost(f"The other server deleted a file that was not there: {shorten(strange)!r}")
