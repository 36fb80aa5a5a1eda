"""Wrapping — words put into lines of a terminal's width, as they come.

A word is written when it is complete; Chinese, Japanese and Korean characters are words of their own. A word that is longer
than a line is left to the terminal, so that it can be copied in one piece.
"""

from collections.abc import Callable
from itertools import groupby
from operator import itemgetter

from wcwidth import wcwidth

_JOINER = "\u200d"
# A line never begins with these, nor ends with those: they stay with their neighbour.
_CLOSING = frozenset("，。、；：？！）】」』》〉〕…—”’,.;:?!)]}")
_OPENING = frozenset("（【「『《〈〔“‘")


def width_of(text: str) -> int:
    """Columns that the text takes in a terminal; combining marks and joined emoji take none of their own."""
    columns, before = 0, ""
    for char in text:
        columns += _columns(char, before)
        before = char
    return columns


def _columns(char: str, before: str) -> int:
    # Below U+0300 nothing is wide and nothing combines.
    return 1 if char < "\u0300" else 0 if before == _JOINER else max(wcwidth(char), 0)


def wrap(text: str, width: int, *, hanging: str = "") -> str:
    """A whole text; what of a line does not fit goes on after `hanging`."""
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
    """Lines of at most `width()` columns, which is asked anew for each line: a window may have been resized."""

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
        """What is to be written now."""
        written = "".join(f"\x1b[{style}m{text}\x1b[0m" if style else text for text, style in _merged(self._out))
        self._out.clear()
        return written

    def begin(self, prefix: str, hanging: str, style: str = "") -> None:
        """Begins a line with `prefix`; what of it does not fit goes on after `hanging`."""
        self._hanging_style = style
        self._hanging = hanging if width_of(hanging) <= self._width // 2 else ""
        self.put_verbatim(prefix, style)

    def put(self, text: str, style: str = "") -> None:
        for char in text:
            self._put(char, style)

    def put_verbatim(self, text: str, style: str = "") -> None:
        """Text that is not wrapped."""
        self.complete()
        self._write(self._gap, self._gap_style)
        self._write(text, style)
        self._gap = ""

    def new_line(self) -> None:
        self.complete()
        self._break("")
        self._hanging = ""

    def forget_line(self) -> None:
        """For a line that somebody else ends."""
        self.complete()
        self._column, self._gap, self._last, self._hanging = 0, "", "", ""
        self._width = self._ask_width()

    def complete(self) -> None:
        """Writes the word that was begun."""
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
        """Whether a line may end between the last character and this one: beside a wide one, but for punctuation."""
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
                # The terminal goes on in its next line.
                self._column = (self._column - 1) % self._width + 1

    def _break(self, prefix: str) -> None:
        self._out.append(("\n", ""))
        self._column, self._gap, self._last = 0, "", ""
        self._width = self._ask_width()
        self._write(prefix, self._hanging_style)


def _merged(runs: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """The same, with neighbours of one style in one."""
    return [("".join(text for text, _ in group), style) for style, group in groupby(runs, key=itemgetter(1))]
