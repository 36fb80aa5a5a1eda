"""Chunks — cuts a text into passages along its headings, paragraphs and sentences, Chinese ones too. Pure."""

import re
from bisect import bisect_right
from collections.abc import Iterator
from typing import NamedTuple

CHUNKER_VERSION = 2
"""Number of this way to cut texts into passages and words: an index that was made in another way is made again."""
SIZE_CHARACTERS = 800
OVERLAP_CHARACTERS = 100
HEADINGS_MAX = 300
"""Characters of the headings above a passage."""

# Each pattern takes time in proportion to the text, whatever the text is: a search holds up all threads until it returns.
_HEADING = re.compile(r"^(#{1,6})[ \t]++(.++)$", re.MULTILINE)
_FENCE = re.compile(r"^(```|~~~)(.*+)$", re.MULTILINE)
# The best place to cut comes first. A match with a group is no place: it only takes the search past a run of dots.
_CUTS = tuple(
    re.compile(pattern)
    for pattern in (
        r"\n[ \t]*\n",
        r"[。！？；…]+[”’」』）]*|[.!?]++[\"')\]]*+(?:(?=\s)|())",
        r"\n",
        r"[，、：]|[,;:](?=\s)",
        r"\s+",
    )
)


class Chunk(NamedTuple):
    """The characters from `start` to before `end`."""

    start: int
    end: int
    heading: str | None


def chunks(text: str, size: int = SIZE_CHARACTERS, overlap: int = OVERLAP_CHARACTERS) -> Iterator[Chunk]:
    """Yields passages of at most `size` characters in their order; two beside each other share up to `overlap`."""
    for start, end, heading in _sections(text):
        place = start
        while place < end:
            cut = _cut(text, place, end, size)
            first, last = _strip(text, place, cut)
            if first < last:
                yield Chunk(first, last, heading)
            if cut >= end:
                break
            place = _back(text, place, cut, overlap)


def _sections(text: str) -> Iterator[tuple[int, int, str | None]]:
    """Yields the text between headings, each with the headings above it."""
    fences = list(_fences(text))
    path: list[tuple[int, str]] = []
    begin, body = 0, 0
    for match in _HEADING.finditer(text):
        before = bisect_right(fences, (match.start(), len(text))) - 1
        if before >= 0 and match.start() < fences[before][1]:
            continue
        # A heading without a text of its own goes with the next.
        if text[body : match.start()].strip():
            yield begin, match.start(), _joined(path)
            begin = match.start()
        level = len(match[1])
        path = [entry for entry in path if entry[0] < level] + [(level, _name(match[2]))]
        body = match.end()
    yield begin, len(text), _joined(path)


def _fences(text: str) -> Iterator[tuple[int, int]]:
    """Yields where blocks of code begin and end; one that is never closed is none."""
    marks = list(_FENCE.finditer(text))
    last = {match[1]: match.start() for match in marks if not match[2].strip(" \t")}
    mark, begin = None, 0
    for match in marks:
        if mark is None:
            if match.start() < last.get(match[1], 0):
                mark, begin = match[1], match.start()
        elif match[1] == mark and not match[2].strip(" \t"):
            yield begin, match.end()
            mark = None


def _name(line: str) -> str:
    """Returns a heading without the marks that may close it, as much of it as is kept."""
    return (line.rstrip("#").rstrip(" \t") or line)[:HEADINGS_MAX]


def _joined(path: list[tuple[int, str]]) -> str | None:
    return " › ".join(name for _, name in path)[:HEADINGS_MAX] or None


def _cut(text: str, start: int, end: int, size: int) -> int:
    """Returns where a passage that begins at `start` ends: at the best place in the second half of its size."""
    if end - start <= size:
        return end
    most, least = start + size, start + max(1, size // 2)
    for pattern in _CUTS:
        places = [match.end() for match in pattern.finditer(text, least, most) if match.lastindex is None]
        if places:
            return places[-1]
    return most


def _back(text: str, start: int, cut: int, overlap: int) -> int:
    """Returns where the next passage begins: at the first word or sentence of the part that two passages share."""
    if not overlap:
        return cut
    least = max(start + 1, cut - overlap)
    for pattern in (_CUTS[1], _CUTS[-1]):
        match = next((boundary for boundary in pattern.finditer(text, least, cut) if boundary.lastindex is None), None)
        if match is not None and match.end() < cut:
            return match.end()
    return least if _is_chinese(text[least:cut]) else cut


def _is_chinese(text: str) -> bool:
    return any("\u4e00" <= letter <= "\u9fff" for letter in text)


def _strip(text: str, start: int, end: int) -> tuple[int, int]:
    while start < end and text[start].isspace():
        start += 1
    while end > start and text[end - 1].isspace():
        end -= 1
    return start, end
