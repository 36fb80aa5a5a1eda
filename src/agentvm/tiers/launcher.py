"""Launcher — a small process that forks jails. It holds nothing worth reading: no settings, no keys, no files of the server.

The server starts it by the path of `launcher_program.py`, talks to it over one socket, and hands it one socket for each job.
The launcher forks the job's first process and reports when that is gone. It ends when the server does.

Part of the launcher's process: standard library and msgspec only.
"""

import gc
import importlib
import os
import select
import signal
import socket
from dataclasses import dataclass
from typing import NoReturn

from agentvm.tiers import frames, kernel, landlock, mounts, roles, seccomp
from agentvm.tiers.cgroup import Groups, JobGroup
from agentvm.tiers.frames import Ended, FrameInvalid, Hello, HostReport, Kill, Start
from agentvm.tiers.jail import JOB_NAMESPACES, Jail, address_bytes, write_maps
from agentvm.tiers.kernel import Namespace, Prctl
from agentvm.tiers.scratch import make_scratch, remove
from agentvm.tiers.supervisor import supervise
from agentvm.tiers.uid_block import UidBlock, kill_all_of, owners

_CLEANUP_MS = 50
"""Pause before a control group is tried again whose last process was still being buried."""


@dataclass(slots=True)
class _Life:
    id: int
    process: int
    name: str
    uid: int | None
    grouped: bool


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
    """Finds out what this machine allows, and moves into the root that jails will see."""
    for name in list(os.environ):
        del os.environ[name]
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
        proc = _enter_root(hello.rootfs)
    mode = "none" if not filters else "namespaces" if not why else "landlock" if newest else "none"
    if mode == "landlock" and hello.rootfs is not None:
        mode, why = "none", f"tools.rootfs needs private mounts, and {why}"
    jail = Jail(
        namespaces=not why,
        proc=proc,
        landlock=newest,
        own_uid=own_uid,
        scratch=make_scratch() if mode == "landlock" else "",
        readable=tuple(path for path in mounts.readable_on_host() if os.path.exists(path)),
        address_bytes=address_bytes(),
    )
    _make_ready(jail, uids)
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
    """Does beforehand what would cost each job time, and clears away what another launcher has left."""
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
    # This process must live a moment longer than the server, to remove its folders.
    kernel.prctl(Prctl.SET_PDEATHSIG, 0)


def _read_library(uid: int) -> None:
    os.setresuid(uid, uid, uid)
    os.listdir(os.path.dirname(os.__file__))


def _try_filter() -> None:
    kernel.prctl(Prctl.SET_NO_NEW_PRIVS, 1)
    seccomp.install(seccomp.assemble(seccomp.Allowed()))


def why_no_namespaces() -> str:
    """Empty if this process can have namespaces and mount within them; else the step that the host refuses.

    Some hosts let anybody create a user namespace and then refuse every mount in it, so a mount is tried.
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
    if uid == 0:
        kernel.unshare(Namespace.MOUNT)
        return
    kernel.unshare(Namespace.USER | Namespace.MOUNT)
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


def _enter_root(rootfs: str | None) -> bool:
    _own_namespaces()
    shows_processes = mounts.move_into_root(rootfs)
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
        self._unremoved: list[str] = []
        self._poll = select.poll()
        self._poll.register(server, select.POLLIN)

    def run(self) -> None:
        while True:
            for descriptor, _ in self._poll.poll(_CLEANUP_MS if self._unremoved else None):
                if descriptor == self._server.fileno():
                    self._hear()
                else:
                    self._bury(descriptor)
            self._unremoved = [name for name in self._unremoved if not self._groups.remove(name)]
            self._reap_strays()

    def close(self) -> None:
        """Where there are folders: ends all jobs and removes theirs. Elsewhere the kernel does both."""
        if self._jail.scratch:
            for life in self._lives.values():
                os.kill(life.process, signal.SIGKILL)
                os.waitpid(life.process, 0)
                self._kill_strays(life.uid)
            remove(self._jail.scratch)

    def _hear(self) -> None:
        message, descriptor = frames.receive(self._server)
        match message:
            case Start(id=number, grouped=grouped) if descriptor is not None:
                self._start(number, descriptor, grouped=grouped)
            case Kill(id=number):
                for life in self._lives.values():
                    if life.id == number:
                        os.kill(life.process, signal.SIGKILL)
            case _:
                raise FrameInvalid("a message that no launcher expects")

    def _start(self, number: int, descriptor: int, *, grouped: bool) -> None:
        name = f"agentvm-{os.getpid()}-{number}"
        control = socket.socket(fileno=descriptor)
        uid = self._uids.take() if self._jail.own_uid else None
        try:
            if self._jail.own_uid and uid is None:
                # Never without one: the job would keep the launcher's.
                raise OSError(f"{len(self._uids.all)} jobs run already, and each needs a uid")
            self._jail.make_folders(name, uid)
            group = self._groups.make(name) if grouped else JobGroup()
            process = kernel.clone(JOB_NAMESPACES) if self._jail.namespaces else os.fork()
        except OSError as error:
            with control:
                frames.send(control, frames.Broken(step="fork", why=str(error)))
            self._clear(name, uid, grouped=grouped)
            frames.send(self._server, Ended(id=number, status=0))
            return
        if process == 0:
            supervise(control, self._jail, name, uid, group)
        control.close()
        group.close()
        watch = os.pidfd_open(process)
        self._lives[watch] = _Life(number, process, name, uid, grouped)
        self._poll.register(watch, select.POLLIN)

    def _bury(self, watch: int) -> None:
        life = self._lives.pop(watch)
        _, status, usage = os.wait4(life.process, 0)
        self._poll.unregister(watch)
        os.close(watch)
        if not self._jail.namespaces:
            self._kill_strays(life.uid)
        self._clear(life.name, life.uid, grouped=life.grouped)
        cpu_ms, rss = round((usage.ru_utime + usage.ru_stime) * 1000), usage.ru_maxrss * 1024
        frames.send(self._server, Ended(id=life.id, status=status, cpu_ms=cpu_ms, max_rss_bytes=rss))

    def _clear(self, name: str, uid: int | None, *, grouped: bool) -> None:
        self._jail.remove_folders(name)
        if grouped and not self._groups.remove(name):
            self._unremoved.append(name)
        self._uids.give_back(uid)

    def _kill_strays(self, uid: int | None) -> None:
        """Without a process namespace: what outlived the job's first process, by its uid or as orphans of ours."""
        if uid is not None:
            kill_all_of(uid)
        self._reap_strays()

    def _reap_strays(self) -> None:
        """Orphans that came to this process are nobody's: the first process of each job is known."""
        known = {life.process for life in self._lives.values()}
        while not self._jail.namespaces:
            strays = [process for process in _children() if process not in known]
            for process in strays:
                os.kill(process, signal.SIGKILL)
                os.waitpid(process, 0)
            if not strays:
                return


def _children() -> list[int]:
    """Processes whose parent is this one; a dead one that was not waited for is among them."""
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat") as file:
                    if int(file.read().rpartition(")")[2].split()[1]) == os.getpid():
                        found.append(int(name))
            except (OSError, IndexError, ValueError):
                continue
    return found
