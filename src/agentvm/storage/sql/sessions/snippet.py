"""Snippet — the part of a text around the matching words, as escaped HTML with `<mark>` elements."""

from collections.abc import Sequence
from html import escape

from agentvm.storage.sql.search_index import SearchPiece
from agentvm.storage.sql.words import INDEXED_CHARACTERS, places

SHOWN_CHARACTERS = 180
"""Characters of the text that are shown."""
LEAD_CHARACTERS = 50
"""Characters before the first mark."""
CUT_CHARACTERS = 2_000
"""Characters of a long text that are cut into words. Readers are few: who finds a hundred long texts must not keep them."""
_TRIES_MAX = 5
"""Places of each word that are thought of."""

Span = tuple[int, int]


def snippet(text: str, pieces: Sequence[SearchPiece]) -> str:
    begin = _begin(text, pieces)
    part = text[begin : begin + CUT_CHARACTERS]
    marks = spans(part, pieces)
    start, end = _window(part, marks)
    shown = _shown(part, marks, start, end)
    return f"{'… ' if begin + start else ''}{shown}{' …' if begin + end < len(text) else ''}"


def _shown(text: str, marks: Sequence[Span], start: int, end: int) -> str:
    shown, at = [], start
    for begin, stop in marks:
        if begin < start or stop > end:
            continue
        shown += [_plain(text[at:begin]), "<mark>", _plain(text[begin:stop]), "</mark>"]
        at = stop
    shown.append(_plain(text[at:end]))
    return "".join(shown).strip()


def _begin(text: str, pieces: Sequence[SearchPiece]) -> int:
    """Where to look in a long text: a guess by letters alone, which costs next to nothing.

    Where only variants of the letters are there, it finds none, and the beginning is shown.
    """
    if len(text) <= CUT_CHARACTERS:
        return 0
    letters = text[:INDEXED_CHARACTERS].casefold()
    places_of = {piece: _occurrences(letters, max(piece.words, key=len)) for piece in pieces}
    best, most = 0, 0
    for place in sorted({place for offsets in places_of.values() for place in offsets}):
        together = sum(
            any(place <= other < place + SHOWN_CHARACTERS - LEAD_CHARACTERS for other in offsets)
            for offsets in places_of.values()
        )
        if together > most:
            best, most = place, together
    start = max(0, best - CUT_CHARACTERS // 2)
    # Not in the middle of a word, which would look like another.
    gap = text.find(" ", start, best) if start else -1
    return gap + 1 if gap >= 0 else start


def _occurrences(letters: str, word: str) -> list[int]:
    places_of: list[int] = []
    at = letters.find(word)
    while at >= 0 and len(places_of) < _TRIES_MAX:
        places_of.append(at)
        at = letters.find(word, at + 1)
    return places_of


def spans(text: str, pieces: Sequence[SearchPiece]) -> list[Span]:
    """Where the pieces are in the text, in order, none within another."""
    text_terms: list[str] = []
    where: list[Span] = []
    for start, end, places_of in places(text):
        text_terms += places_of
        where += [(start, end)] * len(places_of)
    marked: set[int] = set()
    for piece in pieces:
        for start in range(len(text_terms)):
            if piece.matches(text_terms, start):
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
        seen = sum(stop <= start - LEAD_CHARACTERS + SHOWN_CHARACTERS for _, stop in marks[number : number + 50])
        if seen > most:
            best, most = start, seen
    start = max(0, best - LEAD_CHARACTERS) if best > LEAD_CHARACTERS else 0
    if start:
        # Not in the middle of a word, where there are spaces.
        gap = text.find(" ", start, best)
        start = gap + 1 if gap >= 0 else start
    return start, min(len(text), start + SHOWN_CHARACTERS)


def _plain(text: str) -> str:
    """On one line, with nothing that a browser would obey."""
    return escape("".join(character if character.isprintable() else " " for character in text))
