"""A tool that never heeds its cancellation does not keep a server from ending."""

import subprocess
import sys


def test_a_server_ends_whatever_its_tools_do() -> None:
    command = (sys.executable, "-m", "tests.faults.stubborn_server")
    assert subprocess.run(command, check=True, capture_output=True, timeout=60).stdout == b"ended\n"
