import os
import subprocess
import sys

import pytest

from agentvm.tiers import kernel
from agentvm.tiers.kernel import MountFlag, Namespace, Prctl

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="jails need Linux")


def test_a_failed_call_says_what_failed() -> None:
    with pytest.raises(OSError, match=r"mount /nowhere: No such file") as failed:
        kernel.mount("none", "/nowhere", "tmpfs")
    assert failed.value.errno


def test_descriptors_are_closed_but_for_those_that_are_kept() -> None:
    def attempt() -> None:
        kept, closed = os.open("/dev/null", os.O_RDONLY), os.open("/dev/null", os.O_RDONLY)
        kernel.close_all_but({kept, 0})
        os.fstat(kept)
        try:
            os.fstat(closed)
        except OSError:
            return
        raise OSError("still open")

    assert kernel.can(attempt)


def test_a_child_that_fails_is_seen_and_harms_nobody() -> None:
    def fail() -> None:
        os.chdir("/nowhere")

    here = os.getcwd()
    assert not kernel.can(fail)
    assert kernel.can(lambda: os.chdir("/"))
    assert os.getcwd() == here


def test_a_clone_is_a_child_with_a_number_of_its_own() -> None:
    def attempt() -> None:
        if os.getuid():
            kernel.unshare(Namespace.USER)
        child = kernel.clone(Namespace.PID)
        if child == 0:
            os._exit(0 if os.getpid() == 1 else 1)
        if os.waitpid(child, 0)[1]:
            raise OSError("not the first process")

    if not kernel.can(lambda: kernel.unshare(Namespace.USER if os.getuid() else Namespace.PID)):
        pytest.skip("this host forbids namespaces")
    assert kernel.can(attempt)


def test_capabilities_are_gone_for_good() -> None:
    def attempt() -> None:
        kernel.drop_capabilities()
        with open("/proc/self/status") as file:
            rows = dict(line.split(":", 1) for line in file)
        if any(int(rows[name], 16) for name in ("CapEff", "CapPrm", "CapInh")):
            raise OSError("something is left")

    assert kernel.can(attempt)


def test_a_process_whose_parent_is_dead_already_ends_instead_of_waiting_for_the_news() -> None:
    parent = subprocess.Popen(["sleep", "1000"])
    watch = os.pidfd_open(parent.pid)
    assert _status_of_child(watch) == 5
    parent.kill()
    parent.wait()
    assert _status_of_child(watch) == 0
    os.close(watch)


def _status_of_child(parent: int) -> int:
    child = os.fork()
    if child == 0:
        try:
            kernel.die_with_parent(parent=parent)
        finally:
            os._exit(5)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_options_of_a_process_are_set() -> None:
    def attempt() -> None:
        kernel.prctl(Prctl.SET_NO_NEW_PRIVS, 1)
        with open("/proc/self/status") as file:
            if "NoNewPrivs:\t1" not in file.read():
                raise OSError("not set")

    assert kernel.can(attempt)


def test_an_architecture_without_a_table_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel, "MACHINE", "vax")
    with pytest.raises(OSError, match="vax"):
        kernel.number_of("clone")


def test_a_read_only_mount_stays_so(tmp_path: os.PathLike[str]) -> None:
    def attempt() -> None:
        kernel.unshare(Namespace.MOUNT)
        kernel.mount("none", "/", None, MountFlag.RECURSIVE | MountFlag.PRIVATE)
        kernel.mount("tmpfs", str(tmp_path), "tmpfs")
        kernel.make_read_only(str(tmp_path))
        try:
            os.mkdir(f"{tmp_path}/x")
        except OSError:
            return
        raise OSError("writable")

    if os.getuid() or not kernel.can(lambda: kernel.unshare(Namespace.MOUNT)):
        pytest.skip("only root can have a mount namespace alone")
    assert kernel.can(attempt)
