"""Launcher host — starts the launcher when a jail is needed and ends it when none was for a while.

A life is one launcher process, owned by one task: begun by the first lease, over when it dies, when it was idle for long, or
when the host is left. A life that is over is never leased again; the next lease begins another. A running job is then lost,
and its caller gets an error: the jail ended with the launcher.
"""

import os
import socket
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from subprocess import DEVNULL, PIPE

import anyio
import anyio.abc
import anyio.to_thread

from agentvm.errors.tool import TierBroken
from agentvm.log import get_logger
from agentvm.sharing.process_life import ProcessLife
from agentvm.tiers.frames import Ended, Forget, FrameInvalid, Hello, HostReport, Kill, Start
from agentvm.tiers.link import FrameLink
from agentvm.tiers.scratch import remove

logger = get_logger(__name__)

IDLE_SECONDS = 300.0
START_SECONDS = 30.0
STOP_SECONDS = 2.0
REAP_SECONDS = 10.0
"""Time in which a killed job must have ended; after it the launcher is killed, and the job with it."""
PROGRAM = str(Path(__file__).with_name("launcher_program.py"))
# Some builds of Python find their own library only by this variable; the launcher forgets it at once.
_ENVIRONMENT = ("LD_LIBRARY_PATH",)
_FIXED = {
    # Sets have the same order in each run, also after a restart: a program that is run again makes the same calls.
    "PYTHONHASHSEED": "0",
    # Every symbol of a library is found at the start, and not by each job that calls it first.
    "LD_BIND_NOW": "1",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class LauncherSettings:
    """How jails are made here."""

    rootfs: str | None = None
    """A folder whose programs replace the host's."""
    first_uid: int = 1_600_000_000
    uids: int = 16_384
    """Uids of jobs, one each, when the server runs as root."""
    layers: str = ""
    """Folder with the packages of sandboxes; empty if there are none."""
    namespaces: bool = True
    idle_seconds: float = IDLE_SECONDS
    command: tuple[str, ...] = (sys.executable, "-P", "-s", PROGRAM)


class JailLink:
    """The server's ends of one jail: its line, its streams, and the word of the launcher about its end."""

    def __init__(self, life: "LauncherLife", number: int, *, has_stdin: bool) -> None:
        self._life = life
        self._number = number
        self._gone = anyio.Event()
        ours, theirs = socket.socketpair()
        self.line = FrameLink(ours)
        self.stdout, stdout = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self.stderr, stderr = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self.stdin: int | None = None
        self._theirs = [theirs.detach(), stdout, stderr]
        if has_stdin:
            stdin, self.stdin = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
            self._theirs.append(stdin)
        for descriptor in self._theirs[1:]:
            # Programs expect streams that wait.
            os.set_blocking(descriptor, True)
        self.ended: Ended | None = None
        """None while it runs, and when its launcher died with it."""

    @property
    def is_gone(self) -> bool:
        return self._gone.is_set()

    def end(self, ended: Ended | None = None) -> None:
        self.ended = ended
        self._gone.set()

    async def start(self, *, memory_bytes: int, processes: int) -> None:
        await self._life.send(Start(id=self._number, memory_bytes=memory_bytes, processes=processes), self._theirs)

    async def kill(self) -> None:
        """Ends the jail; `wait` tells when it is gone."""
        if not self.is_gone and not self._life.over:
            with suppress(TierBroken):
                await self._life.send(Kill(id=self._number))

    async def wait(self) -> Ended | None:
        """Waits until nothing of the jail is left; None if its launcher died with it."""
        await self._gone.wait()
        return self.ended

    def close_stdin(self) -> None:
        if self.stdin is not None:
            anyio.notify_closing(self.stdin)
            os.close(self.stdin)
            self.stdin = None

    def release(self) -> None:
        """Closes the jail's ends, which it has by now."""
        for descriptor in self._theirs:
            os.close(descriptor)
        self._theirs.clear()

    def close(self) -> None:
        self.release()
        self.line.close()
        self.close_stdin()
        for descriptor in (self.stdout, self.stderr):
            os.close(descriptor)


class LauncherLife(ProcessLife):
    """One launcher, from its start to its end."""

    def __init__(self) -> None:
        super().__init__()
        self.report: HostReport | None = None
        self.link: FrameLink | None = None
        self._numbers = count(1)
        self._jails: dict[int, JailLink] = {}
        self._sending = anyio.Lock(fast_acquire=True)

    def end(self) -> None:
        """No job is started any more, and those on their way are lost."""
        super().end()
        for jail in self._jails.values():
            if not jail.is_gone:
                jail.end()

    async def receive_reports(self) -> None:
        """Takes the launcher's reports until it is gone."""
        assert self.link is not None
        while True:
            try:
                message, _ = await self.link.receive()
            except (EOFError, FrameInvalid, OSError):
                self.end()
                return
            if isinstance(message, Ended) and (jail := self._jails.get(message.id)) is not None:
                jail.end(message)

    @asynccontextmanager
    async def job(self, *, has_stdin: bool, memory_bytes: int = 0, processes: int = 0) -> AsyncIterator[JailLink]:
        """A new jail. When the context is left, it is gone. `memory_bytes` are those of all its processes; 0 for no limit."""
        number = next(self._numbers)
        jail = self._jails[number] = JailLink(self, number, has_stdin=has_stdin)
        try:
            try:
                await jail.start(memory_bytes=memory_bytes, processes=processes)
            finally:
                jail.release()
            yield jail
        finally:
            with anyio.CancelScope(shield=True):
                await self._bury(number, jail)
            jail.close()

    async def send(self, message: Start | Kill | Forget, descriptors: Sequence[int] = ()) -> None:
        assert self.link is not None
        async with self._sending:
            try:
                await self.link.send(message, descriptors)
            except OSError:
                self.end()
                raise TierBroken("The launcher of sandboxes has ended; try again") from None

    async def _bury(self, number: int, jail: JailLink) -> None:
        await jail.kill()
        if not self.over:
            with anyio.move_on_after(REAP_SECONDS) as waiting:
                await jail.wait()
            if waiting.cancelled_caught:
                logger.error("jail_not_reaped", launcher=self.process_id)
                self.end()
        if self.report is not None and self.report.scratch and not self.over:
            with suppress(TierBroken):
                await self.send(Forget(id=number))
        del self._jails[number]


class LauncherHost:
    """Leases the launcher out to jobs."""

    def __init__(self, tasks: anyio.abc.TaskGroup, settings: LauncherSettings) -> None:
        self._tasks = tasks
        self._settings = settings
        self._life: LauncherLife | None = None

    @property
    def process_id(self) -> int | None:
        """Id of the launcher, if one is alive."""
        return None if self._life is None or self._life.over else self._life.process_id

    @asynccontextmanager
    async def lease(self) -> AsyncIterator[LauncherLife]:
        """Leases a launcher that has reported the walls of this machine. Starts one if there is none."""
        life = self._life
        if life is None or life.over:
            life = self._life = LauncherLife()
            self._tasks.start_soon(self._live, life)
        life.hold(1)
        try:
            await life.ready.wait()
            if life.report is None or life.over:
                raise TierBroken(f"The launcher of sandboxes could not be started: {life.failure}")
            yield life
        finally:
            life.hold(-1)

    async def _live(self, life: LauncherLife) -> None:
        ours, theirs = socket.socketpair()
        with FrameLink(ours) as link, theirs:
            life.link = link
            try:
                # A start that is cancelled half-way leaves the process behind.
                with anyio.CancelScope(shield=True):
                    process = await anyio.open_process(
                        (*self._settings.command, str(theirs.fileno())),
                        stdin=DEVNULL,
                        stdout=DEVNULL,
                        stderr=PIPE,
                        env={name: os.environ[name] for name in _ENVIRONMENT if name in os.environ} | _FIXED,
                        cwd="/",
                        pass_fds=(theirs.fileno(),),
                        start_new_session=True,
                    )
            except OSError as error:
                life.failure = f"its program cannot be started: {error.strerror}"
                life.end()
                return
            theirs.close()
            life.process_id = process.pid
            async with process:
                try:
                    async with anyio.create_task_group() as tasks:
                        tasks.start_soon(_watch, process, life)
                        await self._begin(life)
                        tasks.start_soon(life.receive_reports)
                        await life.wait_over(self._settings.idle_seconds)
                        tasks.cancel_scope.cancel()
                finally:
                    life.end()
                    # Without its socket it removes its folders and ends.
                    link.close()
                    with anyio.CancelScope(shield=True):
                        await _end(process, life)

    async def _begin(self, life: LauncherLife) -> None:
        assert life.link is not None
        settings = self._settings
        hello = Hello(
            server=os.getpid(),
            rootfs=settings.rootfs,
            first_uid=settings.first_uid,
            uids=settings.uids,
            layers=settings.layers,
            namespaces=settings.namespaces,
        )
        try:
            with anyio.fail_after(START_SECONDS):
                await life.link.send(hello)
                report, _ = await life.link.receive()
        except TimeoutError:
            life.failure = f"it did not answer within {START_SECONDS:g} s"
            life.end()
        except (EOFError, FrameInvalid, OSError):
            # Its last words are on stderr, which the watcher reads to the end.
            await life.ready.wait()
        else:
            if isinstance(report, HostReport):
                life.report = report
            life.ready.set()


async def _end(process: anyio.abc.Process, life: LauncherLife) -> None:
    with anyio.move_on_after(STOP_SECONDS):
        await process.wait()
    with suppress(ProcessLookupError):
        process.kill()
    if life.report is not None and life.report.scratch:
        # A launcher that was killed has left them.
        await anyio.to_thread.run_sync(remove, life.report.scratch)


async def _watch(process: anyio.abc.Process, life: LauncherLife) -> None:
    status, words = await life.watch(process)
    if words:
        logger.error("launcher_ended", status=status, error=words)


@asynccontextmanager
async def open_launcher_host(settings: LauncherSettings | None = None) -> AsyncIterator[LauncherHost]:
    """Yields a host whose launcher and jails are all gone when the context is left."""
    tasks = anyio.create_task_group()
    await tasks.__aenter__()
    try:
        yield LauncherHost(tasks, settings or LauncherSettings())
    finally:
        # Not `async with`: it would wrap the caller's exception in an exception group.
        tasks.cancel_scope.cancel()
        await tasks.__aexit__(None, None, None)
