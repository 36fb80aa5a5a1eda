"""Inline — the markup within a line of Markdown: strong, emphasis, code, links, escapes. Pure.

`parse` reads the front of a line that may still grow. It says what the front is as soon as nothing that follows can change it,
and None before that. What turns out not to be markup is text.
"""

import re
from dataclasses import dataclass

BOLD, DIM, ITALIC, LINK_STYLE, STRIKE, CODE = "1", "2", "3", "4", "9", "36"

SPAN_CHARS_MAX = 500
"""Markup that is not closed within so many characters is text: an answer must not be held back for it."""

_PLAIN = re.compile(r"[^\\`*_~\[]+")
_TICKS = re.compile(r"`+")
_LINK = re.compile(r"""\[([^\[\]]*)\]\(([^\s()]*(?:\([^\s()]*\)[^\s()]*)*)(?: +"[^"]*")?\)""")
_LINK_BEGUN = re.compile(r"""\[[^\[\]]*(?:\](?:\(\S*(?: +(?:"[^"]*"?)?)?)?)?""")
_PUNCTUATION = frozenset("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~")


@dataclass(frozen=True, slots=True)
class Run:
    """Text in one style: codes for a terminal, joined by `;`, or none."""

    text: str
    style: str


@dataclass(frozen=True, slots=True)
class Front:
    """The first `length` characters of a line, and how they look."""

    length: int
    runs: tuple[Run, ...]


def render(text: str, style: str = "", before: str = "") -> tuple[Run, ...]:
    """A whole text; `before` is the character that it follows."""
    runs: list[Run] = []
    while text:
        front = parse(text, style, before, final=True)
        assert front is not None, "a whole line can be parsed"
        runs += front.runs
        before, text = text[front.length - 1], text[front.length :]
    return tuple(runs)


def parse(text: str, style: str, before: str, *, final: bool) -> Front | None:
    """The front of a text that is not empty; None if it depends on what follows, which it never does when `final`."""
    final = final or len(text) > SPAN_CHARS_MAX
    match text[0]:
        case "\\":
            return _escaped(text, style, final)
        case "`":
            return _code(text, style, final)
        case "*" | "_" | "~":
            return _emphasis(text, style, before, final)
        case "[":
            return _link(text, style, final)
        case _:
            found = _PLAIN.match(text)
            return _literal(text, found.end() if found else 1, style)


def _literal(text: str, length: int, style: str) -> Front:
    return Front(length, (Run(text[:length], style),))


def _escaped(text: str, style: str, final: bool) -> Front | None:
    if len(text) == 1:
        return _literal(text, 1, style) if final else None
    if text[1] in _PUNCTUATION:
        return Front(2, (Run(text[1], style),))
    return _literal(text, 1, style)


def _code(text: str, style: str, final: bool) -> Front | None:
    opening = _run_at(text, 0)
    for found in _TICKS.finditer(text, opening):
        if found.end() == len(text) and not final:
            # The run of backticks may go on.
            return None
        if found.end() - found.start() == opening:
            code = text[opening : found.start()]
            if code.startswith(" ") and code.endswith(" ") and code.strip():
                code = code[1:-1]
            return Front(found.end(), (Run(code, _with(style, CODE)),))
    return _literal(text, opening, style) if final else None


def _emphasis(text: str, style: str, before: str, final: bool) -> Front | None:
    marker, opening = text[0], _run_at(text, 0)
    if opening == len(text):
        return _literal(text, opening, style) if final else None
    if not _opens(marker, opening, before, text[opening]):
        return _literal(text, opening, style)
    end = opening
    while (end := text.find(marker, end)) != -1:
        closing = _run_at(text, end)
        if end + closing == len(text) and not final:
            return None
        after = text[end + closing : end + closing + 1]
        inner = opening < closing == 3
        if (closing == opening or inner) and _closes(marker, text[end - 1], after):
            length = end + closing
            content = text[opening : length - opening]
            return Front(length, render(content, _with(style, _style_of(marker, opening)), marker))
        end += closing
    return _literal(text, opening, style) if final else None


def _opens(marker: str, length: int, before: str, after: str) -> bool:
    if after.isspace() or length > 3 or (marker == "~") != (length == 2 and marker == "~"):
        return False
    if marker == "_":
        return not before.isalnum()
    # As in 2*3*4: nobody stresses a number within a number.
    return not (marker == "*" and length == 1 and before.isdigit() and after.isdigit())


def _closes(marker: str, before: str, after: str) -> bool:
    return not before.isspace() and before != "\\" and not (marker == "_" and after.isalnum())


def _style_of(marker: str, length: int) -> str:
    if marker == "~":
        return STRIKE
    return {1: ITALIC, 2: BOLD}.get(length, f"{BOLD};{ITALIC}")


def _link(text: str, style: str, final: bool) -> Front | None:
    if found := _LINK.match(text):
        label, address = found[1], found[2]
        runs = render(label, _with(style, LINK_STYLE), "[")
        if address and address != label:
            runs = (*runs, Run(f" ({address})", _with(style, DIM)))
        return Front(found.end(), runs)
    if not final and _LINK_BEGUN.fullmatch(text):
        return None
    return _literal(text, 1, style)


def _run_at(text: str, start: int) -> int:
    """How often the character at `start` is repeated."""
    end = start
    while end < len(text) and text[end] == text[start]:
        end += 1
    return end - start


def _with(style: str, code: str) -> str:
    return code if not style else f"{style};{code}"
