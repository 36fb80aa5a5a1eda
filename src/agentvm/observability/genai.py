"""GenAI — histograms of model calls by OpenTelemetry's conventions, with their recommended bounds. Pure.

The number of series is bounded: providers by their driver, and configured models; all others are `other`. No series identifies
a tenant or a user.
"""

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from agentvm.observability.metrics import LABELS_MAX, OTHER, IsKnownModel
from agentvm.observability.spans import TracedCall

TOKEN_BOUNDS: Final = tuple(4.0**power for power in range(14))
SECOND_BOUNDS: Final = tuple(0.01 * 2**power for power in range(14))

Labels = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class HistogramPoint:
    """One series of a histogram at one moment."""

    labels: Labels
    counts: tuple[int, ...]
    total: float


@dataclass(frozen=True, slots=True)
class HistogramSeries:
    """One histogram with all of its series."""

    name: str
    about: str
    unit: str
    bounds: tuple[float, ...]
    points: tuple[HistogramPoint, ...]


class _Histogram:
    def __init__(self, name: str, about: str, unit: str, bounds: tuple[float, ...]) -> None:
        self._name, self._about, self._unit, self._bounds = name, about, unit, bounds
        self._counts: dict[Labels, list[int]] = {}
        self._totals: dict[Labels, float] = {}

    def observe(self, labels: Labels, value: float) -> None:
        counts = self._counts.get(labels)
        if counts is None:
            if len(self._counts) >= LABELS_MAX * 4:
                return
            counts = self._counts[labels] = [0] * (len(self._bounds) + 1)
            self._totals[labels] = 0.0
        counts[bisect_left(self._bounds, value)] += 1
        self._totals[labels] += value

    def read(self) -> HistogramSeries:
        points = tuple(HistogramPoint(labels, tuple(counts), self._totals[labels]) for labels, counts in self._counts.items())
        return HistogramSeries(self._name, self._about, self._unit, self._bounds, points)


class GenAi:
    """The tokens and durations of model calls. `known` decides which models are labels."""

    def __init__(self, is_known: IsKnownModel, driver_of: Callable[[str], str] = str) -> None:
        self._known, self._driver_of = is_known, driver_of
        self._tokens = _Histogram(
            "gen_ai.client.token.usage", "Number of input and output tokens used.", "{token}", TOKEN_BOUNDS
        )
        self._duration = _Histogram("gen_ai.client.operation.duration", "GenAI operation duration.", "s", SECOND_BOUNDS)
        about = "Time to receive the first chunk, measured from when the client issues the generation request."
        self._first = _Histogram("gen_ai.client.operation.time_to_first_chunk", about, "s", SECOND_BOUNDS)

    def note(self, call: TracedCall) -> None:
        """Counts an ended call."""
        labels = self._labels(call)
        if call.usage is not None:
            usage = call.usage
            read = usage.input_tokens + usage.cache_read_tokens + usage.cache_write_tokens
            for kind, number in (("input", read), ("output", usage.output_tokens)):
                self._tokens.observe((*labels, ("gen_ai.token.type", kind)), number)
        if call.asked_at is None:
            return
        if call.ended_at is not None:
            failed = () if call.error is None else (("error.type", call.error),)
            self._duration.observe((*labels, *failed), max(0, call.ended_at - call.asked_at) / 1000)
        if call.first_at is not None:
            self._first.observe(labels, max(0, call.first_at - call.asked_at) / 1000)

    def read(self) -> Sequence[HistogramSeries]:
        """Returns the current histograms."""
        return tuple(histogram.read() for histogram in (self._tokens, self._duration, self._first))

    def _labels(self, call: TracedCall) -> Labels:
        provider = self._driver_of(call.provider) if self._known(call.provider, "") else OTHER
        model = call.model if self._known(call.provider, call.model) else OTHER
        return (
            ("gen_ai.operation.name", "chat"),
            ("gen_ai.provider.name", provider),
            ("gen_ai.request.model", model),
        )
