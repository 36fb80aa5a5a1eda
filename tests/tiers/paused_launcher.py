"""The launcher's program with a pause in the process of each job, which lasts until the launcher is dead."""

import importlib
import os
import select
import socket
import sys
from pathlib import Path
from typing import Any

from agentvm.tiers import launcher_program


def main() -> None:
    point = sys.argv[1]
    launcher_program.adopt_packages(Path(launcher_program.__file__).resolve().parent.parent)
    for name in [name for name in sys.modules if name.startswith("agentvm.tiers.")]:
        del sys.modules[name]
    launcher: Any = importlib.import_module("agentvm.tiers.launcher")
    become_job, drop_capabilities = launcher.become_job, launcher.kernel.drop_capabilities

    def become_paused_job(descriptors: list[int], jail: Any, place: Any) -> None:
        def pause() -> None:
            os.write(descriptors[1], b"paused")
            select.select([place.launcher], [], [])

        def drop_capabilities_and_pause() -> None:
            drop_capabilities()
            pause()

        if point == "fork":
            pause()
        elif point == "settle":
            # The signal that was asked for after the fork is revoked by now, and the next is not yet asked for.
            launcher.kernel.drop_capabilities = drop_capabilities_and_pause
        become_job(descriptors, jail, place)

    launcher.become_job = become_paused_job
    launcher.serve(socket.socket(fileno=int(sys.argv[-1])))


if __name__ == "__main__":
    main()
