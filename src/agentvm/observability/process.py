"""Process — what the operating system says of this process and its disk."""

import os
import resource
import shutil
import sys
from pathlib import Path


def rss_bytes() -> int:
    """Memory that the process holds now; where the system does not say, the most it ever held."""
    try:
        pages = int(Path("/proc/self/statm").read_text("ascii").split()[1])
    except (OSError, ValueError, IndexError):
        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return most if sys.platform == "darwin" else most * 1024
    return pages * os.sysconf("SC_PAGE_SIZE")


def open_files() -> int | None:
    """None where the system does not say."""
    for place in ("/proc/self/fd", "/dev/fd"):
        try:
            # One of them is the folder itself, which is open while it is read.
            return len(os.listdir(place)) - 1
        except OSError:
            continue
    return None


def size_of(path: Path | None) -> int:
    """Bytes of a file; none for one that is not there."""
    try:
        return 0 if path is None else path.stat().st_size
    except OSError:
        return 0


def free_bytes(folder: Path | None) -> int | None:
    """What is left of the disk for who is not root; None for no disk, or one that cannot be asked."""
    try:
        return None if folder is None else shutil.disk_usage(folder).free
    except OSError:
        return None
