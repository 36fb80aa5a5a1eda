"""The launcher's program with a pause in the process of each job, which lasts until the launcher is dead."""

import importlib
import os
import select
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from agentvm.tiers import launcher_program

STEPS = ("fork", "begin", "mount", "network", "capabilities", "files", "walls")
"""The moments of a start at which a job can pause: right after the fork, and after each step."""


def main() -> None:
    point = sys.argv[1]
    launcher_program.adopt_packages(Path(launcher_program.__file__).resolve().parent.parent)
    for name in [name for name in sys.modules if name.startswith("agentvm.tiers.")]:
        del sys.modules[name]
    launcher: Any = importlib.import_module("agentvm.tiers.launcher")
    become_job, job_process = launcher.become_job, importlib.import_module("agentvm.tiers.job_process")
    # The signal that was asked for after the fork is revoked after `capabilities`, and the next is not yet asked for.
    places = {
        "begin": (launcher.Jail, "begin"),
        "mount": (launcher.Jail, "mount"),
        "network": (launcher.Jail, "listen"),
        "capabilities": (launcher.kernel, "drop_capabilities"),
        "files": (job_process, "_place"),
        "walls": (launcher.Jail, "close"),
    }

    def become_paused_job(descriptors: list[int], jail: Any, place: Any) -> None:
        def pause() -> None:
            # Before the last walls it is moved to its place as stdout.
            os.write(1 if point == "walls" else descriptors[1], b"paused")
            select.select([place.launcher] if is_open(place.launcher) else [], [], [])

        if point == "fork":
            pause()
        else:
            owner, name = places[point]
            setattr(owner, name, pausing(getattr(owner, name), pause))
        become_job(descriptors, jail, place)

    launcher.become_job = become_paused_job
    launcher.serve(socket.socket(fileno=int(sys.argv[-1])))


def pausing(step: Callable[..., object], pause: Callable[[], None]) -> Callable[..., object]:
    def run(*given: object, **more: object) -> object:
        result = step(*given, **more)
        pause()
        return result

    return run


def is_open(descriptor: int) -> bool:
    try:
        os.fstat(descriptor)
    except OSError:
        return False
    return True


if __name__ == "__main__":
    main()
