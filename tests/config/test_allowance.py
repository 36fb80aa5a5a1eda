import pytest

from agentvm.config.allowance import plain_allowance, read_allowance
from agentvm.model.account import Allowance, Quota


def test_limits_are_numbers_or_both_and_money_is_dollars() -> None:
    given = {"containers": "1_000", "tokens_per_day": {"soft": 5, "hard": 10}, "budget_per_month": 2.5}
    read = read_allowance(given, of_users=False)
    assert read == Allowance(
        quotas=(
            Quota(metric="budget_per_month", hard=2_500_000_000),
            Quota(metric="containers", hard=1_000),
            Quota(metric="tokens_per_day", hard=10, soft=5),
        )
    )
    assert plain_allowance(read) == {"budget_per_month": "2.5", "containers": 1_000, "tokens_per_day": {"hard": 10, "soft": 5}}
    assert read_allowance(plain_allowance(read), of_users=False) == read


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ("all", "by metric"),
        ({"cheese": 1}, "is not a metric; known metrics: requests_per_minute"),
        ({"containers": 1.5}, "whole number"),
        ({"containers": -1}, "whole number"),
        ({"containers": True}, "whole number"),
        ({"containers": "NaN"}, "whole number"),
        ({"containers": {}}, "hard, soft or both"),
        ({"containers": {"max": 1}}, "hard, soft or both"),
        ({"containers": {"soft": 2, "hard": 1}}, "must not be larger"),
        ({"budget_per_month": "many"}, "dollars"),
    ],
)
def test_what_is_no_limit_is_refused_with_what_it_can_be(given: object, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        read_allowance(given, of_users=False)


def test_a_user_has_no_limit_of_what_is_counted_for_a_tenant() -> None:
    with pytest.raises(ValueError, match="not a metric"):
        read_allowance({"containers": 1}, of_users=True)
