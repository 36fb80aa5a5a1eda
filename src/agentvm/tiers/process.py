"""Process tier — each job in a jail of its own: a forked process behind every wall that this machine has.

It needs nothing but Linux. The first job starts the launcher; a job then costs two forks, and leaves nothing behind.
"""

import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
import anyio.abc
import msgspec

from agentvm.errors import AgentVMError
from agentvm.errors.tool import TierBroken, TierUnavailable, WorkspaceFull
from agentvm.model.tier import Job, JobResult, JobUsage, Offer, TierName
from agentvm.tiers.base import HostCalls, Process
from agentvm.tiers.egress import EgressPolicy, serve_proxy
from agentvm.tiers.frames import (
    FRAME_MAX_BYTES,
    Asking,
    Bounds,
    Broken,
    Ended,
    Feed,
    FrameInvalid,
    HostAnswer,
    HostReport,
    JobDone,
    JobWork,
    Listening,
    OutputPiece,
)
from agentvm.tiers.launcher_host import LauncherHost, LauncherLife, LauncherSettings, open_launcher_host
from agentvm.tiers.link import FrameLink
from agentvm.tiers.probe import NO_LAUNCHER, offer_of

GRACE_SECONDS = 5.0
"""Time that the job's first process has for ending the job at its deadline, before it is killed as well."""
ANSWER_MAX_BYTES = 16 * 1024 * 1024
_STDERR_TAIL_BYTES = 8 * 1024
_ROLES = frozenset({"python", "shell", "javascript", "command"})


class ProcessTier:
    """Jails on this machine."""

    name: TierName = "process"

    def __init__(self, host: LauncherHost, policy: EgressPolicy) -> None:
        self._host = host
        self._policy = policy
        self.report: HostReport | None = None
        """The findings of the first launcher about this machine."""

    @property
    def launcher_process_id(self) -> int | None:
        return self._host.process_id

    async def offer(self) -> Offer:
        if self.report is None:
            try:
                async with self._host.lease() as launcher:
                    self.report = launcher.report
            except TierBroken as error:
                return msgspec.structs.replace(NO_LAUNCHER, missing=str(error))
        return NO_LAUNCHER if self.report is None else offer_of(self.report)

    async def run(self, job: Job, calls: HostCalls | None = None) -> JobResult:
        async with self._start(job, stream=False) as (control, conversation):
            result = None
            # Over the job's own deadline only when its first process does not keep it.
            with anyio.move_on_after(job.limits.wall_ms / 1000 + GRACE_SECONDS):
                result = await conversation.carry(control, calls)
        return result or conversation.lost(job.limits.wall_ms)

    @asynccontextmanager
    async def open(self, job: Job) -> AsyncIterator[Process]:
        async with self._start(job, stream=True) as (control, conversation):
            yield _StdioProcess(control, conversation)

    @asynccontextmanager
    async def _start(self, job: Job, *, stream: bool) -> AsyncIterator[tuple[FrameLink, "_Conversation"]]:
        offer = await self.offer()
        if offer.missing or job.engine not in _ROLES or (job.network and not offer.egress):
            raise TierUnavailable(offer.missing or f"The tier process offers no {job.engine} with this network")
        # A control group counts what limits for each process cannot.
        grouped = "cgroup" in offer.walls and (stream or job.engine == "javascript")
        async with self._host.lease() as launcher, launcher.job(grouped=grouped) as (control, pending):
            conversation = _Conversation(job, self._policy, launcher)
            try:
                await control.send(_work(job, stream=stream))
            except OSError:
                # The jail may have ended already; it says why.
                pass
            yield control, conversation
        conversation.ended = pending.ended


class _Conversation:
    """The server's part of one job."""

    def __init__(self, job: Job, policy: EgressPolicy, launcher: LauncherLife) -> None:
        self._job = job
        self._policy = policy
        self._launcher = launcher
        self._outputs = {1: bytearray(), 2: bytearray()}
        self._answers = anyio.Lock()
        self.ended: Ended | None = None

    async def carry(self, control: FrameLink, calls: HostCalls | None) -> JobResult:
        """Takes everything that the jail says until the job is done."""
        async with _open_tasks() as tasks:
            while True:
                message, descriptor = await self.receive(control)
                match message:
                    case OutputPiece(stream=stream, data=data):
                        self._outputs[stream if stream in self._outputs else 2] += data
                    case Asking():
                        tasks.start_soon(self._answer, control, message, calls)
                    case Listening() if descriptor is not None:
                        tasks.start_soon(serve_proxy, descriptor, self._job.network, self._policy)
                    case JobDone():
                        return self._result(message)
                    case _:
                        raise self._lost("The sandbox said something that it cannot mean")

    async def receive(self, control: FrameLink) -> tuple[object, int | None]:
        try:
            message, descriptor = await control.receive(FRAME_MAX_BYTES)
        except (EOFError, OSError):
            reason = "its launcher has ended" if self._launcher.over else "it was killed from outside, or ran out of memory"
            raise self._lost(f"The sandbox is gone: {reason}") from None
        except FrameInvalid as error:
            raise self._lost(f"The sandbox sent {error}") from None
        if isinstance(message, Broken):
            if message.step == "files" and "No space left" in message.why:
                raise WorkspaceFull(f"The files do not fit into the workspace of {self._job.limits.disk_bytes} bytes")
            raise TierBroken(f"The sandbox could not be built ({message.step}): {message.why}")
        return message, descriptor

    def _lost(self, text: str) -> TierBroken:
        error = TierBroken(text)
        error.started = True
        return error

    async def _answer(self, control: FrameLink, asking: Asking, calls: HostCalls | None) -> None:
        answer = HostAnswer(id=asking.id, error=f"There is no function {asking.name!r}")
        if calls is not None and asking.name in self._job.functions:
            try:
                value = await calls(asking.name, msgspec.json.decode(asking.args, type=dict[str, object]))
                answer = HostAnswer(id=asking.id, value=msgspec.json.encode(value))
            except (AgentVMError, msgspec.MsgspecError) as error:
                answer = HostAnswer(id=asking.id, error=str(error))
        if len(answer.value) > ANSWER_MAX_BYTES:
            answer = HostAnswer(id=asking.id, error=f"The result has more than {ANSWER_MAX_BYTES} bytes")
        async with self._answers:
            try:
                await control.send(answer)
            except OSError:
                # The job has ended meanwhile.
                pass

    def _result(self, done: JobDone) -> JobResult:
        killed = os.WIFSIGNALED(done.status)
        return JobResult(
            exit_code=None if killed else os.WEXITSTATUS(done.status),
            signal=signal.Signals(os.WTERMSIG(done.status)).name if killed else None,
            stdout=bytes(self._outputs[1]),
            stderr=bytes(self._outputs[2]),
            truncated=done.truncated,
            timed_out=done.timed_out,
            oom=done.out_of_memory,
            duration_ms=done.wall_ms,
            usage=JobUsage(cpu_ms=done.cpu_ms, max_rss_bytes=done.max_rss_bytes),
            value=_value(done.value),
            files=done.files,
            deleted=tuple(done.deleted),
            executable=frozenset(done.executable),
            left_out=done.left_out,
        )

    def lost(self, wall_ms: int) -> JobResult:
        """The result of a job whose first process did not end it in time."""
        usage = JobUsage() if self.ended is None else JobUsage(cpu_ms=self.ended.cpu_ms, max_rss_bytes=self.ended.max_rss_bytes)
        stdout, stderr = (bytes(self._outputs[stream]) for stream in (1, 2))
        return JobResult(signal="SIGKILL", stdout=stdout, stderr=stderr, timed_out=True, duration_ms=wall_ms, usage=usage)


class _StdioProcess:
    """A program in a jail that is talked to over its stdin and stdout."""

    def __init__(self, control: FrameLink, conversation: _Conversation) -> None:
        self._control = control
        self._conversation = conversation
        self._tail = bytearray()
        self._sending = anyio.Lock()
        self._over = False

    @property
    def stderr_tail(self) -> str:
        return self._tail.decode(errors="replace")

    async def send(self, data: bytes) -> None:
        if data:
            await self._feed(data)

    async def close_input(self) -> None:
        await self._feed(b"")

    async def _feed(self, data: bytes) -> None:
        async with self._sending:
            try:
                await self._control.send(Feed(data=data))
            except OSError:
                raise TierBroken("The program in the sandbox has ended") from None

    async def receive(self) -> bytes:
        while not self._over:
            message, _ = await self._conversation.receive(self._control)
            match message:
                case OutputPiece(stream=1, data=data):
                    return data
                case OutputPiece(data=data):
                    self._tail += data
                    del self._tail[:-_STDERR_TAIL_BYTES]
                case _:
                    self._over = True
        return b""


def _value(encoded: bytes | None) -> object:
    try:
        return None if encoded is None else msgspec.json.decode(encoded)
    except msgspec.MsgspecError:
        # The code wrote to the descriptor itself.
        return None


def _work(job: Job, *, stream: bool) -> JobWork:
    limits = job.limits
    return JobWork(
        role=job.engine,
        bounds=Bounds(
            wall_ms=limits.wall_ms,
            cpu_seconds=limits.cpu_seconds,
            memory_bytes=limits.memory_bytes,
            processes=limits.processes,
            disk_bytes=limits.disk_bytes,
            files=limits.files,
            output_bytes=limits.output_bytes,
            calls=limits.calls,
        ),
        code=job.code,
        script=job.script,
        argv=list(job.argv),
        input=None if job.input is None else msgspec.json.encode(job.input),
        stdin=job.stdin,
        env=dict(job.env) | ({"AVM_CALL_KEY": job.key} if job.key else {}),
        files=dict(job.files),
        executable=sorted(job.executable),
        functions={name: list(parameters) for name, parameters in job.functions.items()},
        network=bool(job.network),
        stream=stream,
    )


@asynccontextmanager
async def _open_tasks() -> AsyncIterator[anyio.abc.TaskGroup]:
    """Tasks that are cancelled when the block is left, whose errors are the block's own."""
    tasks = anyio.create_task_group()
    await tasks.__aenter__()
    try:
        yield tasks
    finally:
        tasks.cancel_scope.cancel()
        await tasks.__aexit__(None, None, None)


@asynccontextmanager
async def open_process_tier(
    settings: LauncherSettings | None = None, policy: EgressPolicy | None = None
) -> AsyncIterator[ProcessTier]:
    """Yields the tier; when the context is left, its launcher and all jails are gone."""
    async with open_launcher_host(settings) as host:
        yield ProcessTier(host, policy or EgressPolicy())
