import subprocess
import sys

from agentvm.tiers import isolate_program
from agentvm.tiers.isolate_program import MODULES


def test_the_program_of_an_engine_is_never_imported_by_the_server() -> None:
    code = "import agentvm.tiers.isolate, sys; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not set(MODULES.values()) & set(loaded)
    assert "agentvm.tiers.isolate" in loaded


def test_it_ends_with_its_socket() -> None:
    command = [sys.executable, "-P", "-s", isolate_program.__file__, "/no/program", "99"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert "Bad file descriptor" in done.stderr
