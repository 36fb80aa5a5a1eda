"""Snippet — the part of a text that a search is about, as HTML in which only the `<mark>`s are not the text's own."""

from collections.abc import Sequence
from html import escape

from agentvm.storage.sqlite.sessions.question import Piece
from agentvm.storage.sqlite.words import places

LENGTH = 180
"""Characters of the text that are shown."""
LEAD = 50
"""Of those, how many before the first mark."""

Span = tuple[int, int]


def snippet(text: str, pieces: Sequence[Piece]) -> str:
    marks = spans(text, pieces)
    start, end = _window(text, marks)
    shown, at = [], start
    for begin, stop in marks:
        if begin < start or stop > end:
            continue
        shown += [_plain(text[at:begin]), "<mark>", _plain(text[begin:stop]), "</mark>"]
        at = stop
    shown.append(_plain(text[at:end]))
    return f"{'… ' if start else ''}{''.join(shown).strip()}{' …' if end < len(text) else ''}"


def spans(text: str, pieces: Sequence[Piece]) -> list[Span]:
    """Where the pieces are in the text, in order, none within another."""
    said: list[str] = []
    where: list[Span] = []
    for start, end, found in places(text):
        said += found
        where += [(start, end)] * len(found)
    marked: set[int] = set()
    for piece in pieces:
        for start in range(len(said)):
            if piece.matches(said, start):
                marked.update(range(start, start + len(piece.words)))
    spans: list[Span] = []
    for number in sorted(marked):
        start, end = where[number]
        if spans and start <= spans[-1][1]:
            # Characters of one Chinese word are marked as one.
            spans[-1] = (spans[-1][0], max(end, spans[-1][1]))
        else:
            spans.append((start, end))
    return spans


def _window(text: str, marks: Sequence[Span]) -> Span:
    """The first place where most of the marks are seen together."""
    best, most = 0, -1
    for number, (start, _) in enumerate(marks[:200]):
        seen = sum(stop <= start - LEAD + LENGTH for _, stop in marks[number : number + 50])
        if seen > most:
            best, most = start, seen
    start = max(0, best - LEAD) if best > LEAD else 0
    if start:
        # Not in the middle of a word, where there are spaces.
        gap = text.find(" ", start, best)
        start = gap + 1 if gap >= 0 else start
    return start, min(len(text), start + LENGTH)


def _plain(text: str) -> str:
    """On one line, with nothing that a browser would obey."""
    return escape("".join(character if character.isprintable() else " " for character in text))
