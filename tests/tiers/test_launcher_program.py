import subprocess
import sys
from pathlib import Path

from agentvm.tiers import launcher_program

SOURCE = Path(launcher_program.__file__).resolve().parent.parent
CODE = f"""
import runpy, sys
program = runpy.run_path({launcher_program.__file__!r})
program["adopt_packages"](__import__("pathlib").Path({str(SOURCE)!r}))
import agentvm.tiers.launcher
print(*sorted(sys.modules))
"""


def test_the_launcher_loads_nothing_of_the_server() -> None:
    done = subprocess.run([sys.executable, "-I", "-c", CODE], capture_output=True, text=True, check=True, env={})
    loaded = set(done.stdout.split())
    ours = {name.removeprefix("agentvm.tiers.") for name in loaded if name.startswith("agentvm")}
    assert ours == {
        "agentvm", "agentvm.tiers", "cgroup", "cleanup_processes", "frames", "jail", "job_files", "job_process", "kernel",
        "landlock", "launcher", "mounts", "roles", "scratch", "seccomp", "syscalls", "uid_block",
    }  # fmt: skip
    foreign = {name.split(".")[0] for name in loaded} - set(sys.stdlib_module_names) - {"agentvm", "msgspec", "__main__"}
    assert {
        name for name in foreign if not name.startswith("_") and name not in ("sitecustomize", "typing_extensions")
    } == set()
    # Each makes every fork dearer.
    assert {"asyncio", "random", "subprocess", "ssl", "shutil", "threading"}.isdisjoint(loaded)


def test_the_program_ends_when_nobody_holds_the_other_end() -> None:
    code = "import socket, sys, runpy; a, b = socket.socketpair(); a.close(); sys.argv = ['x', str(b.detach())]; "
    code += f"runpy.run_path({launcher_program.__file__!r}, run_name='__main__')"
    done = subprocess.run([sys.executable, "-I", "-c", code], timeout=60, check=True, capture_output=True, env={})
    assert done.stderr == b""
