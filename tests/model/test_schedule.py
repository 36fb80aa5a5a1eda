"""Schedules and their bounds."""

from typing import Any

import msgspec
import pytest
from tests.conformance.records import schedule

from agentvm.model.schedule import day_of
from agentvm.model.turn import TurnBudget

DAY = 86_400_000


@pytest.mark.parametrize(
    ("about", "is_used_up"), [({}, False), ({"day": 3, "day_runs": 2}, True), ({"day": 2, "day_runs": 9}, False)]
)
def test_the_runs_of_a_day_are_used_up_on_that_day_only(about: dict[str, Any], is_used_up: bool) -> None:
    limited = schedule("a", message="m", runs_per_day=2, **about)
    assert limited.is_used_up(3 * DAY + 5) is is_used_up
    assert not msgspec.structs.replace(limited, runs_per_day=None).is_used_up(3 * DAY + 5)


def test_a_day_begins_at_midnight_utc() -> None:
    assert (day_of(DAY - 1), day_of(DAY)) == (0, 1)


@pytest.mark.parametrize("wrong", [{"steps": 0}, {"cost": -1}, {"dollars": 1}])
def test_a_budget_has_sensible_members_and_no_others(wrong: dict[str, int]) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(wrong, TurnBudget)
