"""Echo — keys that are pressed while an answer is written do not appear in it.

The terminal echoes nothing for as long as a chat runs; the editor of the prompt shows what is typed there itself. Keys from
between two prompts are dropped: a message that nobody saw being written must not be sent.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TextIO

if sys.platform != "win32":
    import termios

    @contextmanager
    def without_echo(stream: TextIO) -> Iterator[None]:
        """Echo is off, and on again at the end, whatever happens. A stream that is no terminal is left alone."""
        try:
            before = termios.tcgetattr(stream.fileno())
        except (OSError, termios.error):
            yield
            return
        quiet = before.copy()
        quiet[3] &= ~(termios.ECHO | termios.ECHONL)
        termios.tcsetattr(stream.fileno(), termios.TCSANOW, quiet)
        try:
            yield
        finally:
            with suppress(termios.error):
                # Fails only when the terminal is gone.
                termios.tcsetattr(stream.fileno(), termios.TCSADRAIN, before)

    def drop_typed(stream: TextIO) -> None:
        """Forgets keys that nobody has read yet."""
        with suppress(OSError, termios.error):
            termios.tcflush(stream.fileno(), termios.TCIFLUSH)

else:

    @contextmanager
    def without_echo(stream: TextIO) -> Iterator[None]:
        """A Windows console echoes only while somebody reads a line."""
        yield

    def drop_typed(stream: TextIO) -> None:
        """Nothing is kept there."""
