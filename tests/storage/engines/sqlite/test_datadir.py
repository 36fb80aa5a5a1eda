import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from agentvm.errors import ConfigInvalid, DataDirInUse
from agentvm.storage.engines.sqlite.datadir import lock_data_dir

HOLDER = """
import sys
from pathlib import Path

from agentvm.storage.engines.sqlite.datadir import lock_data_dir

with lock_data_dir(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


def hold_elsewhere(path: Path) -> "subprocess.Popen[str]":
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", HOLDER, str(path)]
    holder = subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    return holder


def test_the_directory_is_made_and_private(tmp_path: Path) -> None:
    with lock_data_dir(tmp_path / "new" / "data") as directory:
        assert directory == tmp_path / "new" / "data"
        assert directory.is_dir()
        if os.name == "posix":
            assert directory.stat().st_mode & 0o777 == 0o700


def test_a_tilde_is_the_home_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    with lock_data_dir(Path("~/data")) as directory:
        assert directory == tmp_path / "data"


def test_the_home_of_nobody_is_explained() -> None:
    with pytest.raises(ConfigInvalid), lock_data_dir(Path("~no-such-user-here/data")):
        pass


def test_a_second_server_is_told_who_holds_the_directory_and_what_to_do(tmp_path: Path) -> None:
    with hold_elsewhere(tmp_path) as holder:
        with pytest.raises(DataDirInUse) as caught, lock_data_dir(tmp_path):
            pass
        holder.communicate("")
    for part in (str(tmp_path), f"process {holder.pid}", "--data-dir"):
        assert part in str(caught.value)


def test_a_second_lock_in_the_same_process_is_refused_too(tmp_path: Path) -> None:
    with lock_data_dir(tmp_path), pytest.raises(DataDirInUse), lock_data_dir(tmp_path):
        pass


def test_a_directory_that_was_left_is_free(tmp_path: Path) -> None:
    for _ in range(2):
        with lock_data_dir(tmp_path):
            pass


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="no SIGKILL here")
def test_the_lock_of_a_dead_server_does_not_block(tmp_path: Path) -> None:
    with hold_elsewhere(tmp_path) as holder:
        holder.kill()
    assert holder.returncode == -signal.SIGKILL
    with lock_data_dir(tmp_path):
        assert (tmp_path / "agentvm.lock").read_text().strip() == str(os.getpid())


def test_a_holder_that_has_not_signed_yet_is_unknown(tmp_path: Path) -> None:
    with lock_data_dir(tmp_path):
        (tmp_path / "agentvm.lock").write_text("")
        with pytest.raises(DataDirInUse, match="process unknown"), lock_data_dir(tmp_path):
            pass


def test_a_file_is_no_data_directory(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ConfigInvalid, match="is a file"), lock_data_dir(tmp_path / "file"):
        pass


def test_a_directory_that_cannot_be_created_is_explained(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ConfigInvalid, match="cannot be created"), lock_data_dir(tmp_path / "file" / "data"):
        pass


def test_a_directory_that_cannot_be_written_is_explained(tmp_path: Path) -> None:
    if os.name == "posix" and os.geteuid() != 0:
        tmp_path.chmod(0o500)
    else:
        # Root may write anywhere, but not open a directory as if it were the lock.
        (tmp_path / "agentvm.lock").mkdir()
    with pytest.raises(ConfigInvalid, match="not writable"), lock_data_dir(tmp_path):
        pass
