"""Seccomp — the filter of system calls, assembled here from the allow-list. No library is needed.

A filter is a program for the kernel's own small machine (classic BPF). Ours loads the number of the call, walks through
ranges of allowed numbers, and looks at an argument only where a call is allowed in one form and not in another.

Part of the launcher's process: standard library only.
"""

import ctypes
import errno
import socket
import struct
from dataclasses import dataclass
from enum import IntEnum

from agentvm.tiers import kernel
from agentvm.tiers.syscalls import NEWEST, numbers

_AUDIT = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
"""The architecture as a filter sees it: a 32-bit call on a 64-bit kernel has other numbers."""


class _Verdict(IntEnum):
    ALLOW = 0x7FFF0000
    ERROR = 0x00050000
    KILL = 0x80000000


class _Step(IntEnum):
    """Instructions of the filter machine."""

    LOAD = 0x20
    EQUAL = 0x15
    AT_LEAST = 0x35
    AND = 0x54
    RETURN = 0x06


class _Mask(IntEnum):
    NAMESPACES = 0x7E020000
    SHARED_ANONYMOUS = 0x21
    FILE_TYPE = 0xF000


# Fake input of a terminal, and its Linux form.
_FORBIDDEN_IOCTLS = (0x5412, 0x541C)
# Answered with ENOSYS: the C library then uses a call that can be looked into, and programs do without.
_ABSENT = {"clone3": 435, "io_uring_setup": 425, "io_uring_enter": 426, "io_uring_register": 427}


@dataclass(frozen=True, slots=True, kw_only=True)
class Allowed:
    """The parts of the allow-list that depend on the job and on the other walls."""

    families: tuple[int, ...] = ()
    """Families of sockets. None without a network namespace, `AF_UNIX` within one, the internet with a proxy."""
    signals: bool = True
    """Whether signals can be sent. They cannot when nothing else keeps them from the server's processes."""
    shared_memory: bool = True
    """Whether memory can be shared without a file: it is in no limit but that of a control group or of addresses."""


# Calls that make a node of a file system, with the place of the argument that says of which type.
_NODES = {"mknod": 1, "mknodat": 2}
INTERNET = (socket.AF_INET, socket.AF_INET6)
_SIGNALLING = ("kill", "tkill", "tgkill", "rt_sigqueueinfo", "rt_tgsigqueueinfo", "pidfd_send_signal", "sched_setaffinity")


def _step(code: _Step, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("=HBBI", code, if_true, if_false, value)


def _refuse(number: int = errno.EPERM) -> bytes:
    return _step(_Step.RETURN, _Verdict.ERROR | number)


def _allow() -> bytes:
    return _step(_Step.RETURN, _Verdict.ALLOW)


def _argument(index: int) -> bytes:
    """Loads the lower half of an argument; every value that is looked at fits in it."""
    return _step(_Step.LOAD, 16 + 8 * index)


def _is(value: int, then: list[bytes]) -> list[bytes]:
    return [_step(_Step.EQUAL, value, 0, len(then)), *then]


def _any_bit(mask: int, then: list[bytes], otherwise: list[bytes]) -> list[bytes]:
    return [_step(_Step.AND, mask), _step(_Step.EQUAL, 0, 0, len(otherwise)), *otherwise, *then]


def _all_bits(mask: int, then: list[bytes], otherwise: list[bytes]) -> list[bytes]:
    return [_step(_Step.AND, mask), _step(_Step.EQUAL, mask, 0, len(then)), *then, *otherwise]


def _one_of(mask: int, values: tuple[int, ...]) -> list[bytes]:
    return [_step(_Step.AND, mask), *(step for value in values for step in _is(value, [_allow()])), _refuse()]


def _looked_into(allowed: Allowed) -> dict[str, list[bytes]]:
    """Calls whose arguments decide; each block ends with a verdict."""
    forbidden = [step for number in _FORBIDDEN_IOCTLS for step in _is(number, [_refuse()])]
    families = [step for family in allowed.families for step in _is(int(family), [_allow()])]
    blocks = {
        "clone": [_argument(0), *_any_bit(_Mask.NAMESPACES, [_refuse()], [_allow()])],
        "ioctl": [_argument(1), *forbidden, _allow()],
        "socket": [_argument(0), *families, _refuse()],
        # Named pipes, but no devices.
        **{name: [_argument(index), *_one_of(_Mask.FILE_TYPE, (0x1000, 0x8000, 0))] for name, index in _NODES.items()},
        # The signal at the death of the launcher is what ends a job whose server was killed.
        "prctl": [_argument(0), *_is(kernel.Prctl.SET_PDEATHSIG, [_refuse()]), _allow()],
        # Limits of this process only, not of another by its id.
        "prlimit64": [_argument(0), *_is(0, [_allow()]), _refuse()],
    }
    if not allowed.shared_memory:
        blocks["mmap"] = [_argument(3), *_all_bits(_Mask.SHARED_ANONYMOUS, [_refuse()], [_allow()])]
    return blocks


def assemble(allowed: Allowed, machine: str = kernel.MACHINE) -> bytes:
    """The filter as the kernel wants it; `OSError` on an architecture that has no table."""
    table = numbers(machine)
    if not table:
        raise OSError(f"no table of system calls for {machine}")
    blocks = _looked_into(allowed)
    skipped = set(blocks) | (set() if allowed.signals else set(_SIGNALLING))
    steps = [_step(_Step.LOAD, 4), *_is_not(_AUDIT[machine], [_step(_Step.RETURN, _Verdict.KILL)]), _step(_Step.LOAD, 0)]
    for name, block in blocks.items():
        steps += _is(table[name], block) if name in table else []
    for number in _ABSENT.values():
        steps += _is(number, [_refuse(errno.ENOSYS)])
    for first, last in _ranges([number for name, number in table.items() if name not in skipped]):
        # At or above the first, and not above the last: allowed.
        steps += [_step(_Step.AT_LEAST, first, 0, 2), _step(_Step.AT_LEAST, last + 1, 1, 0), _allow()]
    # The calls of x32 have numbers of their own, far above, and are refused with the newer ones.
    steps += [_step(_Step.AT_LEAST, NEWEST[machine] + 1, 0, 1), _refuse(errno.ENOSYS), _refuse()]
    return b"".join(steps)


def _is_not(value: int, then: list[bytes]) -> list[bytes]:
    return [_step(_Step.EQUAL, value, len(then), 0), *then]


def _ranges(allowed: list[int]) -> list[tuple[int, int]]:
    ranges: list[tuple[int, int]] = []
    for number in sorted(allowed):
        if ranges and ranges[-1][1] == number - 1:
            ranges[-1] = (ranges[-1][0], number)
        else:
            ranges.append((number, number))
    return ranges


def deny(names: dict[str, int], machine: str = kernel.MACHINE) -> bytes:
    """A filter that refuses only these calls, as a host's own profile does; for tests of hosts that forbid system calls."""
    steps = [_step(_Step.LOAD, 4), *_is_not(_AUDIT[machine], [_allow()]), _step(_Step.LOAD, 0)]
    for number in names.values():
        steps += _is(number, [_refuse()])
    return b"".join([*steps, _allow()])


def deny_namespaces(machine: str = kernel.MACHINE, *, only_clone: bool = False) -> bytes:
    """A filter that refuses new namespaces, as Docker's default profile does; `only_clone` leaves `unshare`."""
    mask, unshare = _Mask.NAMESPACES, {"x86_64": 272, "aarch64": 97}[machine]
    block = [_argument(0), *_any_bit(mask, [_refuse()], [_allow()])]
    steps = [_step(_Step.LOAD, 4), *_is_not(_AUDIT[machine], [_allow()]), _step(_Step.LOAD, 0)]
    steps += [] if only_clone else _is(unshare, [_refuse()])
    return b"".join([*steps, *_is(kernel.number_of("clone"), block), _allow()])


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("steps", ctypes.c_void_p))


class Filter:
    """A filter that is ready to be put on a process: a job has nothing left to compute."""

    def __init__(self, program: bytes) -> None:
        self._steps = ctypes.create_string_buffer(program, len(program))
        self._program = _Program(len(program) // 8, ctypes.cast(self._steps, ctypes.c_void_p))
        self._reference = ctypes.byref(self._program)
        self._number = kernel.number_of("seccomp")

    def install(self) -> None:
        """Puts the filter on this process and all it starts, for ever. Needs `no_new_privs`."""
        kernel.call(self._number, 1, 0, self._reference, action="seccomp")


def install(program: bytes) -> None:
    Filter(program).install()
