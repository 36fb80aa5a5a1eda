from hypothesis import given
from hypothesis import strategies as st

from agentvm.observability.histogram import QUICK, SLOW, Histogram


@given(st.lists(st.integers(-5, 10**9)))
def test_every_duration_is_in_one_bucket_and_in_the_sum(durations: list[int]) -> None:
    found = Histogram(SLOW)
    for one in durations:
        found.observe(one)
    counted = [max(0, one) for one in durations]
    assert (found.count, found.total) == (len(counted), sum(counted))
    for bound, count in found.cumulated():
        assert count == sum(one <= float(bound) * 1_000_000 for one in counted)


def test_a_bound_belongs_to_its_bucket() -> None:
    found = Histogram(QUICK)
    found.observe_ms(5)
    assert dict(found.cumulated())["0.005"] == 1
    assert dict(found.cumulated())["0.002"] == 0


def test_a_quantile_is_the_bound_of_its_bucket() -> None:
    found = Histogram(SLOW)
    assert found.quantile(0.5) is None
    for _ in range(99):
        found.observe_ms(7)
    found.observe_ms(10**7)
    assert (found.quantile(0.5), found.quantile(0.99), found.quantile(1.0)) == (10.0, 10.0, 600_000.0)
