"""Question — a question in natural language as terms to look up in an index. Pure.

A question has words that no passage has, so any of its words is enough, and passages with rarer ones come first. A Chinese
question is split into pairs of adjacent characters: single characters are too unspecific, and are used only if nothing else is
found.
"""

from collections.abc import Iterable
from itertools import islice
from unicodedata import normalize

from agentvm.storage.sql.search_index import SearchPiece
from agentvm.storage.sql.words import stems, terms

QUESTION_MAX = 2_000
PIECES_MAX = 40

_COMMON = frozenset(
    "a an and are as at be by can do does for from has have how i in is it me my not of on or our so that the their there "
    "these they this to was we were what when where which who why will with you your "
    "的 了 是 在 我 有 和 就 不 也 都 很 吗 呢 吧".split()
)


def pieces_of(question: str) -> tuple[SearchPiece, ...]:
    """Returns the stems of words and the pairs of characters of a question, each once, without words that every text has."""
    all_terms = _terms(question)
    pieces: dict[tuple[str, ...], None] = {}
    before: str | None = None
    for term, stem in zip(all_terms, stems(all_terms), strict=True):
        if not _is_character(term):
            before = None
            if term not in _COMMON:
                pieces[(stem,)] = None
            continue
        if before is not None:
            pieces[before, term] = None
        before = term
    # Without any: a single character, or common words alone.
    return _pieces(pieces or dict.fromkeys((stem,) for stem in stems(all_terms)))


def characters_of(question: str) -> tuple[SearchPiece, ...]:
    """Returns the single characters of a question in Chinese, without those that every text has."""
    return _pieces(dict.fromkeys((term,) for term in _terms(question) if _is_character(term) and term not in _COMMON))


def _terms(question: str) -> list[str]:
    return terms(normalize("NFKC", question[:QUESTION_MAX]))


def _pieces(pieces: Iterable[tuple[str, ...]]) -> tuple[SearchPiece, ...]:
    return tuple(SearchPiece(words, open_ended=False) for words in islice(pieces, PIECES_MAX))


def _is_character(term: str) -> bool:
    return len(term) == 1 and "\u3040" <= term <= "\u9fff"
