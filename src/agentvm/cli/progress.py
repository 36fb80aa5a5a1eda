"""Progress — one line on stderr that says how far something is, for a person at a terminal; silent for everybody else."""

import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from typing import BinaryIO

import click

SHOWN_AFTER_SECONDS = 0.3
"""What is done sooner needs no line."""
TICK_SECONDS = 0.1
BAR_CHARACTERS = 24
BLOCK_BYTES = 1 << 16
_ERASE = "\r\x1b[K"
_UNITS = ("bytes", "kB", "MB", "GB", "TB")


class Progress:
    """To be called with what is done, how much of it, and of how much if that is known. `clear` takes the line away.

    What is no count of bytes is shown as a share alone, and at once: a step may say nothing until it is done.
    """

    def __init__(self, *, live: bool, of_bytes: bool = True, clock: Callable[[], float] = time.monotonic) -> None:
        self._live = live
        self._of_bytes = of_bytes
        self._patience = SHOWN_AFTER_SECONDS if of_bytes else 0.0
        self._clock = clock
        self._what = ""
        self._began = self._told = clock()
        self._shown = False

    def __call__(self, what: str, done: int, of: int | None) -> None:
        if not self._live:
            return
        now = self._clock()
        is_new = what != self._what
        if is_new:
            self._what, self._began = what, now
        if of is not None and done >= of:
            self.clear()
        elif now - self._began >= self._patience and (is_new or now - self._told >= TICK_SECONDS):
            self._say(line(what, done, of, now - self._began if self._of_bytes else None), now)

    def wait(self, what: str) -> None:
        """Says what is waited for, until the next call or the end."""
        if self._live and self._clock() - self._began >= SHOWN_AFTER_SECONDS:
            self._say(what, self._clock())

    def clear(self) -> None:
        if self._shown:
            click.echo(_ERASE, nl=False, err=True, color=True)
        self._shown = False

    def _say(self, text: str, now: float) -> None:
        # One column less than there are: a full line would wrap, and could not be erased.
        columns = shutil.get_terminal_size().columns - 1
        click.echo(f"{_ERASE}{text[:columns]}", nl=False, err=True, color=True)
        self._told, self._shown = now, True


def at_terminal(*, quiet: bool = False, of_bytes: bool = True) -> Progress:
    """The progress of the running command; its line is gone before anything else is said."""
    progress = Progress(live=not quiet and sys.stderr.isatty(), of_bytes=of_bytes)
    context = click.get_current_context(silent=True)
    if context is not None:
        context.call_on_close(progress.clear)
    return progress


SILENT = Progress(live=False)


def read_blocks(source: BinaryIO, progress: Progress) -> Iterator[bytes]:
    """A file block by block, telling how far it is."""
    whole, sent = _length(source), 0
    while block := source.read(BLOCK_BYTES):
        yield block
        sent += len(block)
        progress("Sending", sent, whole)
    # What was sent may be a lot of work.
    progress.wait("All is sent; waiting for the server")


def _length(source: BinaryIO) -> int | None:
    """How much is left to read of a file; None for what is none."""
    try:
        return os.fstat(source.fileno()).st_size - source.tell()
    except (OSError, ValueError):
        return None


def line(what: str, done: int, of: int | None, seconds: float | None) -> str:
    """Without `seconds` the share alone."""
    share = 0.0 if of is None else min(done / of, 1.0) if of else 1.0
    bar = f"{what}  [{'#' * int(share * BAR_CHARACTERS):<{BAR_CHARACTERS}}] {100 * share:3.0f} %"
    if seconds is None:
        return bar
    rate = f"{size(int(done / seconds))}/s" if seconds > 0 else ""
    if of is None:
        return f"{what}  {size(done)}  {rate}"
    return f"{bar}  {size(done)} of {size(of)}  {rate}"


def size(count: int) -> str:
    """Bytes in the largest unit that leaves a whole number before the point."""
    number, unit = float(count), 0
    while number >= 1000 and unit < len(_UNITS) - 1:
        number, unit = number / 1000, unit + 1
    return f"{count:,} bytes" if unit == 0 else f"{number:.1f} {_UNITS[unit]}"
