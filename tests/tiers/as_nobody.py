"""The launcher's program as an ordinary user, for tests that run as root: all is loaded, then the rights are given up."""

import importlib
import os
import socket
import sys
from pathlib import Path

from agentvm.tiers import launcher_program

NOBODY = 65_534


def main() -> None:
    source = Path(launcher_program.__file__).resolve().parent.parent
    launcher_program.adopt_packages(source)
    for name in [name for name in sys.modules if name.startswith("agentvm.tiers.")]:
        del sys.modules[name]
    launcher = importlib.import_module("agentvm.tiers.launcher")
    # The interpreter may lie where this user cannot read.
    importlib.import_module("shutil")
    os.setgroups([])
    os.setresgid(NOBODY, NOBODY, NOBODY)
    os.setresuid(NOBODY, NOBODY, NOBODY)
    launcher.kernel.prctl(launcher.kernel.Prctl.SET_DUMPABLE, 1)
    launcher.serve(socket.socket(fileno=int(sys.argv[-1])))


if __name__ == "__main__":
    main()
