"""Suspects — turns that may crash the server: which of them are started together, and which one is the cause. Pure.

Theory of operation. A turn with one attempt left of `Limits.attempts` is a suspect. Most are innocent: they ran when another
one killed the server. Suspects are therefore started in groups; after a crash the turns of a group are started in groups of
half the size. The size of the group is stored with each turn before the start, which is the only state: a turn that crashed
alone is the cause. Among N suspects it is found after about log2(N) more crashes, and the others end.
"""

import zlib
from collections.abc import Callable, Sequence
from typing import TypeVar

from agentvm.model.turn import Turn

T = TypeVar("T")

GROUP_SECONDS = 30.0
"""How long the next group waits for turns of the group before that have not ended; then they run together."""

GROUP_MAX = 2
"""Up to this many suspects are begun one by one: waiting for a turn costs less than another crash."""

MORE_ATTEMPTS_MAX = 20
"""Beyond `Limits.attempts` a turn is started at most this many times, even if another turn caused the crashes."""


def is_to_blame(turn: Turn, attempt: int, limit: int) -> bool:
    """Whether it is not started again: it ran alone in the last crash, or was part of too many."""
    return attempt > limit and (turn.alongside in (None, 1) or attempt > limit + MORE_ATTEMPTS_MAX)


def next_group(waiting: Sequence[T], turn_of: Callable[[T], Turn]) -> list[T]:
    """Returns the turns to begin next; at least one, if any waits.

    Turns of the smallest crashed group come first: they are closest to being cleared. Within it the order is another one at
    each attempt, so that a long turn which is always first does not keep the one to blame from being alone.
    """
    if not waiting:
        return []
    smallest = min(_alongside(turn_of(log)) for log in waiting)
    alike = sorted((log for log in waiting if _alongside(turn_of(log)) == smallest), key=lambda log: _shuffled(turn_of(log)))
    if smallest != _UNKNOWN_MAX:
        return alike[: max(1, smallest // 2)]
    return alike if len(alike) > GROUP_MAX else alike[:1]


_UNKNOWN_MAX = 2**62


def _alongside(turn: Turn) -> int:
    return _UNKNOWN_MAX if turn.alongside is None else turn.alongside


def _shuffled(turn: Turn) -> int:
    return zlib.crc32(f"{turn.turn_id} {turn.attempts}".encode())
