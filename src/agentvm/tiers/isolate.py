"""Isolate tier — small interpreters inside a jailed worker: two walls, and no process to start for a call.

A worker belongs to one tenant and one engine, runs one job at a time, and dies after 15 idle seconds, at a job's deadline, or
when another tenant needs its place. It needs the extra `agentvm[isolate]`. The engines are subsets: `python-subset` (Monty),
`shell-subset` (bashkit), and `javascript` (QuickJS) without the modules of Node. A program that uses more ends in
`EngineLacking` before it had any effect. There is no network.
"""

import base64
import struct
import sys
import sysconfig
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import anyio
import anyio.abc
import msgspec

from agentvm.errors.tool import EngineLacking, TierBroken, TierUnavailable, WorkspaceFull
from agentvm.model.base import Record
from agentvm.model.long_json import read_json
from agentvm.model.tier import Job, JobLimits, JobResult, JobUsage, Offer, TierName
from agentvm.tiers.base import HostCalls, Process
from agentvm.tiers.isolate_program import MODULES
from agentvm.tiers.launcher_host import LauncherSettings
from agentvm.tiers.mounts import TEMPORARY
from agentvm.tiers.process import ProcessTier, open_process_tier

IDLE_SECONDS = 15.0
WORKERS_MAX = 8
START_MS = 0.1
"""Time of an empty job in a warm worker."""
AGE_MAX_SECONDS = 300.0
"""Age from which a worker takes no further job."""
REPLY_MAX_BYTES = 64 * 1024 * 1024
_REMEDY = "needs the interpreters: pip install 'agentvm[isolate]'"
_PROGRAM = str(Path(__file__).with_name("isolate_program.py"))
_WORKER = Path(__file__).with_name("isolate_worker.py")
_WORKER_LIMITS = JobLimits(wall_ms=1_200_000, cpu_seconds=1_200, memory_bytes=1024**3, processes=64)
_HEADER = struct.Struct("!I")


class WorkerReply(Record):
    """A frame of the worker: the end of a job. The first one says that it is ready."""

    exit: int = 0
    stdout: str = ""
    stderr: str = ""
    value: msgspec.Raw = msgspec.Raw(b"null")
    files: dict[str, bytes] = msgspec.field(default_factory=dict)
    deleted: tuple[str, ...] = ()
    truncated: bool = False
    oom: bool = False
    lacking: str = ""
    cpu_ms: int = 0


_decoder = msgspec.json.Decoder(WorkerReply)


class IsolateWorker:
    """One jailed worker, owned by a task of the tier."""

    def __init__(self, owner: str, engine: str) -> None:
        self.owner = owner
        self.engine = engine
        self.ready = anyio.Event()
        self.gone = anyio.Event()
        self.over = anyio.Event()
        self.busy = True
        self.failure: Exception | None = None
        self.born = self.used = anyio.current_time()
        self._process: Process | None = None
        self._buffer = bytearray()

    async def live(self, tier: ProcessTier, binary: str) -> None:
        """Keeps the worker until it was idle for long, or `over` is set."""
        job = Job(
            engine="python",
            code=_WORKER.read_text(),
            env={"AVM_ENGINE": self.engine, "AVM_BINARY": binary},
            limits=_WORKER_LIMITS,
        )
        try:
            async with tier.open(job) as self._process:
                await self.receive()
                self.ready.set()
                while not self.over.is_set():
                    # A call only notes when it was: it costs no timer.
                    with anyio.move_on_after(max(0.01, self.used + IDLE_SECONDS - anyio.current_time())):
                        await self.over.wait()
                    if not self.busy and anyio.current_time() >= self.used + IDLE_SECONDS:
                        self.over.set()
        except TierUnavailable as error:
            self.failure = error
        finally:
            self.over.set()
            self.ready.set()
            self.gone.set()

    async def send(self, message: object) -> None:
        assert self._process is not None
        body = msgspec.json.encode(message)
        await self._process.send(_HEADER.pack(len(body)) + body)

    async def receive(self) -> WorkerReply:
        """The next frame; `TierBroken` when the worker is gone or sends an impossible frame."""
        buffer = self._buffer
        while len(buffer) < 4 or len(buffer) < (end := 4 + _HEADER.unpack(buffer[:4])[0]):
            if len(buffer) >= 4 and end > REPLY_MAX_BYTES:
                raise WorkspaceFull(f"The result has more than {REPLY_MAX_BYTES} bytes")
            assert self._process is not None
            piece = await self._process.receive()
            if not piece:
                raise TierBroken(f"The worker has ended: {self._process.stderr_tail[-500:]}")
            buffer += piece
        body = bytes(buffer[4:end])
        del buffer[:end]
        try:
            return _decoder.decode(body)
        except (msgspec.MsgspecError, RecursionError) as error:
            raise TierBroken(f"The worker sent {error}") from None


class IsolateTier:
    """Interpreters on this machine."""

    name: TierName = "isolate"

    def __init__(self, jail: ProcessTier, tier: ProcessTier, tasks: anyio.abc.TaskGroup, binary: str) -> None:
        """`tier` has a launcher of its own with the interpreters loaded, which the first job starts; `jail` tells the walls."""
        self._jail = jail
        self._tier = tier
        self._tasks = tasks
        self._binary = binary
        # Looking for packages would cost more than a call.
        self._engines = installed_engines()
        self._workers: list[IsolateWorker] = []

    @property
    def workers(self) -> tuple[IsolateWorker, ...]:
        """The workers that live, the eldest first."""
        return tuple(self._workers)

    async def offer(self) -> Offer:
        return isolate_offer(await self._jail.offer(), self._engines)

    async def run(self, job: Job, calls: HostCalls | None = None) -> JobResult:
        if job.engine not in self._engines or job.network or job.functions:
            raise TierUnavailable(f"The tier isolate offers no {job.engine} with this network, and its programs call no tools")
        began = anyio.current_time()
        worker = await self._acquire(job.owner, job.engine)
        finished = False
        try:
            with anyio.move_on_after(job.limits.wall_ms / 1000):
                await worker.send(_request(job))
                reply = await worker.receive()
                finished = True
        except TierBroken as error:
            error.started = True
            raise
        finally:
            if finished:
                worker.busy, worker.used = False, anyio.current_time()
            else:
                await self._end(worker)
        duration_ms = round((anyio.current_time() - began) * 1000)
        if not finished:
            return JobResult(signal="SIGKILL", timed_out=True, duration_ms=duration_ms)
        return _result(job, reply, duration_ms)

    def open(self, job: Job) -> AbstractAsyncContextManager[Process]:
        """Refused: an interpreter has no programs that live on."""
        raise TierUnavailable("The tier isolate runs no programs that live on")

    async def _acquire(self, owner: str, engine: str) -> IsolateWorker:
        now = anyio.current_time()
        for worker in self._workers:
            fits = (worker.owner, worker.engine, worker.busy) == (owner, engine, False)
            if fits and not worker.over.is_set() and now - worker.born < AGE_MAX_SECONDS:
                worker.busy = True
                return worker
        idle = sorted((worker for worker in self._workers if not worker.busy), key=lambda worker: worker.used)
        for worker in idle[: max(0, len(self._workers) + 1 - WORKERS_MAX)]:
            await self._end(worker)
        worker = IsolateWorker(owner, engine)
        self._workers.append(worker)
        self._tasks.start_soon(self._live, worker)
        try:
            await worker.ready.wait()
        except anyio.get_cancelled_exc_class():
            await self._end(worker)
            raise
        if worker.failure is not None:
            raise worker.failure
        return worker

    async def _live(self, worker: IsolateWorker) -> None:
        try:
            await worker.live(self._tier, self._binary)
        finally:
            self._workers.remove(worker)

    async def _end(self, worker: IsolateWorker) -> None:
        """Kills a worker; it is gone when this returns."""
        worker.over.set()
        with anyio.CancelScope(shield=True):
            await worker.gone.wait()


def isolate_offer(jail: Offer, engines: frozenset[str]) -> Offer:
    """The offer of the tier on a machine with these jails and engines."""
    if not engines or jail.missing:
        return Offer(tier="isolate", missing=jail.missing if engines else _REMEDY)
    return Offer(
        tier="isolate",
        engines=engines,
        walls=jail.walls | {"interpreter"},
        enforces=jail.enforces,
        max_disk_bytes=_WORKER_LIMITS.disk_bytes,
        start_ms=START_MS,
    )


def installed_engines() -> frozenset[str]:
    """The engines whose packages are installed; none of them is imported.

    The program of one cannot be run where it lies below /tmp: a job has a folder of its own there.
    """
    return frozenset(
        engine
        for engine, module in MODULES.items()
        if find_spec(module) is not None and (engine != "python-subset" or _is_runnable(Path(_monty_binary())))
    )


def _is_runnable(program: Path) -> bool:
    return program.is_file() and not program.is_relative_to(TEMPORARY)


def _monty_binary() -> str:
    return str(Path(sysconfig.get_path("scripts")) / "monty")


def _as_text(files: Mapping[str, bytes]) -> dict[str, str]:
    return {path: base64.b64encode(data).decode() for path, data in files.items()}


def _request(job: Job) -> dict[str, object]:
    folders = (("AVM_IN", "/in", job.inputs), ("AVM_SKILLS", "/skills", job.skills))
    inputs = [(name, folder, files) for name, folder, files in folders if files]
    return {
        "code": job.code,
        "script": job.script,
        "input": job.input,
        "stdin": job.stdin.decode(errors="replace") or ("" if job.input is None else msgspec.json.encode(job.input).decode()),
        "env": dict(job.env) | ({"AVM_CALL_KEY": job.key} if job.key else {}) | {name: folder for name, folder, _ in inputs},
        "files": _as_text(job.files),
        "inputs": {folder: _as_text(files) for _, folder, files in inputs},
        "memory": job.limits.memory_bytes,
    }


def _result(job: Job, done: WorkerReply, duration_ms: int) -> JobResult:
    if done.lacking and done.exit:
        raise EngineLacking(done.lacking[:500])
    stdout, stderr = done.stdout.encode(), done.stderr.encode()
    size, limit = len(stdout) + len(stderr), job.limits.output_bytes
    return JobResult(
        exit_code=done.exit,
        stdout=stdout[:limit],
        stderr=stderr[: max(0, limit - len(stdout))],
        truncated=done.truncated or size > limit,
        oom=done.oom,
        duration_ms=duration_ms,
        usage=JobUsage(cpu_ms=done.cpu_ms),
        value=_value(done.value),
        files=done.files,
        deleted=done.deleted,
    )


def _value(encoded: msgspec.Raw) -> object:
    try:
        return read_json(bytes(encoded))
    except ValueError:
        # An interpreter that was broken out of wrote to the line itself.
        return None


@asynccontextmanager
async def open_isolate_tier(jail: ProcessTier, settings: LauncherSettings) -> AsyncIterator[IsolateTier]:
    """Yields the tier, whose walls are those of `jail`; when the context is left, its workers are gone."""
    binary = _monty_binary()
    command = (sys.executable, "-P", "-s", _PROGRAM, binary)
    async with open_process_tier(replace(settings, command=command)) as tier:
        tasks = anyio.create_task_group()
        await tasks.__aenter__()
        try:
            yield IsolateTier(jail, tier, tasks, binary)
        finally:
            # Not `async with`: it would wrap the caller's exception in an exception group.
            tasks.cancel_scope.cancel()
            await tasks.__aexit__(None, None, None)
