"""Histogram — how long things took, as counts in buckets. Plain integers: to count one is an addition."""

from bisect import bisect_left
from collections.abc import Iterator, Sequence

SLOW = (5, 10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 30_000, 60_000, 120_000, 300_000, 600_000)
"""Bounds in ms for what waits for models and tools."""

QUICK = (1, 2, 5, 10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000)
"""Bounds in ms for what a server does by itself."""


class Histogram:
    """Durations in microseconds; the bounds are given in milliseconds, each belonging to its bucket."""

    __slots__ = ("_bounds", "_counts", "total")

    def __init__(self, bounds: Sequence[int]) -> None:
        self._bounds = tuple(bound * 1_000 for bound in bounds)
        self._counts = [0] * (len(bounds) + 1)
        self.total = 0
        """The sum of all, in microseconds."""

    def observe(self, micros: int) -> None:
        """A clock that was set back gives less than nothing, which counts as nothing."""
        if micros < 0:
            micros = 0
        self._counts[bisect_left(self._bounds, micros)] += 1
        self.total += micros

    def observe_ms(self, millis: int) -> None:
        self.observe(millis * 1_000)

    @property
    def count(self) -> int:
        return sum(self._counts)

    def cumulated(self) -> Iterator[tuple[str, int]]:
        """Bounds in seconds as Prometheus writes them, and how many took at most so long."""
        so_far = 0
        for bound, count in zip(self._bounds, self._counts, strict=False):
            so_far += count
            yield repr(bound / 1_000_000), so_far
        yield "+Inf", so_far + self._counts[-1]

    def quantile(self, part: float) -> float | None:
        """Milliseconds that so large a part stayed within, up to the bound of its bucket; None when there are none."""
        wanted, so_far = part * self.count, 0
        if not wanted:
            return None
        for bound, count in zip(self._bounds, self._counts, strict=False):
            so_far += count
            if so_far >= wanted:
                return bound / 1_000
        return self._bounds[-1] / 1_000
