"""Question — the text of a search as terms: the query for the index, and the matches in a text.

A piece between spaces is looked for in one piece: 上海天气 is four words beside each other. Its last word may be the
beginning of a longer one, so `deploy` finds `deployed`; very short ones must be whole, or they would find everything.
Nothing that is typed is syntax.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from agentvm.storage.sql.words import INDEXED_CHARACTERS, terms

PIECES_MAX = 32
PREFIX_CHARACTERS = 3
"""Characters that a word must have to stand for longer ones."""


@dataclass(frozen=True, slots=True)
class SearchPiece:
    """Words that must stand beside each other; `open_ended`: the last may go on."""

    words: tuple[str, ...]
    open_ended: bool

    def matches(self, text_terms: Sequence[str], start: int) -> bool:
        """Whether the words of a text have the piece there."""
        count = len(self.words)
        here = tuple(text_terms[start : start + count])
        if len(here) < count or here[:-1] != self.words[:-1]:
            return False
        return here[-1].startswith(self.words[-1]) if self.open_ended else here[-1] == self.words[-1]


def pieces_of(text: str) -> tuple[SearchPiece, ...]:
    """The pieces of a search, each once; none for a text without words."""
    cut = [tuple(terms(piece)) for piece in text[:INDEXED_CHARACTERS].split()[:PIECES_MAX]]
    return tuple(SearchPiece(words, _open_ended(words[-1])) for words in dict.fromkeys(cut) if words)


def _open_ended(word: str) -> bool:
    # Characters that are words of their own are never the beginning of another.
    return len(word) >= PREFIX_CHARACTERS


def match_of(pieces: Sequence[SearchPiece], containers: Sequence[str]) -> str:
    """The query for the index; `containers` are the keys of the containers to search, at least one."""
    return " AND ".join(f"({' OR '.join(_phrase(piece, key) for key in containers)})" for piece in pieces)


def _phrase(piece: SearchPiece, key: str) -> str:
    # Terms have no quotation marks: they are cut at them.
    words = " ".join(key + word for word in piece.words)
    return f'"{words}" *' if piece.open_ended else f'"{words}"'
