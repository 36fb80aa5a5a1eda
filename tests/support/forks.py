"""Forks — starts programs of this repository without the second that their imports take.

`command("agentvm.cli.main", "status")` is a command line to run in place of `python -m agentvm.cli.main status`. Where a
test is about the start itself, or a system has no handles on processes, the program is started as everybody starts it.
"""

import atexit
import functools
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
CLIENT = Path(__file__).with_name("fork_client.py")

KILL = signal.SIGUSR1 if sys.platform == "linux" else signal.SIGKILL
"""Kills a program that was started by `command`: SIGKILL would only end what stands for it."""


@functools.cache
def _server(pid: int) -> str:
    """The socket of this process's fork server."""
    folder = tempfile.mkdtemp(prefix="forks-")
    path = f"{folder}/s"
    env = {**os.environ, "PYTHONPATH": os.pathsep.join((str(ROOT), str(ROOT / "src")))}
    command = [sys.executable, "-m", "tests.support.fork_server", path]
    server = subprocess.Popen(command, cwd=ROOT, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True)
    assert server.stdin is not None
    assert server.stdout is not None
    assert server.stdout.readline() == b"ready\n"
    server.stdout.close()

    def end() -> None:
        assert server.stdin is not None
        server.stdin.close()
        server.wait()
        shutil.rmtree(folder, ignore_errors=True)

    atexit.register(end)
    return path


def command(module: str, *arguments: str, terminal: bool = False) -> list[str]:
    """`terminal`: the input becomes the terminal of the program's own session, so that Ctrl-C typed into it is a signal."""
    if sys.platform != "linux":
        return [sys.executable, "-m", module, *arguments]
    flags = ["--terminal"] if terminal else []
    return [sys.executable, "-IS", str(CLIENT), _server(os.getpid()), *flags, module, *arguments]


def program_pid(pid: int) -> int:
    """The process id of the program that `pid` stands for."""
    try:
        return int(Path(f"{_server(os.getpid())}.{pid}").read_text())
    except FileNotFoundError:
        return pid
