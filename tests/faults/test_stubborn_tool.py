"""A tool that never heeds its cancellation does not keep a server from ending."""

import subprocess
import sys

from tests.faults.stubborn_server import SHUTDOWN_SECONDS

from agentvm.runtime.tool_task import CANCEL_SECONDS


def closing_seconds(stubborn: str) -> float:
    command = (sys.executable, "-m", "tests.faults.stubborn_server", stubborn)
    return float(subprocess.run(command, check=True, capture_output=True, timeout=30).stdout)


def test_a_server_ends_soon_after_its_time_whatever_its_tools_do() -> None:
    control = closing_seconds("no")
    assert control >= SHUTDOWN_SECONDS
    # Beside what the machine takes for the same without it: twice that, since it may be busy.
    assert closing_seconds("yes") < 2 * control + 4 * CANCEL_SECONDS
