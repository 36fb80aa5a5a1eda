"""Landlock — the kernel's own list of files that a process may touch, besides their permissions.

Part of the launcher's process: standard library only.
"""

import ctypes
import os
import stat
from collections.abc import Iterable

from agentvm.tiers import kernel


class _Right:
    EXECUTE = 1
    WRITE = 2
    READ = 4
    LIST = 8
    TRUNCATE = 1 << 14
    # Rights that make sense for a file; the others are for folders.
    OF_FILES = 1 | 2 | 4 | 1 << 14 | 1 << 15
    # All but the creation of devices.
    OF_WORKSPACE = 0xFFFF & ~(1 << 6) & ~(1 << 11)


_RIGHTS_BY_VERSION = {1: 0x1FFF, 2: 0x3FFF, 3: 0x7FFF, 4: 0x7FFF, 5: 0xFFFF}
SIGNALS_VERSION = 6
"""The version from which on signals to processes outside are refused."""
TCP_VERSION = 4
"""The version from which on ports are refused."""


class _Ruleset(ctypes.Structure):
    _fields_ = (("files", ctypes.c_uint64), ("network", ctypes.c_uint64), ("scoped", ctypes.c_uint64))


class _Beneath(ctypes.Structure):
    _pack_ = 1
    _fields_ = (("rights", ctypes.c_uint64), ("folder", ctypes.c_int32))


def newest_version() -> int:
    """The version of Landlock in this kernel; 0 without it."""
    try:
        return kernel.call(kernel.Call.LANDLOCK_CREATE_RULESET, None, 0, 1, action="landlock")
    except OSError:
        return 0


def restrict(readable: Iterable[str], changeable: Iterable[str], devices: Iterable[str], *, version: int, tcp: bool) -> None:
    """Closes everything to this process and all it starts but these paths, for ever. Needs `no_new_privs`.

    Without `tcp` no port can be bound or connected to. A path that does not exist is left out.
    """
    rights = _RIGHTS_BY_VERSION[min(version, max(_RIGHTS_BY_VERSION))]
    network = 3 if version >= TCP_VERSION and not tcp else 0
    handled = _Ruleset(rights, network, 3 if version >= SIGNALS_VERSION else 0)
    size = 24 if version >= SIGNALS_VERSION else 16 if version >= TCP_VERSION else 8
    ruleset = kernel.call(kernel.Call.LANDLOCK_CREATE_RULESET, ctypes.byref(handled), size, 0, action="landlock ruleset")
    for paths, allowed in (
        (readable, _Right.EXECUTE | _Right.READ | _Right.LIST),
        (changeable, _Right.OF_WORKSPACE),
        (devices, _Right.READ | _Right.WRITE | _Right.TRUNCATE),
    ):
        for path in paths:
            _add(ruleset, path, allowed & rights)
    kernel.call(kernel.Call.LANDLOCK_RESTRICT_SELF, ruleset, 0, action="landlock")
    os.close(ruleset)


def _add(ruleset: int, path: str, rights: int) -> None:
    try:
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return
    if not stat.S_ISDIR(os.fstat(descriptor).st_mode):
        rights &= _Right.OF_FILES
    rule = _Beneath(rights, descriptor)
    kernel.call(kernel.Call.LANDLOCK_ADD_RULE, ruleset, 1, ctypes.byref(rule), 0, action=f"landlock rule {path}")
    os.close(descriptor)
