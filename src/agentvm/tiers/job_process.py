"""Job process — the process of one job: builds the jail around itself, places the files, and becomes the program.

It is the first of its process namespace: when it goes, the kernel kills all other processes of the job. It goes when it is
done, when the server has it killed, and when the launcher is gone. Where the host forbids namespaces, a guard stays between the
launcher and the program and ends the rest; foreign code never runs in the guard.

Part of the launcher's process: standard library and msgspec only.
"""

import os
import select
import signal
import socket
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NoReturn

from agentvm.tiers import frames, kernel, roles
from agentvm.tiers.cgroup import JobGroup
from agentvm.tiers.frames import Begun, Broken, FrameInvalid, JobWork, Listening
from agentvm.tiers.jail import Jail
from agentvm.tiers.job_files import FOLDER_FLAGS, JobFiles

_ENDING_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class JobPlace:
    """The place of one job among those of its launcher."""

    name: str
    uid: int | None
    group: JobGroup
    launcher: int
    """A descriptor of the launcher's process, by which its death is seen."""


def become_job(descriptors: Sequence[int], jail: Jail, place: JobPlace) -> NoReturn:
    """Runs one job in this process, which the launcher has just forked, and ends it."""
    line, step = socket.socket(fileno=descriptors[0]), "descriptors"
    try:
        jail.begin({*descriptors, *place.group.entries}, place.launcher)
        work, _ = frames.receive(line)
        if isinstance(work, JobWork):
            step = "mounts"
            jail.mount(work.bounds, os.getuid() if place.uid is None else place.uid, work.layer)
            step = "files"
            jail.show_inputs(place.name, work.inputs, work.skills)
            if work.network:
                step = "network"
                with jail.listen() as listener:
                    frames.send(line, Listening(), [listener.fileno()])
            step = "uid"
            place.group.enter()
            jail.settle(place.uid, place.launcher)
            if not jail.namespaces:
                _guard(jail, place.uid)
            # An error of this step is the job's, which names its files; one of any other step is the machine's.
            step = "files"
            files = _place(work, *jail.folders(place.name))
            step = "walls"
            _run(line, descriptors[1:], jail, place, work, files)
    except OSError as error:
        # The server may be gone, and then nobody needs to know.
        _try_to_send(line, Broken(step=step, why=str(error)))
    except (EOFError, FrameInvalid):
        pass
    finally:
        kernel.leave(roles.NOT_RUNNABLE_STATUS)


def _try_to_send(line: socket.socket, message: Broken) -> None:
    try:
        frames.send(line, message)
    except OSError:
        pass


def _place(work: JobWork, workspace: str, temporary: str) -> JobFiles:
    """Places the files of the job; the workspace stays open, and is the working directory."""
    os.chdir(workspace)
    files = JobFiles(os.open(workspace, FOLDER_FLAGS))
    files.place(work.files, frozenset(work.executable))
    if script := roles.script_of(work):
        with JobFiles.open(temporary) as scripts:
            scripts.place(script, frozenset())
    return files


def _run(line: socket.socket, streams: Sequence[int], jail: Jail, place: JobPlace, work: JobWork, files: JobFiles) -> NoReturn:
    workspace, temporary = jail.folders(place.name)
    variables = roles.environment(work, workspace, temporary, *jail.input_folders(place.name))
    _take_streams(streams)
    memory_counted, reserves = place.group.counts_memory, work.role == "javascript"
    kernel.close_all_but({line.fileno(), files.folder})
    jail.close(work.bounds, place.name, network=work.network, total_memory=memory_counted, reserves=reserves)
    frames.send(line, Begun(placed=files.placed), [files.folder])
    os.close(files.folder)
    # The line is the only descriptor left besides the streams.
    roles.execute(work, temporary, variables, line)


def _take_streams(streams: Sequence[int]) -> None:
    stdout, stderr, *stdin = streams
    os.dup2(stdout, 1)
    os.dup2(stderr, 2)
    os.dup2(stdin[0] if stdin else os.open("/dev/null", os.O_RDONLY), 0)


def _guard(jail: Jail, uid: int | None) -> None:
    """Forks: returns in the program's process. The guard waits for it, ends its children, and exits with its status."""
    awaited = {signal.SIGTERM, signal.SIGCHLD}
    signal.pthread_sigmask(signal.SIG_BLOCK, awaited)
    guard = os.pidfd_open(os.getpid())
    program = os.fork()
    if program == 0:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, awaited)
        os.setsid()
        kernel.die_with_parent(parent=guard)
        os.close(guard)
        return
    kernel.close_all_but(set())
    while signal.sigwait(awaited) == signal.SIGCHLD:
        try:
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                if ended[0] == program:
                    _end_all(jail, uid)
                    _end_like(ended[1])
        except ChildProcessError:
            break
    # The launcher is dead: nobody else would end what the job has started.
    _end_all(jail, uid)
    os._exit(0)


def _end_like(status: int) -> NoReturn:
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        if number != signal.SIGKILL:
            signal.signal(number, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {number})
        os.kill(os.getpid(), number)
    os._exit(os.WEXITSTATUS(status))


def _end_all(jail: Jail, uid: int | None) -> None:
    """Kills every process of the job but this one, and waits until each is gone."""
    until = time.monotonic() + _ENDING_SECONDS
    while time.monotonic() < until:
        if jail.kills_by_uid and os.getuid() == uid:
            # Every process that this one may kill: those of its uid, which is the job's alone.
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
    processes = list(children.get(os.getpid(), ()))
    for process in processes:
        processes += children.get(process, ())
    return processes
