import math
from bisect import bisect_left

from hypothesis import given
from hypothesis import strategies as st

from agentvm.observability.histogram import QUICK_BOUNDS_MS, SLOW_BOUNDS_MS, Histogram


@given(st.lists(st.integers(-5, 10**9)))
def test_every_duration_is_in_one_bucket_and_in_the_sum(durations: list[int]) -> None:
    found = Histogram(SLOW_BOUNDS_MS)
    for one in durations:
        found.observe(one)
    counted = [max(0, one) for one in durations]
    assert (found.count, found.total) == (len(counted), sum(counted))
    for bound, count in found.cumulated():
        assert count == sum(one <= float(bound) * 1_000_000 for one in counted)


def test_a_bound_belongs_to_its_bucket() -> None:
    found = Histogram(QUICK_BOUNDS_MS)
    found.observe_ms(5)
    assert dict(found.cumulated())["0.005"] == 1
    assert dict(found.cumulated())["0.002"] == 0


def test_a_quantile_lies_within_its_bucket_and_what_was_observed() -> None:
    found = Histogram(SLOW_BOUNDS_MS)
    assert found.quantile(0.5) is None
    for _ in range(99):
        found.observe_ms(7)
    assert (found.quantile(0.5), found.quantile(0.99)) == (7.0, 7.0)
    found.observe_ms(10**7)
    assert 7.0 <= (found.quantile(0.5) or 0) <= 10.0
    assert found.quantile(1.0) == 10**7


@given(st.lists(st.integers(0, 10**9), min_size=1), st.floats(0.01, 1))
def test_a_quantile_is_never_beyond_the_bounds_of_the_true_one(durations: list[int], part: float) -> None:
    found = Histogram(SLOW_BOUNDS_MS)
    for one in durations:
        found.observe(one)
    bounds = [0, *(bound * 1_000 for bound in SLOW_BOUNDS_MS), 10**9]
    wanted = math.ceil(part * len(durations) - 1e-9)
    true = sorted(durations)[max(0, wanted - 1)]
    place = bisect_left(bounds, true, 1)
    shown = (found.quantile(part) or 0.0) * 1_000
    assert max(bounds[place - 1], min(durations)) - 1 <= shown <= min(bounds[place], max(durations)) + 1


def test_a_window_holds_what_came_after() -> None:
    durations = Histogram(QUICK_BOUNDS_MS)
    durations.observe_ms(1)
    earlier = durations.counts
    assert durations.after(earlier).count == 0
    assert durations.after(()).count == 1
    durations.observe_ms(400)
    window = durations.after(earlier)
    assert window.count == 1
    assert window.quantile(0.5) == 325
