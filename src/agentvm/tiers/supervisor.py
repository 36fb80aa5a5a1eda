"""Supervisor — the first process of a jail: builds it, starts the payload, carries its output, and ends everything.

It is the job's `init`: when it goes, the kernel kills whatever is left in the process namespace. It goes when the payload is
done, when the time is over, when too much was written, and when the server or the launcher is gone. Foreign code never runs
in it.

Part of the launcher's process: standard library and msgspec only.
"""

import os
import resource
import select
import signal
import socket
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NoReturn

from agentvm.tiers import frames, kernel, roles
from agentvm.tiers.cgroup import JobGroup
from agentvm.tiers.frames import (
    CALL_MAX_BYTES,
    HEADER_BYTES,
    PIECE_BYTES,
    AnyMessage,
    Asking,
    Broken,
    Feed,
    FrameInvalid,
    HostAnswer,
    JobDone,
    JobWork,
    Listening,
    OutputPiece,
    Value,
)
from agentvm.tiers.jail import Jail
from agentvm.tiers.job_files import JobFiles

_FEED_MAX_BYTES = 4 * 1024 * 1024
"""Input that waits for the payload; more is not taken from the server until it has read some."""
_ENDING_SECONDS = 5.0


@dataclass(slots=True)
class _State:
    timed_out: bool = False
    truncated: bool = False
    out_of_memory: bool = False
    value: bytes | None = None
    written: int = 0
    calls: int = 0
    feed: bytearray = field(default_factory=bytearray)
    fed: bool = False
    """Whether all of stdin has come."""
    raw: bytearray = field(default_factory=bytearray)


def supervise(control: socket.socket, jail: Jail, name: str, uid: int | None, group: JobGroup) -> NoReturn:
    """Runs one job, in a process that the launcher has just forked, and ends that process."""
    began, step = time.monotonic(), "descriptors"
    try:
        jail.begin({control.fileno(), *group.descriptors})
        work, _ = frames.receive(control)
        if isinstance(work, JobWork):
            step = "mounts"
            jail.mount(work.bounds, os.getuid() if uid is None else uid)
            group.prepare(work.bounds)
            if work.network:
                step = "network"
                with jail.listen() as listener:
                    frames.send(control, Listening(), listener.fileno())
            step = "uid"
            jail.settle(uid)
            step = "files"
            Supervisor(control, jail, name, uid, work, group, began).run()
    except OSError as error:
        # The server may be gone, and then nobody needs to know.
        _try_to_send(control, Broken(step=step, why=str(error)))
    except (EOFError, FrameInvalid):
        pass
    finally:
        kernel.leave(0)


def _try_to_send(control: socket.socket, message: Broken) -> None:
    try:
        frames.send(control, message)
    except OSError:
        pass


class Supervisor:
    """One job from the first file to the last."""

    def __init__(
        self, control: socket.socket, jail: Jail, name: str, uid: int | None, work: JobWork, group: JobGroup, began: float
    ) -> None:
        self._control = control
        self._jail = jail
        self._uid = uid
        self._work = work
        self._group = group
        self._began = began
        self._deadline = began + work.bounds.wall_ms / 1000
        self._folders = jail.folders(name)
        self._state = _State(feed=bytearray(roles.stdin_of(work)), fed=not work.stream)

    def run(self) -> None:
        workspace, temporary = self._folders
        if self._jail.end_signal != signal.SIGKILL:
            signal.signal(self._jail.end_signal, self._end_orphaned)
        os.chdir(workspace)
        files = JobFiles(workspace)
        files.place(self._work.files, frozenset(self._work.executable))
        if script := roles.script_of(self._work):
            JobFiles(temporary).place(script, frozenset())
        status = self._watch()
        bounds, state = self._work.bounds, self._state
        collected = files.collect(bounds.disk_bytes, bounds.files)
        usage = resource.getrusage(resource.RUSAGE_CHILDREN)
        if self._work.role == "javascript" and state.raw:
            state.value = bytes(state.raw)
        frames.send(
            self._control,
            JobDone(
                status=status,
                wall_ms=round((time.monotonic() - self._began) * 1000),
                cpu_ms=round((usage.ru_utime + usage.ru_stime) * 1000),
                max_rss_bytes=usage.ru_maxrss * 1024,
                timed_out=state.timed_out,
                truncated=state.truncated,
                out_of_memory=state.out_of_memory or self._group.ran_out_of_memory(),
                value=state.value,
                files=collected.files,
                deleted=collected.deleted,
                executable=collected.executable,
                left_out=collected.left_out,
            ),
        )

    def _start(self) -> tuple[int, int, int, int, socket.socket]:
        """Forks the payload; its id, and our ends of stdin, stdout, stderr and of its line for calls."""
        (in_read, in_write), (out_read, out_write), (err_read, err_write) = os.pipe(), os.pipe(), os.pipe()
        ours, theirs = socket.socketpair()
        payload = os.fork()
        if payload == 0:
            self._become_payload((in_read, out_write, err_write), theirs)
        for descriptor in (in_read, out_write, err_write):
            os.close(descriptor)
        theirs.close()
        os.set_blocking(in_write, False)
        return payload, in_write, out_read, err_read, ours

    def _become_payload(self, streams: tuple[int, int, int], calls: socket.socket) -> NoReturn:
        work, (workspace, temporary) = self._work, self._folders
        step = "streams"
        try:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            os.setsid()
            self._group.enter()
            variables = roles.environment(work, workspace, temporary)
            for number, descriptor in enumerate(streams):
                os.dup2(descriptor, number)
            # The only other descriptor that stays open.
            kernel.close_all_but({calls.fileno()})
            step = "walls"
            memory_counted, reserves = self._group.counts_memory, work.role == "javascript"
            self._jail.close(work.bounds, self._folders, network=work.network, total_memory=memory_counted, reserves=reserves)
            roles.execute(work, temporary, variables, calls)
        except OSError as error:
            os.write(2, f"the jail could not be closed ({step}): {error}\n".encode())
        finally:
            kernel.leave(roles.NOT_RUNNABLE_STATUS)

    def _watch(self) -> int:
        """Carries everything to and fro until the payload ends or must end; its status, as `wait` reports it."""
        payload, stdin, stdout, stderr, calls = self._start()
        ended = os.pidfd_open(payload)
        poll = select.poll()
        for descriptor in (self._control.fileno(), stdout, stderr, calls.fileno(), ended):
            poll.register(descriptor, select.POLLIN)
        poll.register(stdin, select.POLLOUT)
        open_streams = {stdout: 1, stderr: 2}
        while True:
            left = self._deadline - time.monotonic()
            if left <= 0:
                self._state.timed_out = True
                break
            ready = dict(poll.poll(left * 1000 + 1))
            if self._control.fileno() in ready:
                self._hear(ready[self._control.fileno()], calls, stdin, poll)
            if stdin in ready:
                self._feed(stdin, poll)
            if calls.fileno() in ready and not self._listen(calls):
                poll.unregister(calls)
            for descriptor in [number for number in open_streams if number in ready]:
                if not self._carry(descriptor, open_streams[descriptor]):
                    poll.unregister(descriptor)
                    del open_streams[descriptor]
            if self._state.truncated or ended in ready:
                break
        return self._finish(payload, open_streams, calls)

    def _finish(self, payload: int, streams: dict[int, int], calls: socket.socket) -> int:
        """Kills what is left, and carries what it had written."""
        if self._state.timed_out or self._state.truncated:
            os.kill(payload, signal.SIGKILL)
        _, status = os.waitpid(payload, 0)
        self._end_all()
        for descriptor, stream in streams.items():
            os.set_blocking(descriptor, False)
            while not self._state.truncated and self._carry(descriptor, stream):
                pass
        while self._listen(calls):
            pass
        return status

    def _hear(self, event: int, calls: socket.socket, stdin: int, poll: select.poll) -> None:
        """A message of the server. Its end is the end of the job: nobody is left to tell."""
        if event & (select.POLLHUP | select.POLLERR):
            os._exit(0)
        message, _ = frames.receive(self._control)
        match message:
            case Feed(data=data):
                if not self._state.feed and not self._state.fed:
                    poll.register(stdin, select.POLLOUT)
                self._state.feed += data
                self._state.fed = self._state.fed or not data
                if len(self._state.feed) > _FEED_MAX_BYTES:
                    # Only its end is heard until the payload has read.
                    poll.modify(self._control, 0)
            case HostAnswer():
                self._tell(calls, message)
            case _:
                raise FrameInvalid("a message that no job expects")

    def _feed(self, stdin: int, poll: select.poll) -> None:
        feed = self._state.feed
        try:
            while feed:
                del feed[: os.write(stdin, feed[:PIECE_BYTES])]
        except BlockingIOError:
            return
        except BrokenPipeError:
            feed.clear()
            self._state.fed = True
        poll.modify(self._control, select.POLLIN)
        poll.unregister(stdin)
        if self._state.fed:
            os.close(stdin)

    def _carry(self, descriptor: int, stream: int) -> bool:
        """Sends a piece of output to the server; False at its end."""
        try:
            data = os.read(descriptor, PIECE_BYTES)
        except BlockingIOError:
            return False
        if not data:
            return False
        room = self._work.bounds.output_bytes - self._state.written
        if not self._work.stream and len(data) > room:
            self._state.truncated = True
            data = data[:room]
        self._state.written += len(data)
        if data:
            frames.send(self._control, OutputPiece(stream=stream, data=data))
        return True

    def _listen(self, calls: socket.socket) -> bool:
        """Takes what the payload says on its own line: calls, or the value. False when it will say no more."""
        raw = self._state.raw
        try:
            piece = calls.recv(PIECE_BYTES, socket.MSG_DONTWAIT)
            raw += piece
            if self._work.role != "javascript":
                for message in self._messages(raw):
                    self._take(calls, message)
            return bool(piece) and len(raw) <= CALL_MAX_BYTES
        except (FrameInvalid, OSError):
            # Whatever it was, it was the payload's own doing.
            return False

    def _messages(self, raw: bytearray) -> Iterator[AnyMessage]:
        """The whole frames among the bytes that have come. The payload may stop in the middle of one for ever."""
        while len(raw) >= HEADER_BYTES:
            end = HEADER_BYTES + frames.length_of(bytes(raw[:HEADER_BYTES]), CALL_MAX_BYTES - HEADER_BYTES)
            if len(raw) < end:
                return
            message = frames.decode(raw[HEADER_BYTES:end])
            del raw[:end]
            yield message

    def _take(self, calls: socket.socket, message: AnyMessage) -> None:
        match message:
            case Asking(id=number) if self._state.calls >= self._work.bounds.calls:
                self._tell(calls, HostAnswer(id=number, error=f"more than {self._work.bounds.calls} calls"))
            case Asking():
                self._state.calls += 1
                frames.send(self._control, message)
            case Value(value=value, out_of_memory=out_of_memory):
                self._state.value = value or None
                self._state.out_of_memory = out_of_memory
            case _:
                raise FrameInvalid("a message that no payload may send")

    def _tell(self, calls: socket.socket, message: HostAnswer) -> None:
        # Not for ever: the payload may not read.
        calls.settimeout(max(0.001, self._deadline - time.monotonic()))
        try:
            frames.send(calls, message)
        except OSError:
            # It has closed its line, or is dead, or the time is over.
            pass

    def _end_orphaned(self, number: int, frame: object) -> NoReturn:
        """The launcher is dead: nobody else would end what the job has started."""
        self._end_all()
        os._exit(0)

    def _end_all(self) -> None:
        """Kills every process of the job but this one, and waits until each is gone."""
        until = time.monotonic() + _ENDING_SECONDS
        while time.monotonic() < until:
            if os.getpid() == 1 or (self._jail.kills_by_uid and os.getuid() == self._uid):
                # Every process that this one may kill: those of its process namespace, or of its uid, which is the job's alone.
                _kill(-1)
            else:
                for process in _descendants():
                    _kill(process)
            try:
                while os.waitpid(-1, os.WNOHANG)[0]:
                    pass
            except ChildProcessError:
                return
            select.select([], [], [], 0.001)


def _kill(process: int) -> None:
    try:
        os.kill(process, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        pass


def _descendants() -> list[int]:
    """Processes below this one. Orphans among them become its children, because it is their reaper."""
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat") as file:
                    parent = int(file.read().rpartition(")")[2].split()[1])
            except (OSError, IndexError, ValueError):
                continue
            children.setdefault(parent, []).append(int(name))
    found = list(children.get(os.getpid(), ()))
    for process in found:
        found += children.get(process, ())
    return found
