"""Kernel — the system calls of a jail that Python does not offer. Every failure is an `OSError`.

Part of the launcher's process: standard library only.
"""

import ctypes
import os
import platform
import re
import select
import signal
import sys
import traceback
from collections.abc import Callable
from functools import cache
from typing import Any, NoReturn

MACHINE = platform.machine()
"""The architecture, as `uname -m` says it."""


RELEASE = tuple(int(part) for part in re.findall(r"\d+", platform.release())[:2])
"""The version of the kernel: (6, 12)."""


# Classes of plain integers: enumerations run code for each `|`, and every page that a job touches is copied for it.
class Namespace:
    """Flags of `clone` and `unshare`."""

    MOUNT = 0x00020000
    UTS = 0x04000000
    IPC = 0x08000000
    USER = 0x10000000
    PID = 0x20000000
    NET = 0x40000000


class MountFlag:
    """Flags of `mount`."""

    READ_ONLY = 1
    NO_SUID = 2
    NO_DEVICES = 4
    NO_EXEC = 8
    REMOUNT = 32
    BIND = 4096
    RECURSIVE = 16384
    PRIVATE = 1 << 18


class Prctl:
    """Options of `prctl`."""

    SET_PDEATHSIG = 1
    SET_DUMPABLE = 4
    SET_SUBREAPER = 36
    SET_NO_NEW_PRIVS = 38


class Call:
    """Numbers of system calls that are alike on every architecture."""

    MOUNT_SETATTR = 442
    LANDLOCK_CREATE_RULESET = 444
    LANDLOCK_ADD_RULE = 445
    LANDLOCK_RESTRICT_SELF = 446
    CLOSE_RANGE = 436


# Numbers that differ: x86_64, and the table that aarch64 shares with newer architectures.
_NUMBERS = {
    "x86_64": {"clone": 56, "pivot_root": 155, "seccomp": 317, "capset": 126},
    "aarch64": {"clone": 220, "pivot_root": 41, "seccomp": 277, "capset": 91},
}


class _Flag:
    AT_RECURSIVE = 0x8000
    DETACH = 2


class _MountAttributes(ctypes.Structure):
    _fields_ = (("set", ctypes.c_uint64), ("clear", ctypes.c_uint64), ("spread", ctypes.c_uint64), ("users", ctypes.c_uint64))


_ARGUMENTS_MAX = 6
_NICE_LEVEL = 10
"""A program of this priority gets a tenth of the time of an ordinary one beside it."""
_CHILD_ENDED = int(signal.SIGCHLD)
_CAPABILITIES_HEADER = (0x20080522).to_bytes(4, sys.byteorder) + bytes(4)
_NO_CAPABILITIES = bytes(24)


@cache
def _library() -> ctypes.CDLL:
    library = ctypes.CDLL(None, use_errno=True)
    library.syscall.argtypes = _SYSCALL
    library.prctl.argtypes = (ctypes.c_int, ctypes.c_ulong, ctypes.c_ulong, ctypes.c_ulong, ctypes.c_ulong)
    library.mount.argtypes = (ctypes.c_char_p, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_ulong, ctypes.c_char_p)
    return library


@cache
def _interpreter() -> Any:
    # Without letting go of the interpreter's lock: nobody else may run between a fork and its aftermath.
    python = ctypes.PyDLL(None, use_errno=True)
    python.syscall.argtypes = _SYSCALL
    for function in (python.PyOS_BeforeFork, python.PyOS_AfterFork_Child, python.PyOS_AfterFork_Parent):
        # Looked up here, once: each child would copy a hundred pages for it.
        function.restype = None
    return python


# Numbers and addresses alike, converted without an object for each: every page that a job touches is copied for it.
_SYSCALL: Any = (ctypes.c_long, *(ctypes.c_void_p for _ in range(_ARGUMENTS_MAX)))


def _checked(result: int, action: str) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{action}: {os.strerror(number)}")
    return result


def call(number: int, *arguments: Any, action: str) -> int:
    """A system call by its number, with integers and addresses."""
    return _checked(_library().syscall(number, *arguments, *(0,) * (_ARGUMENTS_MAX - len(arguments))), action)


def number_of(name: str) -> int:
    """The number of a system call on this machine; `OSError` on an architecture that has no table."""
    try:
        return _NUMBERS[MACHINE][name]
    except KeyError:
        raise OSError(f"no table of system calls for {MACHINE}") from None


def clone(namespaces: int) -> int:
    """Forks into new namespaces: 0 in the child, whose id is 1 if `PID` is among them."""
    python, number = _interpreter(), number_of("clone")
    flags = namespaces | _CHILD_ENDED
    python.PyOS_BeforeFork()
    child = python.syscall(number, flags, 0, 0, 0, 0, 0)
    if child == 0:
        python.PyOS_AfterFork_Child()
    else:
        python.PyOS_AfterFork_Parent()
    return _checked(child, "clone")


def unshare(namespaces: int) -> None:
    _checked(_library().unshare(namespaces), "unshare")


def mount(source: str | None, target: str, kind: str | None = None, flags: int = 0, options: str | None = None) -> None:
    names = [None if text is None else os.fsencode(text) for text in (source, target, kind, options)]
    _checked(_library().mount(*names[:3], flags, names[3]), f"mount {target}")


def unmount(target: str) -> None:
    """Removes a mount at once; its users keep it until they end."""
    _checked(_library().umount2(os.fsencode(target), ctypes.c_int(_Flag.DETACH)), f"umount {target}")


def make_read_only(target: str) -> None:
    """Makes a mount and all below it read-only, without set-uid programs and devices."""
    attributes = _MountAttributes(set=1 | 2 | 4)
    size = ctypes.sizeof(attributes)
    try:
        call(Call.MOUNT_SETATTR, -100, os.fsencode(target), _Flag.AT_RECURSIVE, ctypes.byref(attributes), size, action=target)
    except OSError:
        # Kernels before 5.12: the mount itself, which is all there is unless something is mounted below it.
        flags = MountFlag.REMOUNT | MountFlag.BIND | MountFlag.READ_ONLY | MountFlag.NO_SUID | MountFlag.NO_DEVICES
        mount(None, target, None, flags)


def pivot_root_here() -> None:
    """Makes the working directory, which is a mount, the root of this mount namespace, and lets go of the old root."""
    call(number_of("pivot_root"), b".", b".", action="pivot_root")
    unmount(".")
    os.chdir("/")


def prctl(option: int, value: int) -> None:
    _checked(_library().prctl(option, value, 0, 0, 0), "prctl")


def die_with_parent(by: signal.Signals = signal.SIGKILL, *, parent: int | None = None) -> None:
    """The kernel sends this signal when the parent ends. To be repeated after a change of uid, which revokes it.

    `parent`: a descriptor of its process. A parent that ended before sends nothing any more, so this process ends here.
    `getppid` would not tell: the first process of a namespace sees 0 either way.
    """
    prctl(Prctl.SET_PDEATHSIG, by)
    if parent is None:
        return
    # The kernel tells the children of a process and marks it as dead under one lock, which this call takes: from here on either
    # the signal is on its way or the descriptor shows the death. The leader of a session is refused, after the lock.
    _library().setpgid(0, 0)
    death = select.poll()
    death.register(parent, select.POLLIN)
    if death.poll(0):
        os._exit(0)


def step_back() -> None:
    """Lets all other programs of the machine go first: they get the processor, and keep their memory when there is none left.

    Without this a hundred busy processes of jobs would leave the server a hundredth of a processor.
    """
    os.nice(_NICE_LEVEL)
    try:
        score = os.open("/proc/self/oom_score_adj", os.O_WRONLY | os.O_CLOEXEC)
    except OSError:
        # This process sees no /proc.
        return
    try:
        os.write(score, b"1000")
    finally:
        os.close(score)


def drop_capabilities() -> None:
    """Drops every capability of this process permanently."""
    call(number_of("capset"), _CAPABILITIES_HEADER, _NO_CAPABILITIES, action="capset")


def close_all_but(descriptors: set[int]) -> None:
    """Closes every descriptor from 3 on that is not named."""
    begin = 3
    for descriptor in [*sorted(number for number in descriptors if number >= begin), None]:
        last = 2**31 - 1 if descriptor is None else descriptor - 1
        if begin <= last:
            _close_range(begin, last)
        begin = last + 2


def _close_range(first: int, last: int) -> None:
    try:
        call(Call.CLOSE_RANGE, first, last, 0, action="close_range")
    except OSError:
        os.closerange(first, min(last, os.sysconf("SC_OPEN_MAX")) + 1)


def can(attempt: Callable[[], object]) -> bool:
    """Whether an attempt works, tried in a child of this process, which it cannot harm."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            attempt()
            status = 0
        except OSError:
            pass
        finally:
            os._exit(status)
    return os.waitpid(child, 0)[1] == 0


def leave(status: int) -> NoReturn:
    """Ends this process at once, without the exits of the one it was forked from. An error on its way is shown first."""
    error = sys.exc_info()[1]
    if error is not None:
        traceback.print_exception(error)
        sys.stderr.flush()
    os._exit(status)
