"""Jail — the walls around one job, built from outside in: descriptors, uid, namespaces, mounts, limits, Landlock, seccomp.

A `Jail` is made once by the launcher and describes the walls that this machine allows. Its methods run in the job's own
process, in this order: `begin`, `mount`, `settle`, and `close` right before foreign code takes over. Every step either succeeds
or raises `OSError`, and then nothing is run: a wall is never left out.

Part of the launcher's process: standard library only.
"""

import fcntl
import os
import resource
import signal
import socket
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from agentvm.tiers import kernel, landlock, mounts, seccomp
from agentvm.tiers.frames import Bounds
from agentvm.tiers.job_files import JobFiles
from agentvm.tiers.kernel import Namespace, Prctl
from agentvm.tiers.scratch import remove

JOB_NAMESPACES = Namespace.MOUNT | Namespace.PID | Namespace.NET | Namespace.IPC
"""Namespaces of each job, besides that of its user. The name of the host is the launcher's, which no job can change."""
PROXY_PORT = 3128
JAILED_UID_MAX = 1000
"""The uid that a jailed program sees as its own."""
OPEN_FILES_MAX = 256
_PROXY_BACKLOG_MAX = 64
LIMITED = (
    resource.RLIMIT_CORE, resource.RLIMIT_CPU, resource.RLIMIT_FSIZE, resource.RLIMIT_MEMLOCK, resource.RLIMIT_NOFILE,
    resource.RLIMIT_NPROC, resource.RLIMIT_AS, resource.RLIMIT_DATA,
)  # fmt: skip
"""Limits that a job may have."""
COUNTED_APART_VERSION = (5, 14)
"""The kernel from which on processes are counted for each user namespace."""
# SIOCSIFFLAGS, and IFF_UP | IFF_RUNNING.
_SET_FLAGS = (0x8914, 0x41)


# Filters of this launcher by network and shared memory.
_FILTERS: dict[tuple[bool, bool], seccomp.Filter] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Jail:
    """The walls that this machine allows, and the folders of the launcher."""

    namespaces: bool
    proc: bool
    landlock: int
    own_uid: bool
    """Whether each job has a uid of its own, which only root can give."""
    scratch: str
    """Folder of the workspaces of jobs without private mounts."""
    readable: tuple[str, ...]
    """Paths that such a job may read."""
    layers: bool = False
    """Whether packages can be mounted."""
    address_bytes: int
    """Addresses that the interpreter has in use already, which are not the job's."""

    @property
    def counts_alone(self) -> bool:
        """Whether the kernel counts the processes of a job apart from others of the same user: by uid, or by user namespace."""
        return self.own_uid or (self.namespaces and kernel.RELEASE >= COUNTED_APART_VERSION)

    @property
    def end_signal(self) -> signal.Signals:
        """The signal for the process of a job when the launcher dies; without a process namespace it ends the others."""
        return signal.SIGKILL if self.namespaces else signal.SIGTERM

    @property
    def kills_by_uid(self) -> bool:
        return self.own_uid and not self.namespaces

    def folders(self, name: str) -> tuple[str, str]:
        """The workspace and the folder for temporary files."""
        if self.namespaces:
            return mounts.WORKSPACE, mounts.TEMPORARY
        return f"{self.scratch}/{name}/workspace", f"{self.scratch}/{name}/tmp"

    def input_folders(self, name: str) -> tuple[str, str]:
        """The folders of files that the job can read and not change: those of the message, and those of skills."""
        folders = mounts.INPUTS, mounts.SKILLS
        return folders if self.namespaces else (f"{self.scratch}/{name}{folders[0]}", f"{self.scratch}/{name}{folders[1]}")

    def make_folders(self, name: str, uid: int | None) -> None:
        """Where there are no private mounts: folders, which `remove_folders` takes away. Called by the launcher."""
        for folder in () if self.namespaces else (f"{self.scratch}/{name}", *self.folders(name)):
            os.mkdir(folder, 0o700)
            if uid is not None:
                os.chown(folder, uid, uid)

    def remove_folders(self, name: str, entries_max: int | None = None) -> bool:
        """Removes the folders of a job; False if there were more entries than `entries_max`, and some are left."""
        return self.namespaces or remove(f"{self.scratch}/{name}", entries_max)

    def begin(self, descriptors: set[int], launcher: int) -> None:
        """Cuts all ties to the launcher but the named descriptors; `launcher`, that of its process, tells when to end."""
        kernel.close_all_but({*descriptors, launcher})
        # A signal to its group never reaches the launcher's.
        os.setsid()
        kernel.die_with_parent(self.end_signal, parent=launcher)
        if not self.namespaces:
            kernel.prctl(Prctl.SET_SUBREAPER, 1)

    def mount(self, bounds: Bounds, uid: int, layer: str) -> None:
        if self.namespaces:
            mounts.mount_workspace(bounds.disk_bytes, bounds.files, uid)
            if self.layers:
                mounts.mount_layer(layer)
            if self.proc:
                mounts.mount_processes()

    def show_inputs(self, name: str, inputs: Mapping[str, bytes], skills: Mapping[str, bytes]) -> None:
        """Places files that the job cannot change; where there are no private mounts, only its last walls keep them."""
        for folder, files in zip(self.input_folders(name), (inputs, skills), strict=True):
            if files and self.namespaces:
                mounts.mount_inputs(folder, files)
            elif files:
                os.mkdir(folder, 0o755)
                with JobFiles.open(folder) as place:
                    place.place(files, frozenset())

    def listen(self) -> socket.socket:
        """A listener for the server's proxy, on the only network that the job has."""
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
            fcntl.ioctl(any_socket, _SET_FLAGS[0], struct.pack("16sH14s", b"lo", _SET_FLAGS[1], b""))
        listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        # The server is woken when there is something to read, and not before.
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_DEFER_ACCEPT, 1)
        listener.bind(("127.0.0.1", PROXY_PORT))
        listener.listen(_PROXY_BACKLOG_MAX)
        return listener

    def settle(self, uid: int | None, launcher: int) -> None:
        """Gives up all power over the namespaces: another uid, a user namespace without rights, no capabilities."""
        if uid is not None:
            os.setgroups([])
            os.setresgid(uid, uid, uid)
            os.setresuid(uid, uid, uid)
        kernel.prctl(Prctl.SET_NO_NEW_PRIVS, 1)
        if self.namespaces:
            _enter_user_namespace(mapped=self.proc)
        kernel.drop_capabilities()
        # Last: each change above revokes it.
        kernel.die_with_parent(self.end_signal, parent=launcher)

    def close(self, bounds: Bounds, name: str, *, network: bool, total_memory: bool, reserves: bool) -> None:
        """The last walls, around the payload of the named job alone.

        `total_memory`: a control group counts the memory. `reserves`: the engine reserves more addresses than it uses.
        """
        kernel.prctl(Prctl.SET_DUMPABLE, 1)
        kernel.step_back()
        _limit(
            bounds,
            # The guard, or all that its user has besides this one.
            others=int(not self.namespaces) if self.counts_alone else _processes_of(os.getuid()) - 1,
            used_bytes=self.address_bytes,
            total_memory=total_memory,
            reserves=reserves,
        )
        if self.landlock:
            # A private root holds nothing else, and its /dev no other device.
            alone = (*self.readable, *self.input_folders(name))
            readable, devices = (("/",), ("/dev",)) if self.namespaces else (alone, mounts.DEVICES)
            landlock.restrict(readable, self.folders(name), devices, version=self.landlock, tcp=network)
        self.filter(network=network, shared=total_memory or not reserves).install()

    def filter(self, *, network: bool, shared: bool) -> seccomp.Filter:
        """The filter of a job; the launcher asks for each once, so that jobs find it done."""
        cached = _FILTERS.get((network, shared))
        if cached is None:
            families = (socket.AF_UNIX, *(seccomp.INTERNET if network else ())) if self.namespaces else ()
            signals = self.namespaces or self.own_uid or self.landlock >= landlock.SIGNALS_VERSION
            allowed = seccomp.Allowed(families=families, signals=signals, shared_memory=shared)
            cached = _FILTERS[network, shared] = seccomp.Filter(seccomp.assemble(allowed))
        return cached


def _enter_user_namespace(*, mapped: bool) -> None:
    uid, gid = os.getuid(), os.getgid()
    kernel.unshare(Namespace.USER)
    if mapped:
        kernel.prctl(Prctl.SET_DUMPABLE, 1)
        write_maps(uid, gid)


def write_maps(uid: int, gid: int) -> None:
    """Maps one id of the outer user namespace to the uid that jailed programs see."""
    for name, text in (
        ("setgroups", "deny"),
        ("uid_map", f"{JAILED_UID_MAX} {uid} 1"),
        ("gid_map", f"{JAILED_UID_MAX} {gid} 1"),
    ):
        descriptor = os.open(f"/proc/self/{name}", os.O_WRONLY | os.O_CLOEXEC)
        os.write(descriptor, text.encode())
        os.close(descriptor)


def _limit(bounds: Bounds, *, others: int, used_bytes: int, total_memory: bool, reserves: bool) -> None:
    limits = {
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_CPU: bounds.cpu_seconds,
        resource.RLIMIT_FSIZE: bounds.disk_bytes,
        resource.RLIMIT_MEMLOCK: 0,
        resource.RLIMIT_NOFILE: OPEN_FILES_MAX,
        resource.RLIMIT_NPROC: bounds.processes + others,
    }
    if not total_memory:
        limits[resource.RLIMIT_DATA if reserves else resource.RLIMIT_AS] = bounds.memory_bytes + used_bytes
    for kind, value in limits.items():
        most = min(value, hard_limit(kind))
        resource.setrlimit(kind, (most, most))


@cache
def hard_limit(kind: int) -> int:
    """The launcher's own limit, which no job can raise; asked for once, before jobs are forked."""
    _, hard = resource.getrlimit(kind)
    return 2**63 - 1 if hard == resource.RLIM_INFINITY else hard


def address_bytes() -> int:
    """Addresses that this process has in use."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[0]) * resource.getpagesize()


def _processes_of(uid: int) -> int:
    """Processes and threads of a user that are there already."""
    count = 0
    for name in os.listdir("/proc"):
        try:
            if name.isdigit() and os.stat(f"/proc/{name}").st_uid == uid:
                count += len(os.listdir(f"/proc/{name}/task"))
        except OSError:
            continue
    return count
