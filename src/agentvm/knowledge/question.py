"""Question — what is looked for in an index when somebody asks in plain words. Pure.

A question has words that no passage has, so any of its words is enough, and passages with rarer ones come first. A Chinese
question is cut into pairs of characters that stand beside each other: single characters say too little.
"""

from unicodedata import normalize

from agentvm.storage.sql.search_index import SearchPiece
from agentvm.storage.sql.words import terms

QUESTION_MAX = 2_000
PIECES_MAX = 40

_COMMON = frozenset(
    "a an and are as at be by can do does for from has have how i in is it me my not of on or our so that the their there "
    "these they this to was we were what when where which who why will with you your "
    "的 了 是 在 我 有 和 就 不 也 都 很 吗 呢 吧".split()
)


def pieces_of(question: str) -> tuple[SearchPiece, ...]:
    """Returns the words and pairs of characters of a question, each once, without words that every text has."""
    pieces: dict[tuple[str, ...], None] = {}
    before: str | None = None
    for term in terms(normalize("NFKC", question[:QUESTION_MAX])):
        if not _is_character(term):
            before = None
            if term not in _COMMON:
                pieces[(term,)] = None
            continue
        if before is not None:
            pieces[before, term] = None
        before = term
    if not pieces:
        # A single character, or common words alone.
        pieces = dict.fromkeys((term,) for term in terms(normalize("NFKC", question[:QUESTION_MAX])))
    return tuple(SearchPiece(words, open_ended=False) for words in list(pieces)[:PIECES_MAX])


def _is_character(term: str) -> bool:
    return len(term) == 1 and "\u3040" <= term <= "\u9fff"
