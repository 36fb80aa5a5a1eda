"""Markdown — renders streamed answers in a terminal.

Text is processed character by character, so that the result does not depend on the deltas. Words are wrapped; code, tables and
line breaks are kept.
"""

import re
from collections.abc import Callable

from agentvm.cli.inline import BOLD, CODE, DIM, parse
from agentvm.cli.wrapping import Wrapper, width_of

TAB = "    "
QUOTE_BAR = "│ "
BULLET = "• "
RULE_COLUMNS_MAX = 40

_FENCE = re.compile(r"(`{3,}|~{3,})")
_HEADING = re.compile(r"#{1,6} ")
_RULE_BEGUN = re.compile(r"([-*_])(?: *\1)* *")
_ITEM = re.compile(r"(?:[-*+]|\d{1,9}[.)]) ")
# The start of a possible fence, heading, list item or quote.
_UNDECIDED = re.compile(r"`+[^`]*|~+.*|#{1,6}|[-*+_]|\d{1,9}[.)]?|>")


class Markdown:
    """Renders one text after another; `feed` and `finish` return the output.

    Without styles (NO_COLOR) inline markup is kept.
    """

    def __init__(self, width: Callable[[], int], *, styled: bool) -> None:
        self._lines = Wrapper(width)
        self._width = width
        self._styled = styled
        self._reset()

    @property
    def at_line_start(self) -> bool:
        """Returns whether the text so far ends with a complete line."""
        return self._lines.at_line_start and not self._pending

    def feed(self, text: str) -> str:
        for char in text:
            if char == "\n":
                self._end_line()
            else:
                self._pending += TAB if char == "\t" and not self._fence else char
                self._continue(final=False)
        return self._lines.take()

    def finish(self) -> str:
        """Ends the text without a line break, which the caller writes; the next `feed` starts a new text."""
        self._continue(final=True)
        self._lines.forget_line()
        self._reset()
        return self._lines.take()

    def _reset(self) -> None:
        self._pending = ""
        self._fence = ""
        self._start_line()

    def _start_line(self) -> None:
        self._continue: Callable[..., None] = self._begin
        self._prefix = ""
        self._style = ""
        self._before = ""

    def _end_line(self) -> None:
        self._continue(final=True)
        self._lines.new_line()
        self._start_line()

    # --- start of a line

    def _begin(self, *, final: bool) -> None:
        """Determines the kind of a line from its first characters."""
        if self._fence:
            self._begin_in_fence(final)
            return
        body = self._pending.lstrip(" ")
        lead = self._pending[: len(self._pending) - len(body)]
        if not final and (not body or _UNDECIDED.fullmatch(body) or _RULE_BEGUN.fullmatch(body)):
            return
        if body.startswith(">"):
            self._prefix += lead + QUOTE_BAR
            self._pending = body[1:].removeprefix(" ")
            self._begin(final=final)
        elif final and (fence := _FENCE.match(body)) and (body[0] == "~" or "`" not in body[fence.end() :]):
            self._fence = fence[1]
            self._whole_line(lead + body, DIM)
        elif final and _RULE_BEGUN.fullmatch(body) and len(body.replace(" ", "")) >= 3:
            self._whole_line("─" * min(self._width() - width_of(self._prefix), RULE_COLUMNS_MAX), DIM)
        elif body.startswith("|"):
            self._lines.begin(self._prefix, "")
            self._become(self._verbatim, lead + body, "", final)
        else:
            self._begin_text(lead, body, final)

    def _begin_text(self, lead: str, body: str, final: bool) -> None:
        indent, style = lead, ""
        marker = ""
        if heading := _HEADING.match(body):
            style = BOLD if self._styled else ""
            if self._styled:
                body = body[heading.end() :].lstrip(" ")
        elif item := _ITEM.match(body):
            marker = BULLET if body[0] in "-*+" else item[0]
            body = body[item.end() :]
            indent += " " * len(marker)
        bars = DIM if self._styled and self._prefix else ""
        if body or marker:
            self._lines.begin(self._prefix, self._prefix + indent, bars)
            self._lines.put_verbatim(lead + marker)
        elif self._prefix:
            self._lines.begin(self._prefix, "", bars)
        self._become(self._text, body, style, final)

    def _begin_in_fence(self, final: bool) -> None:
        mark = re.escape(self._fence[0])
        if not final:
            if not re.fullmatch(rf" {{0,3}}(?:{mark}+ *)?", self._pending):
                self._become(self._verbatim, self._pending, CODE, final)
        elif re.fullmatch(rf" {{0,3}}{mark}{{{len(self._fence)},}} *", self._pending):
            self._fence = ""
            self._whole_line(self._pending, DIM)
        else:
            self._become(self._verbatim, self._pending, CODE, final)

    def _whole_line(self, text: str, style: str) -> None:
        self._lines.begin(self._prefix, "", DIM if self._styled and self._prefix else "")
        self._become(self._verbatim, text, style, True)

    def _become(self, how: Callable[..., None], pending: str, style: str, final: bool) -> None:
        self._continue, self._pending = how, pending
        self._style = style if self._styled else ""
        self._continue(final=final)

    # --- rest of a line

    def _verbatim(self, *, final: bool) -> None:
        self._lines.put_verbatim(self._pending, self._style)
        self._pending = ""

    def _text(self, *, final: bool) -> None:
        if not self._styled:
            self._lines.put(self._pending)
            self._pending = ""
        while self._pending:
            front = parse(self._pending, self._style, self._before, final=final)
            if front is None:
                return
            self._before = self._pending[front.length - 1]
            self._pending = self._pending[front.length :]
            for run in front.runs:
                self._lines.put(run.text, run.style)
