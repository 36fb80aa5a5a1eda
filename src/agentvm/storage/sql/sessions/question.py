"""Question — the text of a search as terms.

A piece between spaces is looked for in one piece: 上海天气 is four words beside each other. Its last word may be the
beginning of a longer one, so `deploy` finds `deployed`; very short ones must be whole, or they would find everything.
Nothing that is typed is syntax.
"""

from agentvm.storage.sql.search_index import SearchPiece
from agentvm.storage.sql.words import INDEXED_CHARACTERS, terms

PIECES_MAX = 32
PREFIX_CHARACTERS = 3
"""Characters that a word must have to stand for longer ones."""


def pieces_of(text: str) -> tuple[SearchPiece, ...]:
    """The pieces of a search, each once; none for a text without words."""
    cut = [tuple(terms(piece)) for piece in text[:INDEXED_CHARACTERS].split()[:PIECES_MAX]]
    return tuple(SearchPiece(words, _open_ended(words[-1])) for words in dict.fromkeys(cut) if words)


def _open_ended(word: str) -> bool:
    # Characters that are words of their own are never the beginning of another.
    return len(word) >= PREFIX_CHARACTERS
