"""Launcher program — the file that the server runs, by its path, as the launcher's process.

The package `agentvm` would bring half of the server along, so its modules are found below empty packages of the same names:
only those that the launcher names itself are loaded.
"""

import importlib
import socket
import sys
import types
from pathlib import Path


def adopt_packages(source: Path) -> None:
    """Puts empty packages in the place of `agentvm` and `agentvm.tiers`."""
    for name, folder in (("agentvm", source), ("agentvm.tiers", source / "tiers")):
        package = types.ModuleType(name)
        package.__path__ = [str(folder)]
        sys.modules[name] = package


def main() -> None:
    """Serves the socket whose descriptor is the first argument."""
    adopt_packages(Path(__file__).resolve().parent.parent)
    importlib.import_module("agentvm.tiers.launcher").serve(socket.socket(fileno=int(sys.argv[1])))


if __name__ == "__main__":
    main()
