import itertools
from datetime import UTC, datetime

import pytest

from agentvm.errors import InvalidInput
from agentvm.operations.calendar import DAY_MS, HOUR_MS, STEPS_MAX, Step, step_name, steps_between

NOON = 1_700_000_000_000
"""2023-11-14 22:13:20 UTC."""


def at(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1000)


@pytest.mark.parametrize(
    ("by", "last", "names"),
    [
        ("hour", NOON + 2 * HOUR_MS, ["2023-11-14T22:00Z", "2023-11-14T23:00Z", "2023-11-15T00:00Z"]),
        ("day", NOON + DAY_MS, ["2023-11-14", "2023-11-15"]),
        ("month", at("2024-02-01"), ["2023-11", "2023-12", "2024-01", "2024-02"]),
        ("month", at("2024-02-01") - 1, ["2023-11", "2023-12", "2024-01"]),
        ("day", NOON - DAY_MS, []),
    ],
)
def test_steps_go_from_the_first_moment_to_the_last(by: Step, last: int, names: list[str]) -> None:
    assert [step_name(by, start) for start in steps_between(by, NOON, last)] == names


def test_a_step_begins_where_the_one_before_ends() -> None:
    starts = steps_between("day", at("2024-02-27"), at("2024-03-02"))
    assert [later - earlier for earlier, later in itertools.pairwise(starts)] == [DAY_MS] * 4


@pytest.mark.parametrize(("first", "last"), [(0, NOON), (10**15, 10**15 + 1), (253_402_300_000_000, 10**15 - 1)])
def test_more_than_a_person_can_look_at_is_refused(first: int, last: int) -> None:
    with pytest.raises(InvalidInput):
        steps_between("hour", first, last)
    assert STEPS_MAX == 1_000
