"""Title text — a title from the first words of a message, truncated at the end of a sentence or a word."""

import re
import unicodedata

TITLE_MAX_COLUMNS = 48
"""Columns of a title; a Chinese character takes two."""
TITLE_MIN_COLUMNS = 16
"""A shorter title continues beyond the end of a sentence."""

_ENDS = frozenset(".!?。！？；;…")
_CODE = re.compile(r"```.*?(?:```|\Z)", re.DOTALL)
_MARKUP = re.compile(r"^[#>*\-\s]+|[*_`]{1,3}(?=\S)|(?<=\S)[*_`]{1,3}")


def first_words(text: str) -> str | None:
    """Returns the title; None for a text without letters or digits."""
    plain = " ".join(_MARKUP.sub("", line) for line in _CODE.sub(" ", text[:4_000]).splitlines())
    plain = " ".join("".join(letter if letter.isprintable() else " " for letter in plain).split())
    if not any(letter.isalnum() for letter in plain):
        return None
    return _cut(plain)


def tidy(answer: str) -> str | None:
    """Returns the answer of a model as a title: one line, without quotation marks and a full stop."""
    lines = [line.strip() for line in answer.strip().splitlines() if line.strip()]
    if not lines:
        return None
    line = re.sub(r"^(?:title|标题)\s*[:：]\s*", "", lines[0], flags=re.IGNORECASE)
    return first_words(line.strip("\"'“”‘’「」《》*# ").rstrip(".。"))


def _cut(plain: str) -> str:
    """Cuts at the end of a sentence or of a word, or anywhere in a language without spaces."""
    columns, space = 0, 0
    for place, letter in enumerate(plain):
        wide = 2 if unicodedata.east_asian_width(letter) in "WF" else 1
        if columns + wide > TITLE_MAX_COLUMNS:
            # Not back to the beginning: an address is one long word.
            words = plain[:space] if space > place // 2 else plain[:place]
            return words.rstrip(" ,，、;；:：-–—(（") + "…"
        columns += wide
        if letter == " ":
            space = place
        elif wide == 2:
            space = place + 1
        following = plain[place + 1 : place + 2]
        if letter in _ENDS and columns >= TITLE_MIN_COLUMNS and (wide == 2 or following in ("", " ")):
            return plain[: place + 1].rstrip(".。;；")
    return plain.rstrip(".。;；")
