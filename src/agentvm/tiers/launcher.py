"""Launcher — a small process that forks jails. It holds nothing worth reading: no settings, no keys, no files of the server.

The server starts it by the path of `launcher_program.py`, talks to it over one socket, and hands it the line and the streams of
each job. The launcher forks the job's process and reports when everything of the job is gone. It ends when the server does.

Part of the launcher's process: standard library and msgspec only.
"""

import gc
import importlib
import os
import select
import signal
import socket
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import NoReturn

from agentvm.tiers import frames, kernel, landlock, mounts, roles, seccomp
from agentvm.tiers.cgroup import PREFIX, Groups, JobGroup
from agentvm.tiers.cleanup_processes import CleanupProcesses
from agentvm.tiers.frames import Ended, Forget, FrameInvalid, Hello, HostReport, Kill, Start
from agentvm.tiers.jail import JOB_NAMESPACES, LIMITED, Jail, address_bytes, hard_limit, write_maps
from agentvm.tiers.job_process import JobPlace, become_job
from agentvm.tiers.kernel import Namespace, Prctl
from agentvm.tiers.scratch import is_littered, make_scratch, remove, sweep
from agentvm.tiers.uid_block import UidBlock, kill_all_of, owners

_CLEANUP_MAX = 10
_SWEPT_MAX = 1_000
"""Entries that this process removes by itself after a job."""
_CLEANUP_MS = 50
"""Pause before a control group is tried again whose last process was still being buried."""


@dataclass(slots=True)
class _Life:
    id: int
    process: int
    name: str
    uid: int | None
    group: JobGroup


def serve(server: socket.socket) -> NoReturn:
    """Serves until the server is gone."""
    kernel.die_with_parent()
    try:
        hello, _ = frames.receive(server)
        if isinstance(hello, Hello):
            jail, report, groups, uids = prepare(hello)
            launcher = Launcher(server, jail, groups, uids)
            try:
                frames.send(server, report)
                launcher.run()
            finally:
                launcher.close()
    except (EOFError, FrameInvalid, BrokenPipeError, ConnectionResetError):
        pass
    finally:
        # Its children have this process for a parent, and go with it.
        kernel.leave(0)


def prepare(hello: Hello) -> tuple[Jail, HostReport, Groups, UidBlock]:
    """Tries the walls of this machine, and moves into the root that jails will see."""
    os.environ.clear()
    # The server keeps its files to itself; jobs run as other users, and must be able to read the root that is built here.
    os.umask(0o022)
    kernel.prctl(Prctl.SET_SUBREAPER, 1)
    groups, newest = Groups.find(), landlock.newest_version()
    uids = UidBlock.find(hello.first_uid, hello.uids)
    own_uid = bool(uids.all) and kernel.can(lambda: os.setresuid(*[uids.all[-1]] * 3))
    filters = kernel.can(_try_filter)
    why = "" if hello.namespaces else "they are switched off"
    proc = False
    if hello.namespaces:
        why = why_no_namespaces()
    if not why:
        proc = _enter_root(hello.rootfs, hello.layers)
    mode = "none" if not filters else "namespaces" if not why else "landlock" if newest else "none"
    if mode == "landlock" and hello.rootfs is not None:
        mode, why = "none", f"tools.rootfs needs private mounts, and {why}"
    jail = Jail(
        namespaces=not why,
        proc=proc,
        landlock=newest,
        own_uid=own_uid,
        scratch=make_scratch() if mode == "landlock" else "",
        layers=bool(hello.layers),
        readable=tuple(path for path in mounts.readable_on_host() if os.path.exists(path)),
        address_bytes=address_bytes(),
    )
    _make_ready(jail, uids)
    if jail.scratch or groups.version != "none":
        # This process must live a moment longer than the server, to remove its folders and groups.
        kernel.prctl(Prctl.SET_PDEATHSIG, 0)
    report = HostReport(
        mode=mode,
        why=why,
        landlock=newest,
        seccomp=filters,
        proc=proc,
        own_uid=own_uid,
        cgroup=groups.version,
        scratch=jail.scratch,
        engines=_engines(),
    )
    roles.prepare()
    # Children then share this process's memory instead of copying it at the first collection.
    gc.collect()
    gc.freeze()
    gc.disable()
    return jail, report, groups, uids


def _make_ready(jail: Jail, uids: UidBlock) -> None:
    """Does the work that would cost each job time, and removes the remains of another launcher."""
    for kind in LIMITED:
        hard_limit(kind)
    for network in (False, True):
        for shared in (False, True):
            jail.filter(network=network, shared=shared)
    if not jail.scratch:
        return
    if jail.own_uid and not kernel.can(lambda: _read_library(uids.all[0])):
        # The interpreter lies where another uid cannot read, and there are no mounts to bring it nearer.
        for name in roles.COMMON_MODULES:
            importlib.import_module(name)
    for uid in owners().intersection(uids.all if jail.own_uid else ()):
        # It was killed together with the first processes of its jobs.
        kill_all_of(uid)


def _read_library(uid: int) -> None:
    os.setresuid(uid, uid, uid)
    os.listdir(os.path.dirname(os.__file__))


def _try_filter() -> None:
    kernel.prctl(Prctl.SET_NO_NEW_PRIVS, 1)
    seccomp.install(seccomp.assemble(seccomp.Allowed()))


def why_no_namespaces() -> str:
    """Empty if this process can have namespaces and mount within them; else the step that the host refuses.

    Some hosts let all users create a user namespace and then refuse every mount in it, so a mount is tried.
    """
    if not kernel.can(_own_namespaces):
        return "the host refuses new user and mount namespaces"
    if not kernel.can(_try_mount):
        return "the host refuses mounts in a user namespace"
    if not kernel.can(_try_job_namespaces):
        return "the host refuses new process and network namespaces"
    return ""


def _own_namespaces() -> None:
    uid, gid = os.getuid(), os.getgid()
    kernel.unshare(Namespace.MOUNT | Namespace.UTS | (Namespace.USER if uid else 0))
    if uid:
        write_maps(uid, gid)


def _try_mount() -> None:
    _own_namespaces()
    kernel.mount("none", "/", None, kernel.MountFlag.RECURSIVE | kernel.MountFlag.PRIVATE)
    site = next(folder for folder in mounts.SITES if os.path.isdir(folder))
    kernel.mount("tmpfs", site, "tmpfs", 0, "size=4096")


def _try_job_namespaces() -> None:
    _own_namespaces()
    child = kernel.clone(JOB_NAMESPACES | Namespace.USER)
    if child == 0:
        os._exit(0)
    if os.waitpid(child, 0)[1]:
        raise OSError("the child failed")


def _enter_root(rootfs: str | None, layers: str) -> bool:
    _own_namespaces()
    socket.sethostname("sandbox")
    shows_processes = mounts.move_into_root(rootfs, layers)
    return shows_processes and kernel.can(_try_proc)


def _try_proc() -> None:
    child = kernel.clone(JOB_NAMESPACES)
    if child == 0:
        status = 1
        try:
            mounts.mount_processes()
            status = 0
        except OSError:
            pass
        finally:
            os._exit(status)
    if os.waitpid(child, 0)[1]:
        raise OSError("/proc cannot be mounted")


def _engines() -> dict[str, str]:
    engines = {"python": "", "command": ""}
    for engine, program in (("shell", "/bin/sh"), ("javascript", "node")):
        if path := roles.find_program(program, roles.PATH):
            engines[engine] = path
    for folder in roles.PATH.split(":"):
        try:
            engines |= {f"binary:{name}": f"{folder}/{name}" for name in os.listdir(folder)}
        except OSError:
            continue
    return engines


class Launcher:
    """Forks jails, and reaps them."""

    def __init__(self, server: socket.socket, jail: Jail, groups: Groups, uids: UidBlock) -> None:
        self._server = server
        self._jail = jail
        self._groups = groups
        self._uids = uids
        self._lives: dict[int, _Life] = {}
        self._uncollected: dict[int, _Life] = {}
        self._cleanups = CleanupProcesses()
        self._unremoved: list[str] = []
        self._itself = os.pidfd_open(os.getpid())
        self._poll = select.poll()
        self._poll.register(server, select.POLLIN)

    def run(self) -> None:
        if self._jail.scratch and is_littered():
            self._sweep(sweep, lambda: None)
        while True:
            for descriptor, _ in self._poll.poll(_CLEANUP_MS if self._unremoved else None):
                if descriptor == self._server.fileno():
                    self._receive()
                elif descriptor in self._cleanups:
                    self._poll.unregister(descriptor)
                    self._cleanups.reap(descriptor)
                else:
                    self._bury(descriptor)
            if self._unremoved:
                self._unremoved = [name for name in self._unremoved if not self._groups.remove(name)]
            self._reap_strays()

    def close(self) -> None:
        """Ends all jobs, and removes their folders and groups. The kernel does the rest."""
        for life in self._lives.values():
            os.kill(life.process, signal.SIGKILL)
        for life in self._lives.values():
            os.waitpid(life.process, 0)
            self._kill_strays(life.uid)
        self._cleanups.close()
        if self._jail.scratch:
            remove(self._jail.scratch)
        names = [*self._unremoved, *(life.name for life in self._lives.values() if life.group.counts_memory)]
        for _ in range(_CLEANUP_MAX):
            names = [name for name in names if not self._groups.remove(name)]
            if not names:
                return
            select.select([], [], [], _CLEANUP_MS / 1000)

    def _receive(self) -> None:
        message, descriptors = frames.receive(self._server)
        match message:
            case Start() if len(descriptors) >= 3:
                self._start(message, descriptors)
            case Kill(id=number):
                for life in self._lives.values():
                    if life.id == number:
                        os.kill(life.process, signal.SIGKILL)
            case Forget(id=number):
                if number in self._uncollected:
                    self._clear(self._uncollected.pop(number))
            case _:
                raise FrameInvalid("a message that no launcher expects")

    def _start(self, start: Start, descriptors: list[int]) -> None:
        uid = self._uids.take() if self._jail.own_uid else None
        life = _Life(start.id, 0, f"{PREFIX}{os.getpid()}-{start.id}", uid, JobGroup())
        try:
            if self._jail.own_uid and uid is None:
                # Never without one: the job would keep the launcher's.
                raise OSError(f"{len(self._uids.all)} jobs run already, and each needs a uid")
            self._jail.make_folders(life.name, uid)
            if start.memory_bytes:
                life.group = self._groups.make(life.name, memory_bytes=start.memory_bytes, processes=start.processes)
            life.process = kernel.clone(JOB_NAMESPACES) if self._jail.namespaces else os.fork()
        except OSError as error:
            _refuse(descriptors, str(error))
            self._clear(life)
            frames.send(self._server, Ended(id=start.id, status=0))
            return
        if life.process == 0:
            become_job(descriptors, self._jail, JobPlace(life.name, uid, life.group, self._itself))
        for descriptor in descriptors:
            os.close(descriptor)
        watch = os.pidfd_open(life.process)
        self._lives[watch] = life
        self._poll.register(watch, select.POLLIN)

    def _bury(self, watch: int) -> None:
        life = self._lives.pop(watch)
        _, status, usage = os.wait4(life.process, 0)
        self._poll.unregister(watch)
        os.close(watch)
        self._kill_strays(life.uid)
        cpu_ms, rss = round((usage.ru_utime + usage.ru_stime) * 1000), usage.ru_maxrss * 1024
        spent = life.group.ran_out_of_memory()
        if self._jail.scratch:
            self._uncollected[life.id] = life
        else:
            self._clear(life)
        frames.send(self._server, Ended(id=life.id, status=status, cpu_ms=cpu_ms, max_rss_bytes=rss, out_of_memory=spent))

    def _clear(self, life: _Life) -> None:
        if self._jail.remove_folders(life.name, _SWEPT_MAX):
            self._release(life)
        else:
            self._sweep(partial(self._jail.remove_folders, life.name), partial(self._release, life))

    def _sweep(self, work: Callable[[], object], ended: Callable[[], None]) -> None:
        if (watch := self._cleanups.start(work, ended)) is not None:
            self._poll.register(watch, select.POLLIN)

    def _release(self, life: _Life) -> None:
        if life.group.counts_memory:
            life.group.close()
            if not self._groups.remove(life.name):
                self._unremoved.append(life.name)
        self._uids.give_back(life.uid)

    def _kill_strays(self, uid: int | None) -> None:
        """Without a process namespace: kills the processes that outlived the job's first one, by its uid or as orphans of
        ours."""
        if not self._jail.namespaces and uid is not None:
            kill_all_of(uid)
        self._reap_strays()

    def _reap_strays(self) -> None:
        """Orphans adopted by this process belong to no job: the process of each job is known."""
        if self._jail.namespaces:
            return
        processes = {life.process for life in self._lives.values()} | self._cleanups.processes
        while True:
            strays = [process for process in _children() if process not in processes]
            for process in strays:
                os.kill(process, signal.SIGKILL)
                os.waitpid(process, 0)
            if not strays:
                return


def _refuse(descriptors: list[int], why: str) -> None:
    """Tells the server that a job could not be forked."""
    line, *streams = descriptors
    for descriptor in streams:
        os.close(descriptor)
    with socket.socket(fileno=line) as connection:
        try:
            frames.send(connection, frames.Broken(step="fork", why=why))
        except OSError:
            # The job was cancelled meanwhile.
            pass


def _children() -> list[int]:
    """Processes whose parent is this one; a dead one that was not waited for is among them."""
    processes = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat") as file:
                    if int(file.read().rpartition(")")[2].split()[1]) == os.getpid():
                        processes.append(int(name))
            except (OSError, IndexError, ValueError):
                continue
    return processes
