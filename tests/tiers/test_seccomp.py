"""The filter, run by a small machine of our own for every number, and by the kernel for a few."""

import errno
import os
import socket
import struct
import sys

import pytest

from agentvm.tiers import kernel, seccomp
from agentvm.tiers.seccomp import INTERNET, Allowed, assemble
from agentvm.tiers.syscalls import numbers

ALLOW, EPERM, ENOSYS, KILL = "allow", errno.EPERM, errno.ENOSYS, "kill"
AUDIT = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
MACHINES = ("x86_64", "aarch64")


def verdict(program: bytes, machine: str, number: int, *arguments: int) -> object:
    """Runs a filter as the kernel would."""
    data = struct.pack("=IIQ6Q", number, AUDIT.get(machine, 1), 0, *(*arguments, *([0] * (6 - len(arguments)))))
    steps = [struct.unpack_from("=HBBI", program, at) for at in range(0, len(program), 8)]
    at = value = 0
    while True:
        code, if_true, if_false, k = steps[at]
        at += 1
        match code:
            case 0x20:
                value = struct.unpack_from("=I", data, k)[0]
            case 0x15:
                at += if_true if value == k else if_false
            case 0x35:
                at += if_true if value >= k else if_false
            case 0x54:
                value &= k
            case 0x06:
                return {0x7FFF0000: ALLOW, 0x80000000: KILL}.get(k, k & 0xFFFF)
            case _:
                raise AssertionError(hex(code))


@pytest.mark.parametrize("machine", MACHINES)
def test_exactly_the_listed_calls_are_allowed(machine: str) -> None:
    program, table = assemble(Allowed(families=(socket.AF_UNIX,)), machine), numbers(machine)
    for name, number in table.items():
        argument = socket.AF_UNIX if name == "socket" else 0
        assert verdict(program, machine, number, argument) == ALLOW, name
    absent = {435, 425, 426, 427}
    for number in set(range(600)) - set(table.values()):
        newer = number > 450 or number in absent
        assert verdict(program, machine, number) == (ENOSYS if newer else EPERM), number
    assert verdict(program, machine, 0x40000000 | 1) == ENOSYS


@pytest.mark.parametrize("machine", MACHINES)
def test_arguments_decide_where_a_call_has_two_faces(machine: str) -> None:
    program, table = assemble(Allowed(families=(socket.AF_UNIX,), shared_memory=False), machine), numbers(machine)
    for flag in (0x20000, 0x2000000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000):
        assert verdict(program, machine, table["clone"], flag | 17) == EPERM
    assert verdict(program, machine, table["clone"], 0x3D0F00) == ALLOW
    assert verdict(program, machine, table["ioctl"], 0, 0x5412) == EPERM
    assert verdict(program, machine, table["ioctl"], 0, 0x5413) == ALLOW
    assert verdict(program, machine, table["socket"], socket.AF_INET) == EPERM
    assert verdict(program, machine, table["prlimit64"], 0) == ALLOW
    assert verdict(program, machine, table["prlimit64"], 1) == EPERM
    assert verdict(program, machine, table["mmap"], 0, 0, 0, 0x21) == EPERM
    assert verdict(program, machine, table["mmap"], 0, 0, 0, 0x22) == ALLOW
    assert verdict(program, machine, table["mmap"], 0, 0, 0, 0x01) == ALLOW
    assert verdict(program, machine, table["mknodat"], 0, 0, 0o10644) == ALLOW
    assert verdict(program, machine, table["mknodat"], 0, 0, 0o60644) == EPERM


@pytest.mark.parametrize("machine", MACHINES)
def test_the_internet_and_signals_are_choices(machine: str) -> None:
    table = numbers(machine)
    open_net = assemble(Allowed(families=INTERNET), machine)
    assert verdict(open_net, machine, table["socket"], socket.AF_INET6) == ALLOW
    assert verdict(open_net, machine, table["socket"], socket.AF_PACKET) == EPERM
    silent = assemble(Allowed(signals=False), machine)
    assert verdict(silent, machine, table["kill"]) == EPERM
    assert verdict(silent, machine, table["tgkill"]) == EPERM
    assert verdict(silent, machine, table["socketpair"]) == ALLOW


def test_calls_of_another_architecture_are_death() -> None:
    assert verdict(assemble(Allowed(), "x86_64"), "other", 0) == KILL


def test_an_architecture_without_a_table_has_no_filter() -> None:
    with pytest.raises(OSError, match="vax"):
        assemble(Allowed(), "vax")


def test_a_filter_is_no_longer_than_the_kernel_takes() -> None:
    assert len(assemble(Allowed(families=(socket.AF_UNIX, *INTERNET), shared_memory=False))) // 8 < 4096


@pytest.mark.skipif(sys.platform != "linux", reason="filters are Linux's")
def test_the_kernel_takes_the_filter_and_keeps_it() -> None:
    def attempt() -> None:
        kernel.prctl(kernel.Prctl.SET_NO_NEW_PRIVS, 1)
        seccomp.install(assemble(Allowed()))
        os.listdir("/")
        try:
            socket.socket()
        except PermissionError:
            return
        raise OSError("a socket was opened")

    assert kernel.can(attempt)


@pytest.mark.skipif(sys.platform != "linux", reason="filters are Linux's")
def test_hosts_that_forbid_something_can_be_played() -> None:
    def without_namespaces() -> None:
        kernel.prctl(kernel.Prctl.SET_NO_NEW_PRIVS, 1)
        seccomp.install(seccomp.deny_namespaces())
        os.fork() or os._exit(0)
        kernel.unshare(kernel.Namespace.USER)

    def without_chmod() -> None:
        kernel.prctl(kernel.Prctl.SET_NO_NEW_PRIVS, 1)
        seccomp.install(seccomp.deny({"sync": numbers(kernel.MACHINE)["sync"]}))
        os.getcwd()

    assert not kernel.can(without_namespaces)
    assert kernel.can(without_chmod)
