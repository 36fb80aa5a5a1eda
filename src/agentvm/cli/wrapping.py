"""Wrapping — wraps streamed words to the width of the terminal.

A word is written when it is complete; each Chinese, Japanese or Korean character is a word. A word longer than a line is left
to the terminal, so that it can be copied in one piece.
"""

from collections.abc import Callable
from itertools import groupby
from operator import itemgetter

from wcwidth import wcwidth

_JOINER = "\u200d"
# A line never begins with closing nor ends with opening punctuation.
_CLOSING = frozenset("，。、；：？！）】」』》〉〕…—”’,.;:?!)]}")
_OPENING = frozenset("（【「『《〈〔“‘")


def width_of(text: str) -> int:
    """The terminal columns of a text; combining marks and joined emoji have none."""
    columns, before = 0, ""
    for char in text:
        columns += _columns(char, before)
        before = char
    return columns


def _columns(char: str, before: str) -> int:
    # Below U+0300 nothing is wide and nothing combines.
    return 1 if char < "\u0300" else 0 if before == _JOINER else max(wcwidth(char), 0)


def wrap(text: str, width: int, *, hanging: str = "") -> str:
    """Wraps a complete text; continuation lines start with `hanging`."""
    wrapper = Wrapper(lambda: width)
    for number, line in enumerate(text.split("\n")):
        if number:
            wrapper.new_line()
        lead = line[: len(line) - len(line.lstrip(" "))]
        wrapper.begin(lead, hanging or lead)
        wrapper.put(line[len(lead) :])
    wrapper.complete()
    return wrapper.take()


class Wrapper:
    """Wraps lines to `width()` columns, read for each line, since a window may be resized."""

    def __init__(self, width: Callable[[], int]) -> None:
        self._ask_width = width
        self._width = width()
        self._out: list[tuple[str, str]] = []
        self._hanging = ""
        self._hanging_style = ""
        self._column = 0
        self._gap = ""
        self._gap_style = ""
        self._word: list[tuple[str, str]] = []
        self._word_width = 0
        self._last = ""
        self._overflowing = False

    @property
    def at_line_start(self) -> bool:
        return self._column == 0 and not self._word

    def take(self) -> str:
        """Returns and clears the pending output."""
        written = "".join(f"\x1b[{style}m{text}\x1b[0m" if style else text for text, style in _merged(self._out))
        self._out.clear()
        return written

    def begin(self, prefix: str, hanging: str, style: str = "") -> None:
        """Begins a line with `prefix`; its continuation lines start with `hanging`."""
        self._hanging_style = style
        self._hanging = hanging if width_of(hanging) <= self._width // 2 else ""
        self.put_verbatim(prefix, style)

    def put(self, text: str, style: str = "") -> None:
        for char in text:
            self._put(char, style)

    def put_verbatim(self, text: str, style: str = "") -> None:
        """Adds text without wrapping."""
        self.complete()
        self._write(self._gap, self._gap_style)
        self._write(text, style)
        self._gap = ""

    def new_line(self) -> None:
        self.complete()
        self._break("")
        self._hanging = ""

    def forget_line(self) -> None:
        """Resets the state for a line that the caller ends."""
        self.complete()
        self._column, self._gap, self._last, self._hanging = 0, "", "", ""
        self._width = self._ask_width()

    def complete(self) -> None:
        """Writes the pending word."""
        self._overflowing = False
        if not self._word:
            return
        if self._column + len(self._gap) + self._word_width > self._width and self._column > width_of(self._hanging):
            self._break(self._hanging)
        elif self._gap:
            self._write(self._gap, self._gap_style)
        self._gap = ""
        self._write_word()

    def _put(self, char: str, style: str) -> None:
        if char in " \t":
            self.complete()
            self._gap += " "
            self._gap_style = style
            return
        columns = _columns(char, self._last)
        if self._word and columns > 0 and self._may_break(char, columns):
            self.complete()
        self._word.append((char, style))
        self._word_width += columns
        self._last = char
        if self._overflowing:
            self._write_word()
        elif self._word_width > self._width - len(self._hanging):
            self.complete()
            self._overflowing = True

    def _may_break(self, char: str, columns: int) -> bool:
        """Whether a line may break before the character: next to a wide one, except at punctuation."""
        wide = columns == 2 or _columns(self._last, "") == 2
        return wide and char not in _CLOSING and self._last not in _OPENING

    def _write_word(self) -> None:
        for text, style in _merged(self._word):
            self._write(text, style)
        self._word.clear()
        self._word_width = 0

    def _write(self, text: str, style: str) -> None:
        if text:
            self._out.append((text, style))
            self._column += width_of(text)
            if self._column > self._width:
                # The terminal wraps by itself.
                self._column = (self._column - 1) % self._width + 1

    def _break(self, prefix: str) -> None:
        self._out.append(("\n", ""))
        self._column, self._gap, self._last = 0, "", ""
        self._width = self._ask_width()
        self._write(prefix, self._hanging_style)


def _merged(runs: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """The runs, with neighbours of one style merged."""
    return [("".join(text for text, _ in group), style) for style, group in groupby(runs, key=itemgetter(1))]
