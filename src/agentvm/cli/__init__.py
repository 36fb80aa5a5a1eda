"""CLI — `avm`: one file per subcommand."""

import os
import shlex
import shutil
import sys


def program() -> str:
    """The command that starts `avm` in this shell: its name if it is on the path, else the path of this process.

    For messages of the CLI only: a remote client has another shell.
    """
    started = sys.argv[0]
    if os.path.basename(started) not in ("avm", "avm.exe"):
        return "avm"
    on_path = shutil.which("avm")
    if on_path is not None and os.path.realpath(on_path) == os.path.realpath(started):
        return "avm"
    return shlex.quote(started)
