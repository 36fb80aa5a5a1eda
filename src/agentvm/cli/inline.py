"""Inline — the markup within a line of Markdown: strong, emphasis, code, links, escapes. Pure.

`parse` reads the start of a line that may still grow. It returns a segment as soon as no later text can change it, and None
before that. Unclosed markup is text.
"""

import re
from dataclasses import dataclass

BOLD, DIM, ITALIC, LINK_STYLE, STRIKE, CODE = "1", "2", "3", "4", "9", "36"

SPAN_CHARACTERS_MAX = 500
"""Longer unclosed markup is text, so that the answer is not delayed."""

_PLAIN = re.compile(r"[^\\`*_~\[]+")
_TICKS = re.compile(r"`+")
_LINK = re.compile(r"""\[([^\[\]]*)\]\(([^\s()]*(?:\([^\s()]*\)[^\s()]*)*)(?: +"[^"]*")?\)""")
_LINK_BEGUN = re.compile(r"""\[[^\[\]]*(?:\](?:\(\S*(?: +(?:"[^"]*"?)?)?)?)?""")
_PUNCTUATION = frozenset("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~")


@dataclass(frozen=True, slots=True)
class StyledText:
    """Text in one style: terminal codes joined by `;`, or empty."""

    text: str
    style: str


@dataclass(frozen=True, slots=True)
class Segment:
    """The first `length` characters of a line, rendered."""

    length: int
    runs: tuple[StyledText, ...]


def render(text: str, style: str = "", before: str = "") -> tuple[StyledText, ...]:
    """Renders a complete text; `before` is the preceding character."""
    runs: list[StyledText] = []
    while text:
        segment = parse(text, style, before, final=True)
        assert segment is not None, "a complete line can be parsed"
        runs += segment.runs
        before, text = text[segment.length - 1], text[segment.length :]
    return tuple(runs)


def parse(text: str, style: str, before: str, *, final: bool) -> Segment | None:
    """The first segment of a non-empty text; None if it depends on later text, never when `final`."""
    final = final or len(text) > SPAN_CHARACTERS_MAX
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
            plain = _PLAIN.match(text)
            return _literal(text, plain.end() if plain else 1, style)


def _literal(text: str, length: int, style: str) -> Segment:
    return Segment(length, (StyledText(text[:length], style),))


def _escaped(text: str, style: str, final: bool) -> Segment | None:
    if len(text) == 1:
        return _literal(text, 1, style) if final else None
    if text[1] in _PUNCTUATION:
        return Segment(2, (StyledText(text[1], style),))
    return _literal(text, 1, style)


def _code(text: str, style: str, final: bool) -> Segment | None:
    opening = _run_at(text, 0)
    for ticks in _TICKS.finditer(text, opening):
        if ticks.end() == len(text) and not final:
            # More backticks may follow.
            return None
        if ticks.end() - ticks.start() == opening:
            code = text[opening : ticks.start()]
            if code.startswith(" ") and code.endswith(" ") and code.strip():
                code = code[1:-1]
            return Segment(ticks.end(), (StyledText(code, _with(style, CODE)),))
    return _literal(text, opening, style) if final else None


def _emphasis(text: str, style: str, before: str, final: bool) -> Segment | None:
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
            return Segment(length, render(content, _with(style, _style_of(marker, opening)), marker))
        end += closing
    return _literal(text, opening, style) if final else None


def _opens(marker: str, length: int, before: str, after: str) -> bool:
    if after.isspace() or length > 3 or (marker == "~") != (length == 2 and marker == "~"):
        return False
    if marker == "_":
        return not before.isalnum()
    # As in 2*3*4.
    return not (marker == "*" and length == 1 and before.isdigit() and after.isdigit())


def _closes(marker: str, before: str, after: str) -> bool:
    return not before.isspace() and before != "\\" and not (marker == "_" and after.isalnum())


def _style_of(marker: str, length: int) -> str:
    if marker == "~":
        return STRIKE
    return {1: ITALIC, 2: BOLD}.get(length, f"{BOLD};{ITALIC}")


def _link(text: str, style: str, final: bool) -> Segment | None:
    if link := _LINK.match(text):
        label, address = link[1], link[2]
        runs = render(label, _with(style, LINK_STYLE), "[")
        if address and address != label:
            runs = (*runs, StyledText(f" ({address})", _with(style, DIM)))
        return Segment(link.end(), runs)
    if not final and _LINK_BEGUN.fullmatch(text):
        return None
    return _literal(text, 1, style)


def _run_at(text: str, start: int) -> int:
    """The number of repetitions of the character at `start`."""
    end = start
    while end < len(text) and text[end] == text[start]:
        end += 1
    return end - start


def _with(style: str, code: str) -> str:
    return code if not style else f"{style};{code}"
