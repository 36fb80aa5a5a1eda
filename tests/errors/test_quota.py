import pytest

from agentvm.errors.quota import quota_text

MIDNIGHT = 1_795_132_800_000


@pytest.mark.parametrize(
    ("metric", "needed", "text"),
    [
        ("tokens_per_day", 3_635, "Daily token limit: 40 of 2,600 left until 00:00 UTC; this request needs at least 3,635"),
        (
            "tokens_per_month",
            41,
            "Monthly token limit: 40 of 2,600 left until 2026-11-20 00:00 UTC; this request needs at least 41",
        ),
        ("connections", 1, "Limit connections: 40 of 2,600 left until 2026-11-20 00:00 UTC"),
    ],
)
def test_a_limit_says_what_is_left_until_when_and_what_is_needed(metric: str, needed: int, text: str) -> None:
    assert quota_text(metric, limit=2_600, used=2_560, adding=needed, reset_at=MIDNIGHT) == text


def test_money_is_said_in_dollars_and_what_is_overdrawn_leaves_nothing() -> None:
    text = quota_text("budget_per_month", limit=25_500_000_000, used=26_000_000_000, adding=120_000_000, reset_at=None)
    assert text == "Monthly budget: $0 of $25.5 left; this request needs at least $0.12"
