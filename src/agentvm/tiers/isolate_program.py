"""Isolate program — the launcher of isolate workers: that of jails, with the interpreters loaded before it forks.

A worker then starts as quickly as any jail, and no package of the server has to be readable in it. Started by its path, as
`launcher_program.py` is.
"""

import importlib
import importlib.util
import os
import sys
from pathlib import Path

MODULES = {"shell-subset": "bashkit", "javascript": "_quickjs", "python-subset": "pydantic_monty"}
"""Engines with the module of each. `quickjs` itself would start a thread, which no fork survives."""


def main() -> None:
    """Serves the socket whose descriptor is the first argument; the second is the program of `python-subset`, if any."""
    for name in MODULES.values():
        if importlib.util.find_spec(name) is not None:
            importlib.import_module(name)
    folder = Path(__file__).resolve().parent
    sys.path.insert(0, str(folder))
    program = importlib.import_module("launcher_program")
    sys.path.pop(0)
    program.adopt_packages(folder.parent)
    if os.path.isfile(binary := sys.argv.pop(1)):
        mounts = importlib.import_module("agentvm.tiers.mounts")
        folders = mounts.python_folders()
        # Readable in a jail beside the interpreter of the server.
        vars(mounts)["python_folders"] = lambda: (*folders, binary)
    program.main()


if __name__ == "__main__":
    main()
