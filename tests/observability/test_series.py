from typing import Any

from tests.observability.worlds import gauges
from tests.runtime.fixtures import Ticking

from agentvm.observability.metrics import Metrics
from agentvm.observability.series import INTERVAL_SECONDS, SAMPLES_MAX, SeriesRecorder


class Course:
    """A recorder whose levels and clock are set by the test."""

    def __init__(self) -> None:
        self.now = 1_000
        self.metrics = Metrics(Ticking(), lambda provider, model: True)
        self.levels: dict[str, Any] = {}
        self.recorder = SeriesRecorder(self.metrics, lambda: gauges(**self.levels), lambda: self.now)

    def minute(self) -> None:
        self.now += INTERVAL_SECONDS * 1000
        self.recorder.take()


def test_counters_are_those_of_the_minute_and_levels_those_of_its_end() -> None:
    course = Course()
    course.metrics.turns["completed"] = 5
    course.minute()
    course.metrics.turns["completed"] = 7
    course.metrics.turns["failed"] = 1
    course.levels = {"connections": 40, "disk_free": None, "loop_lag": 0.0125}
    course.minute()
    series = course.recorder.read()
    assert (series.at, series.interval_seconds) == ([61_000, 121_000], 60)
    columns = series.columns
    assert (columns.turns_completed, columns.turns_failed) == ([5, 2], [0, 1])
    assert (columns.connections, columns.loop_lag_ms) == ([3, 40], [10, 12.5])
    assert columns.disk_free_bytes == [50 * 1024**3, None]


def test_quantiles_are_of_what_ended_in_the_minute() -> None:
    course = Course()
    course.metrics.first_token.observe_ms(8)
    course.minute()
    course.minute()
    for _ in range(9):
        course.metrics.first_token.observe_ms(400)
    course.minute()
    first, second, third = course.recorder.read().columns.first_token_p95
    assert first == 8
    assert second is None
    assert third is not None
    assert 250 < third <= 400


def test_a_day_is_kept_and_no_more() -> None:
    course = Course()
    for _ in range(SAMPLES_MAX + 10):
        course.minute()
    series = course.recorder.read()
    assert len(series.at) == len(series.columns.price) == SAMPLES_MAX
    assert series.at[-1] == course.now
    assert series.at[0] == course.now - (SAMPLES_MAX - 1) * 60_000
    assert series.since == course.metrics.started_at
    assert course.recorder.read(course.now - 60_000).at == [course.now - 60_000, course.now]
