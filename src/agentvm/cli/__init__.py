"""CLI — `avm`: one file per subcommand."""

import os
import shlex
import shutil
import sys


def program() -> str:
    """What the reader has to type for `avm`: as this process was started, or by its name where the shell finds the same one.

    Only what is printed here may say it: a remote client's reader has another shell.
    """
    started = sys.argv[0]
    if os.path.basename(started) not in ("avm", "avm.exe"):
        return "avm"
    found = shutil.which("avm")
    if found is not None and os.path.realpath(found) == os.path.realpath(started):
        return "avm"
    return shlex.quote(started)
