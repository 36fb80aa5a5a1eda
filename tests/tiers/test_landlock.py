import os
import sys
from pathlib import Path

import pytest

from agentvm.tiers import kernel, landlock

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="Landlock is Linux's")


@pytest.mark.parametrize("version", [1, 2, 3, 4, 5, 6])
def test_only_named_paths_are_left_in_every_version(tmp_path: Path, version: int) -> None:
    if landlock.newest_version() < version:
        pytest.skip(f"this kernel has version {landlock.newest_version()} of Landlock")
    (tmp_path / "read").mkdir()
    (tmp_path / "write").mkdir()
    (tmp_path / "read/file").write_text("r")
    (tmp_path / "other").write_text("o")

    def refused(path: Path, flags: int) -> bool:
        try:
            os.close(os.open(path, flags, 0o600))
        except PermissionError:
            return True
        return False

    def attempt() -> None:
        kernel.prctl(kernel.Prctl.SET_NO_NEW_PRIVS, 1)
        paths = [str(tmp_path / "read"), "/nowhere"], [str(tmp_path / "write")], ["/dev/null"]
        landlock.restrict(*paths, version=version, tcp=False)
        os.close(os.open(tmp_path / "read/file", os.O_RDONLY))
        (tmp_path / "write/new").write_text("n")
        os.close(os.open("/dev/null", os.O_WRONLY))
        if not all(
            (
                refused(tmp_path / "read/file", os.O_WRONLY),
                refused(tmp_path / "read/new", os.O_WRONLY | os.O_CREAT),
                refused(tmp_path / "other", os.O_RDONLY),
                refused(Path("/etc/hostname"), os.O_RDONLY) or not Path("/etc/hostname").exists(),
            )
        ):
            raise OSError("something is open")

    assert kernel.can(attempt)


def test_a_kernel_without_it_has_version_zero(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(*_: object, **__: object) -> int:
        raise OSError("no such call")

    monkeypatch.setattr(kernel, "call", absent)
    assert landlock.newest_version() == 0
