"""Fusing — one ranking of two: by words and by vectors. Pure.

Ranks are fused, not weights, which cannot be compared. Most embedders know English best, so for a question in Chinese the
words, whose pairs of characters are found exactly, weigh double.
"""

from collections.abc import Sequence

RANK_FACTOR = 60
"""Constant of reciprocal rank fusion: the larger, the less the first places stand out."""
CHINESE_WORDS_FACTOR = 2


def fuse(question: str, by_words: Sequence[int], by_vectors: Sequence[int]) -> list[int]:
    """Returns the keys of both rankings, the best first."""
    weights: dict[int, float] = {}
    for factor, ranked in ((words_factor(question), by_words), (1, by_vectors)):
        for rank, key in enumerate(ranked):
            weights[key] = weights.get(key, 0) + factor / (RANK_FACTOR + rank + 1)
    return sorted(weights, key=lambda key: -weights[key])


def words_factor(question: str) -> int:
    """Returns how much a ranking by words weighs beside one by vectors."""
    letters = [letter for letter in question if letter.isalnum()]
    chinese = sum("\u3040" <= letter <= "\u9fff" for letter in letters)
    return CHINESE_WORDS_FACTOR if 2 * chinese > len(letters) else 1
