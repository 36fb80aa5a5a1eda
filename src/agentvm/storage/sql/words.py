"""Words — how texts are cut for every search, the same way when they are stored and when they are asked for.

Words are cut as Unicode says, without case, marks and variants of letters. Chinese and Japanese characters are words of their
own, so a word of two is a phrase and is found inside a sentence.

Most texts are plain ASCII or plain Chinese, where the rules of Unicode become simple: those are cut by a regular expression,
ten times as fast, and with the same result (a property test compares the two).
"""

import re
from collections.abc import Iterator, Sequence
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import apsw

INDEXED_CHARACTERS = 100_000
"""Characters of a text that are indexed. All tenants share the writer."""
WORD_CHARACTERS = 64
"""Characters of a word that count: longer ones are keys and addresses."""
# Unicode takes read_file and docs.intro for one word; who looks for a file does not.
_WITHIN = str.maketrans({"_": " ", ".": " ", ":": " ", "’": "'"})
# What SQLite's `ascii` tokenizer takes for no part of a word.
_BETWEEN = re.compile(r"[\x00-/:-`{-\x7f]+")
_PLAIN = re.compile(r"[0-9a-z]+")
# Chinese characters and the marks between them that never join two words.
_CHINESE = re.compile(r"[\x00-\x7f\u3400-\u4dbf\u4e00-\u9fff、。！？“”（）《》【】「」，；：]*")
_CHINESE_TERM = re.compile(r"[0-9a-z]+|[\u3400-\u4dbf\u4e00-\u9fff]")
# Those of them that are a part of the word when they stand within a number or a name.
_JOINED = re.compile(r"[0-9A-Za-z][，；：][0-9A-Za-z]")


def words(text: str) -> str:
    """The words of a text, with spaces between them."""
    # Here, because these tables take longer to load than everything else of the database, and few processes need them.
    from apsw import unicode  # noqa: PLC0415

    cut = unicode.word_iter(unicode.casefold(text[:INDEXED_CHARACTERS].translate(_WITHIN)))
    # Not before it is cut: without marks there are no spaces either.
    return " ".join(word if word.isascii() else unicode.strip(word) for word in cut)


def terms(text: str) -> list[str]:
    """The words of a text as the index holds them, one by one: none of them is cut any further."""
    text = text[:INDEXED_CHARACTERS]
    if text.isascii():
        return _shorten(_PLAIN.findall(text.lower()))
    # People say the same words again and again.
    cache: dict[str, list[str]] = {}
    all_terms: list[str] = []
    for piece in text.split(" "):
        cut = cache.get(piece)
        if cut is None:
            cut = cache[piece] = _shorten(_terms_of(piece))
        all_terms += cut
    return all_terms


def _shorten(all_terms: list[str]) -> list[str]:
    if max(map(len, all_terms), default=0) <= WORD_CHARACTERS:
        return all_terms
    return [term[:WORD_CHARACTERS] for term in all_terms]


def _terms_of(piece: str) -> list[str]:
    """The terms of a text without spaces."""
    if piece.isascii():
        return _PLAIN.findall(piece.lower())
    if _CHINESE.fullmatch(piece) and not _JOINED.search(piece):
        return _CHINESE_TERM.findall(piece.lower())
    return terms_by_unicode(piece)


def terms_by_unicode(text: str) -> list[str]:
    """The same for any text, without a bound on the length of a word."""
    return split_words(words(text))


def split_words(cut: str) -> list[str]:
    """The terms of words that `words` has cut."""
    return [term for term in _BETWEEN.split(cut.lower()) if term]


def stems(all_terms: Sequence[str]) -> list[str]:
    """The terms, each English word as its stem: returns, returned and returning are one. Other terms stay as they are."""
    import apsw  # noqa: PLC0415

    text = " ".join(all_terms).encode()
    # The library's own types say that it yields more than texts.
    return list(_stemmer()(text, apsw.FTS5_TOKENIZE_DOCUMENT, None, include_offsets=False, include_colocated=False))  # type: ignore[arg-type]


@cache
def _stemmer() -> "apsw.FTS5Tokenizer":
    """SQLite's implementation of Porter's algorithm, for the indexes of all engines."""
    import apsw  # noqa: PLC0415

    return apsw.Connection(":memory:").fts5_tokenizer("porter", ["ascii"])


def places(text: str) -> Iterator[tuple[int, int, list[str]]]:
    """Where the words of a text begin and end in it, each with its terms."""
    from apsw import unicode  # noqa: PLC0415

    # The library's own types say that it yields text.
    all_terms: Iterator[tuple[int, int, str]] = unicode.word_iter_with_offsets(text[:INDEXED_CHARACTERS].translate(_WITHIN))  # type: ignore[assignment]
    for start, end, word in all_terms:
        yield start, end, terms(word)
