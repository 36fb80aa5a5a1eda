"""Process — memory, open files and disk space of this process, as the operating system reports them."""

import os
import resource
import shutil
import sys
from pathlib import Path


def rss_bytes() -> int:
    """Returns the resident memory; where the system does not report it, the maximum so far."""
    try:
        pages = int(Path("/proc/self/statm").read_text("ascii").split()[1])
    except (OSError, ValueError, IndexError):
        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return most if sys.platform == "darwin" else most * 1024
    return pages * os.sysconf("SC_PAGE_SIZE")


def open_files() -> int | None:
    """Returns the number of open files; None where the system does not report it."""
    for place in ("/proc/self/fd", "/dev/fd"):
        try:
            # One of them is the folder itself, which is open while it is read.
            return len(os.listdir(place)) - 1
        except OSError:
            continue
    return None


def size_of(path: Path | None) -> int:
    """Returns the size of a file; 0 if it does not exist."""
    try:
        return 0 if path is None else path.stat().st_size
    except OSError:
        return 0


def free_bytes(folder: Path | None) -> int | None:
    """Returns the free disk space for users other than root; None without a disk, or if it cannot be read."""
    try:
        return None if folder is None else shutil.disk_usage(folder).free
    except OSError:
        return None
