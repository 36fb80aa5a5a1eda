"""Processes that a test waits for without being their parent."""

import os
import sys

import anyio
import anyio.lowlevel


async def wait_ended(pid: int) -> None:
    """Returns when the process has ended, whether or not somebody has reaped it."""
    with anyio.fail_after(60):
        if sys.platform == "linux":
            await _wait_by_handle(pid)
        else:
            while _exists(pid):
                await anyio.lowlevel.checkpoint()


async def _wait_by_handle(pid: int) -> None:
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        await anyio.wait_readable(handle)
    finally:
        os.close(handle)


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
