"""The workload of a month."""

import pytest

from agentvm.cost.workload import Workload, checked
from agentvm.errors import InvalidInput


def test_the_default_is_a_million_users_whose_turns_overlap() -> None:
    workload = Workload()
    assert round(workload.turns_per_second, 1) == 11.4
    assert round(workload.streams) == round(workload.turns_per_second * 5 * 20)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("users", 0),
        ("turns", -1),
        ("seconds", -1.0),
        ("connected", 1.5),
        ("peak", 0.5),
        ("months", 0.0),
        ("deltas", float("nan")),
        ("text_bytes", float("inf")),
        ("peak", float("inf")),
        ("months", float("inf")),
    ],
)
def test_numbers_out_of_their_bounds_are_refused(field: str, value: float) -> None:
    with pytest.raises(InvalidInput, match=r"The workload is not possible"):
        checked(Workload(**{field: value}))  # type: ignore[arg-type]
