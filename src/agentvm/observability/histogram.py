"""Histogram — durations as counts in buckets. Plain integers: an observation is an addition."""

from bisect import bisect_left
from collections.abc import Iterator, Sequence

SLOW_BOUNDS_MS = (5, 10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 30_000, 60_000, 120_000, 300_000, 600_000)
"""Bounds for operations that wait for models and tools."""

QUICK_BOUNDS_MS = (1, 2, 5, 10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000)
"""Bounds for operations of the server itself."""


class Histogram:
    """Durations in microseconds; the bounds are given in milliseconds, each belonging to its bucket."""

    __slots__ = ("_bounds", "_counts", "_least", "_most", "total")

    def __init__(self, bounds: Sequence[int]) -> None:
        self._bounds = tuple(bound * 1_000 for bound in bounds)
        self._counts = [0] * (len(bounds) + 1)
        self.total = 0
        """The sum of all, in microseconds."""
        self._least, self._most = 1 << 62, 0

    def observe(self, micros: int) -> None:
        """Counts a duration. A negative one, of a clock that was set back, counts as zero."""
        if micros < 0:
            micros = 0
        if micros > self._most:
            self._most = micros
        if micros < self._least:
            self._least = micros
        self._counts[bisect_left(self._bounds, micros)] += 1
        self.total += micros

    def observe_ms(self, millis: int) -> None:
        self.observe(millis * 1_000)

    @property
    def count(self) -> int:
        return sum(self._counts)

    @property
    def counts(self) -> tuple[int, ...]:
        """The counts of the buckets."""
        return tuple(self._counts)

    def after(self, counts: Sequence[int]) -> "Histogram":
        """Returns the durations since the buckets had these counts, without their sum. No counts: all durations."""
        window = Histogram(())
        window._bounds = self._bounds
        earlier = counts or [0] * len(self._counts)
        window._counts = [count - before for count, before in zip(self._counts, earlier, strict=True)]
        window._least, window._most = self._least, self._most
        return window

    def cumulated(self) -> Iterator[tuple[str, int]]:
        """Yields the bounds in seconds, as Prometheus writes them, and the counts of durations up to each."""
        so_far = 0
        for bound, count in zip(self._bounds, self._counts, strict=False):
            so_far += count
            yield repr(bound / 1_000_000), so_far
        yield "+Inf", so_far + self._counts[-1]

    def quantile(self, part: float) -> float | None:
        """Returns a quantile in milliseconds; None without observations.

        Durations within a bucket are taken to be spread evenly between its bounds, or between the shortest and the longest
        duration that was observed.
        """
        rank, so_far = part * self.count, 0
        if not rank:
            return None
        lower = 0
        for bound, count in zip((*self._bounds, self._most), self._counts, strict=True):
            if count and so_far + count >= rank:
                low, high = max(lower, self._least), min(bound, self._most)
                return round((low + max(0, high - low) * (rank - so_far) / count) / 1_000, 3)
            so_far += count
            lower = bound
        return self._most / 1_000
