"""Echo — suppresses terminal echo during a chat, so that typed keys do not appear in an answer.

The prompt's editor shows its own input. Keys typed between two prompts are discarded: an unseen message must not be sent.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TextIO

if sys.platform != "win32":
    import termios

    @contextmanager
    def without_echo(stream: TextIO) -> Iterator[None]:
        """Turns echo off and restores it at the end. A stream that is not a terminal is unchanged.

        Ctrl-C no longer makes the terminal discard unread output: the answer to it could be written before that happens.
        """
        try:
            before = termios.tcgetattr(stream.fileno())
        except (OSError, termios.error):
            yield
            return
        quiet = before.copy()
        quiet[3] = quiet[3] & ~(termios.ECHO | termios.ECHONL) | termios.NOFLSH
        termios.tcsetattr(stream.fileno(), termios.TCSANOW, quiet)
        try:
            yield
        finally:
            with suppress(termios.error):
                # Fails only when the terminal is closed.
                termios.tcsetattr(stream.fileno(), termios.TCSADRAIN, before)

    def drop_typed(stream: TextIO) -> None:
        """Discards unread keys."""
        with suppress(OSError, termios.error):
            termios.tcflush(stream.fileno(), termios.TCIFLUSH)

else:

    @contextmanager
    def without_echo(stream: TextIO) -> Iterator[None]:
        """Does nothing: a Windows console echoes only while a line is read."""
        yield

    def drop_typed(stream: TextIO) -> None:
        """Does nothing: a Windows console keeps no keys."""
