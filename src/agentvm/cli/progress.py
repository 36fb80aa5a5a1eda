"""Progress — a progress line on stderr; silent unless stderr is a terminal."""

import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from typing import BinaryIO

import click

SHOWN_AFTER_SECONDS = 0.3
"""Shorter operations show no line."""
TICK_SECONDS = 0.1
BAR_CHARACTERS = 24
BLOCK_BYTES = 1 << 16
_ERASE = "\r\x1b[K"
_UNITS = ("bytes", "kB", "MB", "GB", "TB")


class Progress:
    """Call it with a label, the amount done and the total, if known. `clear` removes the line.

    Amounts other than bytes are shown as a percentage only, and at once.
    """

    def __init__(self, *, live: bool, of_bytes: bool = True, clock: Callable[[], float] = time.monotonic) -> None:
        self._live = live
        self._of_bytes = of_bytes
        self._delay_seconds = SHOWN_AFTER_SECONDS if of_bytes else 0.0
        self._clock = clock
        self._label = ""
        self._started = self._updated = clock()
        self._shown = False

    def __call__(self, label: str, done: int, of: int | None) -> None:
        if not self._live:
            return
        now = self._clock()
        is_new = label != self._label
        if is_new:
            self._label, self._started = label, now
        if of is not None and done >= of:
            self.clear()
        elif now - self._started >= self._delay_seconds and (is_new or now - self._updated >= TICK_SECONDS):
            self._show(line(label, done, of, now - self._started if self._of_bytes else None), now)

    def wait(self, label: str) -> None:
        """Shows a label until the next call or the end."""
        if self._live and self._clock() - self._started >= SHOWN_AFTER_SECONDS:
            self._show(label, self._clock())

    def clear(self) -> None:
        if self._shown:
            click.echo(_ERASE, nl=False, err=True, color=True)
        self._shown = False

    def _show(self, text: str, now: float) -> None:
        # A full line would wrap and could not be erased.
        columns = shutil.get_terminal_size().columns - 1
        click.echo(f"{_ERASE}{text[:columns]}", nl=False, err=True, color=True)
        self._updated, self._shown = now, True


def at_terminal(*, quiet: bool = False, of_bytes: bool = True) -> Progress:
    """The progress of the running command; the line is removed at the end of the command."""
    progress = Progress(live=not quiet and sys.stderr.isatty(), of_bytes=of_bytes)
    context = click.get_current_context(silent=True)
    if context is not None:
        context.call_on_close(progress.clear)
    return progress


SILENT = Progress(live=False)


def read_blocks(source: BinaryIO, progress: Progress) -> Iterator[bytes]:
    """Yields a file block by block and reports the progress."""
    total, sent = _length(source), 0
    while block := source.read(BLOCK_BYTES):
        yield block
        sent += len(block)
        progress("Sending", sent, total)
    # The server may take a while to process it.
    progress.wait("Sent; waiting for the server")


def _length(source: BinaryIO) -> int | None:
    """The remaining bytes of a file; None for a stream."""
    try:
        return os.fstat(source.fileno()).st_size - source.tell()
    except (OSError, ValueError):
        return None


def line(label: str, done: int, of: int | None, seconds: float | None) -> str:
    """The progress line; without `seconds` only the percentage."""
    share = 0.0 if of is None else min(done / of, 1.0) if of else 1.0
    bar = f"{label}  [{'#' * int(share * BAR_CHARACTERS):<{BAR_CHARACTERS}}] {100 * share:3.0f} %"
    if seconds is None:
        return bar
    rate = f"{size(int(done / seconds))}/s" if seconds > 0 else ""
    if of is None:
        return f"{label}  {size(done)}  {rate}"
    return f"{bar}  {size(done)} of {size(of)}  {rate}"


def size(count: int) -> str:
    """A byte count in a readable unit."""
    number, unit = float(count), 0
    while number >= 1000 and unit < len(_UNITS) - 1:
        number, unit = number / 1000, unit + 1
    return f"{count:,} bytes" if unit == 0 else f"{number:.1f} {_UNITS[unit]}"
