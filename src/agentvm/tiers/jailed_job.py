"""Jailed job — the server's part of one job: carries its streams, answers its calls, ends it in time, collects its files.

Everything from the job after its `Begun` is untrusted: frames of two kinds, each with a bound, and files, which are opened
without following links when every process of the job has ended.
"""

import os
import select
import signal
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from types import TracebackType
from typing import Self

import anyio
import anyio.abc
import anyio.to_thread
import msgspec

from agentvm.errors import AgentVMError, ToolFailed
from agentvm.errors.tool import TierBroken, WorkspaceFull
from agentvm.model.long_json import read_json
from agentvm.model.tier import Job, JobResult, JobUsage
from agentvm.tiers.base import HostCalls
from agentvm.tiers.egress import EgressPolicy, serve_proxy
from agentvm.tiers.frames import (
    CALL_MAX_BYTES,
    HEADER_BYTES,
    PIECE_BYTES,
    Asking,
    Begun,
    Broken,
    Ended,
    FrameInvalid,
    HostAnswer,
    Listening,
    Value,
)
from agentvm.tiers.job_files import Collected, JobFiles
from agentvm.tiers.launcher_host import JailLink

GRACE_SECONDS = 5.0
"""Time that a killed job has for being gone, before its launcher is given up."""
ANSWER_MAX_BYTES = 16 * 1024 * 1024
OPEN_CALLS_MAX = 32
"""Calls of one job that are read and not answered; more are not read."""
_STDERR_TAIL_BYTES = 8 * 1024


class JailedJob:
    """One job, from the building of its jail to the last of its files."""

    def __init__(self, job: Job, jail: JailLink, policy: EgressPolicy) -> None:
        self.jail = jail
        self._job = job
        self._policy = policy
        self._began = anyio.current_time()
        self._outputs = {jail.stdout: bytearray(), jail.stderr: bytearray()}
        self._truncated = False
        self._value = bytearray()
        self._out_of_memory = False
        self._folder: int | None = None
        self._placed: dict[str, tuple[int, int, int, int, int]] = {}
        self._feed = memoryview(b"")
        self._poll = select.epoll()
        self._handlers: dict[int, Callable[[], None]] = {}
        self._calls: HostCalls | None = None
        self._asked = 0
        self._open_calls = deque[Asking]()
        """Calls that are not answered; the first is being carried out."""
        self._unchecked = 0
        """Calls among them whose answers the program has already."""
        self._all_checked = anyio.Event()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._poll.close()
        if self._folder is not None:
            os.close(self._folder)

    async def run(self, stdin: bytes, calls: HostCalls | None) -> JobResult:
        """Carries the job to its end, or ends it when its time is over."""
        self._feed, self._calls = memoryview(stdin), calls
        async with _open_tasks() as tasks:
            with anyio.move_on_after(self._job.limits.wall_ms / 1000) as time:
                await self.begin(tasks)
                await self._carry(tasks)
                # The program did not wait for those, and may have made other calls than before.
                while self._unchecked:
                    self._all_checked = anyio.Event()
                    await self._all_checked.wait()
            timed_out = time.cancelled_caught and not self.jail.is_gone
            if timed_out:
                await self.jail.kill()
                with anyio.move_on_after(GRACE_SECONDS):
                    await self._carry(tasks)
        if self.jail.ended is None:
            raise self.lost("its launcher has ended")
        return await self._result(self.jail.ended, timed_out=timed_out)

    async def begin(self, tasks: anyio.abc.TaskGroup) -> None:
        """Waits until all walls stand and the program is about to begin."""
        while self._folder is None:
            try:
                message, descriptor = await self.jail.line.receive()
            except (EOFError, OSError):
                raise self.lost("it was killed from outside, or ran out of memory") from None
            except FrameInvalid as error:
                raise self.lost(f"it sent {error}") from None
            match message:
                case Listening() if descriptor is not None:
                    tasks.start_soon(serve_proxy, descriptor, self._job.network, self._policy)
                case Begun(placed=placed) if descriptor is not None:
                    self._folder, self._placed = descriptor, placed
                case Broken(step="files", why=why) if "No space left" in why:
                    raise WorkspaceFull(f"The files do not fit into the workspace of {self._job.limits.disk_bytes} bytes")
                case Broken(step="files", why=why):
                    # The job's own fault, and none of the tier's.
                    raise ToolFailed(f"The files cannot be placed in the workspace: {why}")
                case Broken(step=step, why=why):
                    raise TierBroken(f"The sandbox could not be built ({step}): {why}")
                case _:
                    raise self.lost("it sent an invalid frame")

    def lost(self, reason: str) -> TierBroken:
        error = TierBroken(f"The sandbox is gone: {reason}")
        error.started = True
        return error

    async def _carry(self, tasks: anyio.abc.TaskGroup) -> None:
        """Carries everything to and fro until the job is gone."""
        if not self._handlers and self._folder is not None:
            self._watch(tasks)
        while self._handlers:
            await anyio.wait_readable(self._poll.fileno())
            for descriptor, _ in self._poll.poll(0):
                if (handler := self._handlers.get(descriptor)) is not None:
                    handler()
        await self.jail.wait()

    def _watch(self, tasks: anyio.abc.TaskGroup) -> None:
        jail = self.jail
        for stream in self._outputs:
            self._handle(stream, partial(self._take_output, stream, tasks))
        self._handle(jail.line.fileno(), partial(self._receive, tasks))
        if jail.stdin is not None:
            self._handle(jail.stdin, self._give_input, select.EPOLLOUT)
        # Frames may have come together with the word that the program begins.
        self._receive(tasks)

    def _handle(self, descriptor: int, handler: Callable[[], None], events: int = select.EPOLLIN) -> None:
        self._poll.register(descriptor, events)
        self._handlers[descriptor] = handler

    def _drop(self, descriptor: int) -> None:
        if self._handlers.pop(descriptor, None) is not None:
            self._poll.unregister(descriptor)

    def _take_output(self, stream: int, tasks: anyio.abc.TaskGroup) -> None:
        data = os.read(stream, PIECE_BYTES)
        if not data:
            self._drop(stream)
        room = self._job.limits.output_bytes - sum(map(len, self._outputs.values()))
        self._outputs[stream] += data[:room]
        if len(data) > room:
            self._truncated = True
            for output in self._outputs:
                self._drop(output)
            tasks.start_soon(self.jail.kill)

    def _give_input(self) -> None:
        jail = self.jail
        assert jail.stdin is not None
        try:
            self._feed = self._feed[os.write(jail.stdin, self._feed[:PIECE_BYTES]) :]
        except BrokenPipeError:
            self._feed = self._feed[:0]
        if not self._feed:
            self._drop(jail.stdin)
            jail.close_stdin()

    def _receive(self, tasks: anyio.abc.TaskGroup) -> None:
        """Reads the messages of the program on its own line: calls, or its value. Later output is ignored."""
        line = self.jail.line
        try:
            if self._job.engine == "javascript":
                self._value += line.receive_raw()
                if len(self._value) > CALL_MAX_BYTES:
                    raise FrameInvalid
                return
            for message in line.receive_ready(CALL_MAX_BYTES - HEADER_BYTES):
                match message:
                    case Asking():
                        self._open_calls.append(message)
                        self._unchecked += message.known
                        if len(self._open_calls) == 1:
                            tasks.start_soon(self._answer_all, tasks)
                    case Value(value=value, out_of_memory=out_of_memory):
                        self._value, self._out_of_memory = bytearray(value), out_of_memory
                    case _:
                        raise FrameInvalid
                if len(self._open_calls) >= OPEN_CALLS_MAX:
                    self._drop(line.fileno())
                    return
        except (EOFError, FrameInvalid, OSError):
            self._drop(line.fileno())

    async def _answer_all(self, tasks: anyio.abc.TaskGroup) -> None:
        """Carries out the calls one after the other: the program makes one at a time, but for those whose answers it has."""
        while self._open_calls:
            asking = self._open_calls[0]
            answer = await self._call(asking)
            if not asking.known:
                await self._send(answer)
            del self._open_calls[0]
            self._unchecked -= asking.known
            if len(self._open_calls) == OPEN_CALLS_MAX - 1:
                self._handle(self.jail.line.fileno(), partial(self._receive, tasks))
                self._receive(tasks)
            if not self._unchecked:
                self._all_checked.set()

    async def _send(self, answer: HostAnswer) -> None:
        if len(answer.value) > ANSWER_MAX_BYTES:
            answer = HostAnswer(id=answer.id, error=f"The result has more than {ANSWER_MAX_BYTES} bytes")
        try:
            await self.jail.line.send(answer)
        except OSError:
            # The job has ended meanwhile.
            pass

    async def _call(self, asking: Asking) -> HostAnswer:
        self._asked += 1
        if self._asked > self._job.limits.calls:
            return HostAnswer(id=asking.id, error=f"more than {self._job.limits.calls} calls")
        if self._calls is None or asking.name not in self._job.functions:
            return HostAnswer(id=asking.id, error=f"There is no function {asking.name!r}")
        try:
            arguments = msgspec.json.decode(asking.args, type=dict[str, object])
        except (msgspec.MsgspecError, RecursionError) as error:
            return HostAnswer(id=asking.id, error=str(error))
        try:
            value = await self._calls(asking.name, arguments)
            return HostAnswer(id=asking.id, value=msgspec.json.encode(value))
        except (AgentVMError, msgspec.MsgspecError) as error:
            return HostAnswer(id=asking.id, error=str(error))

    async def _result(self, ended: Ended, *, timed_out: bool) -> JobResult:
        if self._folder is None and not timed_out:
            raise self.lost("it was killed from outside, or ran out of memory")
        duration_ms = round((anyio.current_time() - self._began) * 1000)
        killed, collected = os.WIFSIGNALED(ended.status), await self._collect()
        stdout, stderr = (bytes(output) for output in self._outputs.values())
        return JobResult(
            exit_code=None if killed else os.WEXITSTATUS(ended.status),
            signal=signal.Signals(os.WTERMSIG(ended.status)).name if killed else None,
            stdout=stdout,
            stderr=stderr,
            truncated=self._truncated,
            timed_out=timed_out,
            oom=self._out_of_memory or ended.out_of_memory,
            duration_ms=duration_ms,
            usage=JobUsage(cpu_ms=ended.cpu_ms, max_rss_bytes=ended.max_rss_bytes),
            value=_value(self._value),
            files=collected.files,
            deleted=tuple(collected.deleted),
            executable=frozenset(collected.executable),
            left_out=collected.left_out,
        )

    async def _collect(self) -> Collected:
        if self._folder is None or (not self._placed and not os.listdir(self._folder)):
            return Collected()
        files, limits = JobFiles(self._folder, self._placed), self._job.limits
        return await anyio.to_thread.run_sync(files.collect, limits.disk_bytes, limits.files)

    @asynccontextmanager
    async def open(self) -> AsyncIterator["JailedProcess"]:
        """The program as one that lives on until the context is left, or its time is over."""
        process = JailedProcess(self)
        async with _open_tasks() as tasks:
            await self.begin(tasks)
            # Nobody answers calls or takes a value.
            self.jail.line.close()
            tasks.start_soon(process.keep_errors)
            tasks.start_soon(self._end_later)
            yield process

    async def _end_later(self) -> None:
        await anyio.sleep(self._job.limits.wall_ms / 1000)
        await self.jail.kill()


class JailedProcess:
    """A program in a jail that is talked to over its stdin and stdout."""

    def __init__(self, jailed: JailedJob) -> None:
        self._jailed = jailed
        self._jail = jailed.jail
        self._tail = bytearray()
        self._sending = anyio.Lock(fast_acquire=True)

    @property
    def stderr_tail(self) -> str:
        return self._tail.decode(errors="replace")

    async def send(self, data: bytes) -> None:
        rest = memoryview(data)
        async with self._sending:
            while rest:
                if self._jail.stdin is None:
                    raise TierBroken("The program in the sandbox has no input any more")
                try:
                    rest = rest[os.write(self._jail.stdin, rest) :]
                except BlockingIOError:
                    await anyio.wait_writable(self._jail.stdin)
                except BrokenPipeError:
                    raise TierBroken("The program in the sandbox has ended") from None

    async def receive(self) -> bytes:
        data = await _read(self._jail.stdout)
        if not data:
            self._keep_ready_errors()
        if not data and self._jail.is_gone and self._jail.ended is None:
            raise self._jailed.lost("its launcher has ended")
        return data

    async def keep_errors(self) -> None:
        """Keeps the end of the program's stderr."""
        while data := await _read(self._jail.stderr):
            self._keep(data)

    def _keep_ready_errors(self) -> None:
        """Keeps the last output of a program that has ended; the task that waits for it may be too late."""
        try:
            while data := os.read(self._jail.stderr, PIECE_BYTES):
                self._keep(data)
        except BlockingIOError:
            pass

    def _keep(self, data: bytes) -> None:
        self._tail += data
        del self._tail[:-_STDERR_TAIL_BYTES]


async def _read(descriptor: int) -> bytes:
    while True:
        try:
            return os.read(descriptor, PIECE_BYTES)
        except BlockingIOError:
            await anyio.wait_readable(descriptor)


def _value(encoded: bytearray) -> object:
    try:
        return read_json(bytes(encoded)) if encoded else None
    except ValueError:
        # The code wrote to the descriptor itself.
        return None


@asynccontextmanager
async def _open_tasks() -> AsyncIterator[anyio.abc.TaskGroup]:
    """Tasks that are cancelled when the block is left. An error of one of them ends the block and is its own."""
    tasks = anyio.create_task_group()
    await tasks.__aenter__()
    try:
        yield tasks
    finally:
        tasks.cancel_scope.cancel()
        try:
            await tasks.__aexit__(None, None, None)
        except BaseExceptionGroup as group:
            raise group.exceptions[0] from None
