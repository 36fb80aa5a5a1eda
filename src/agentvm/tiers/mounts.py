"""Mounts — the file system that a jail sees: programs and libraries of the host, read-only, and nothing else of it.

The launcher moves into this root once; each job gets a copy of it in a mount namespace of its own, with a private workspace on
top. The workspace is memory, so nothing stays on a disk.

Part of the launcher's process: standard library only.
"""

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from agentvm.tiers import kernel
from agentvm.tiers.job_files import JobFiles
from agentvm.tiers.kernel import MountFlag

WORKSPACE = "/workspace"
TEMPORARY = "/tmp"
PACKAGES = "/packages"
INPUTS = "/in"
SKILLS = "/skills"
_LAYERS = "/layers"
PROGRAMS = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
_SHARED_FILES = (
    "/etc/alternatives", "/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/localtime", "/etc/mime.types",
    "/etc/protocols", "/etc/services", "/etc/ssl/certs", "/etc/ssl/openssl.cnf", "/etc/pki/tls/certs",
)  # fmt: skip
_OWN_FILES = {
    "/etc/passwd": "sandbox:x:1000:1000::/workspace:/bin/sh\n",
    "/etc/group": "sandbox:x:1000:\n",
    "/etc/hosts": "127.0.0.1 localhost\n::1 localhost\n",
    "/etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\n",
}
DEVICES = ("/dev/full", "/dev/null", "/dev/random", "/dev/urandom", "/dev/zero")
_LINKS = {
    "/dev/fd": "/proc/self/fd", "/dev/stdin": "/proc/self/fd/0", "/dev/stdout": "/proc/self/fd/1",
    "/dev/stderr": "/proc/self/fd/2", "/dev/shm": "/tmp",
}  # fmt: skip
# A folder to build the new root on; it is covered in the launcher's own mount namespace only.
SITES = ("/tmp", "/run", "/mnt", "/var")
_PAGE_BYTES = 4_096
_ROOT_OPTIONS = "size=4m,nr_inodes=4096,mode=755"


def python_folders() -> tuple[str, ...]:
    """The folders of the interpreter and its standard library."""
    return tuple(dict.fromkeys(os.path.realpath(prefix) for prefix in (sys.base_prefix, sys.base_exec_prefix)))


def readable_on_host() -> tuple[str, ...]:
    """The paths that Landlock leaves readable where the host's own root is all there is."""
    return (*PROGRAMS, *_SHARED_FILES, *python_folders())


def move_into_root(rootfs: str | None, layers: str = "") -> bool:
    """Builds the root and moves this process into it. Needs a mount namespace of its own, and power over it.

    Programs come from `rootfs` if there is one, packages from `layers`. Returns whether processes can be shown under /proc.
    """
    kernel.mount("none", "/", None, MountFlag.RECURSIVE | MountFlag.PRIVATE)
    above = "" if rootfs is None else os.path.realpath(rootfs)
    sources = {path: above + path for path in (*PROGRAMS, *(_SHARED_FILES if rootfs is None else ("/etc",)), *DEVICES)}
    sources |= {path: path for path in (*DEVICES, *python_folders())} | ({_LAYERS: layers} if layers else {})
    # Opened before the site is covered: one of them may lie below it.
    opened = {path: os.open(source, os.O_PATH | os.O_CLOEXEC) for path, source in sources.items() if _is_bound(source)}
    links = {path: os.readlink(source) for path, source in sources.items() if os.path.islink(source) and path in PROGRAMS}
    host_proc = os.open("/proc", os.O_PATH | os.O_CLOEXEC)
    site = next(folder for folder in SITES if os.path.isdir(folder))
    kernel.mount("tmpfs", site, "tmpfs", MountFlag.NO_SUID | MountFlag.NO_DEVICES, _ROOT_OPTIONS)
    for path, descriptor in opened.items():
        _bind(descriptor, site + path)
    for path, target in {**links, **_LINKS}.items():
        _parent_of(site + path)
        os.symlink(target, site + path)
    for path, text in _OWN_FILES.items() if rootfs is None else ():
        _parent_of(site + path)
        Path(site + path).write_text(text)
    for path in (WORKSPACE, TEMPORARY, PACKAGES, INPUTS, SKILLS, "/proc"):
        # A folder of the interpreter may lie below one of them.
        os.makedirs(site + path, mode=0o755, exist_ok=True)
    shows_processes = _bind_proc(host_proc, site + "/proc")
    os.chdir(site)
    kernel.pivot_root_here()
    kernel.mount(None, "/", None, MountFlag.REMOUNT | MountFlag.BIND | MountFlag.READ_ONLY | MountFlag.NO_SUID)
    for descriptor in (*opened.values(), host_proc):
        os.close(descriptor)
    return shows_processes


def _is_bound(source: str) -> bool:
    """Whether a path is bound; links to programs are recreated, and a prefix that lies in /usr is there already."""
    return os.path.exists(source) and not (os.path.islink(source) and source.count("/") == 1)


def _parent_of(path: str) -> None:
    os.makedirs(os.path.dirname(path), mode=0o755, exist_ok=True)


def _bind(descriptor: int, target: str) -> None:
    if os.path.exists(target):
        return
    source = f"/proc/self/fd/{descriptor}"
    if os.path.isdir(source):
        os.makedirs(target, mode=0o755)
    else:
        _parent_of(target)
        os.close(os.open(target, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o644))
    kernel.mount(source, target, None, MountFlag.BIND | MountFlag.RECURSIVE)
    if not target.endswith(DEVICES):
        kernel.make_read_only(target)


def _bind_proc(descriptor: int, target: str) -> bool:
    """The kernel lets a jail mount /proc only where one is seen already; the jail's own covers it at once."""
    try:
        kernel.mount(f"/proc/self/fd/{descriptor}", target, None, MountFlag.BIND | MountFlag.RECURSIVE)
    except OSError:
        return False
    return True


def mount_workspace(disk_bytes: int, files: int, uid: int) -> None:
    """The private folders of one job. Their sizes are the kernel's to keep."""
    options = f"size={disk_bytes},nr_inodes={files},mode=700,uid={uid},gid={uid}"
    for folder in (WORKSPACE, TEMPORARY):
        kernel.mount("tmpfs", folder, "tmpfs", MountFlag.NO_SUID | MountFlag.NO_DEVICES, options)


def mount_inputs(folder: str, files: Mapping[str, bytes]) -> None:
    """The files that one job can read and not change."""
    inodes = 2 + sum(1 + path.count("/") for path in files)
    options = f"size={sum(map(len, files.values())) + _PAGE_BYTES * inodes},nr_inodes={inodes},mode=755"
    kernel.mount("tmpfs", folder, "tmpfs", MountFlag.NO_SUID | MountFlag.NO_DEVICES, options)
    with JobFiles.open(folder) as inputs:
        inputs.place(files, frozenset())
    kernel.make_read_only(folder)


def mount_layer(layer: str) -> None:
    """Shows the packages of one job, read-only as they are, and takes those of all others away."""
    if layer:
        kernel.mount(f"{_LAYERS}/{layer}", PACKAGES, None, MountFlag.BIND)
    kernel.unmount(_LAYERS)


def mount_processes() -> None:
    """Shows the processes of the jail, and nothing of the kernel's where it can be left out."""
    flags = MountFlag.NO_SUID | MountFlag.NO_DEVICES | MountFlag.NO_EXEC
    try:
        kernel.mount("proc", "/proc", "proc", flags, "subset=pid")
    except OSError:
        kernel.mount("proc", "/proc", "proc", flags)
