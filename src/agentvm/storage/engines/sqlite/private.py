"""Private — files that only their owner can read, independent of directory and umask.

The conversations of all users are in them. The data directory may have been there before, with a mode that lets others in: a
volume, or one that was made by hand.
"""

import os
import stat
from pathlib import Path

from agentvm.log import get_logger

logger = get_logger(__name__)

PRIVATE_MODE = 0o600
_OTHERS_MODE = 0o077


def make_private(path: Path) -> None:
    """Creates the file if it does not exist, or removes the permissions of others from an existing one."""
    if os.name != "posix":
        return
    try:
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, PRIVATE_MODE))
    except FileExistsError:
        restrict_to_owner(path)
    except OSError:
        # Whoever opens it next says what is wrong, in their own words.
        return


def restrict_to_owner(path: Path) -> None:
    """By name and not by an open file: closing a second one would drop the locks that SQLite holds."""
    if os.name != "posix":
        return
    try:
        if stat.S_IMODE(path.stat().st_mode) & _OTHERS_MODE:
            path.chmod(PRIVATE_MODE)
            logger.warning("file_was_open_to_others", path=str(path), remedy="it is for its owner alone now")
    except FileNotFoundError:
        return
    except OSError as error:
        logger.warning("file_is_open_to_others", path=str(path), error=str(error), remedy=f"chmod 600 {path}")


def is_open_to_others(directory: Path) -> bool:
    """Whether other users of the machine may enter the directory, or list it."""
    return os.name == "posix" and bool(stat.S_IMODE(directory.stat().st_mode) & _OTHERS_MODE)
