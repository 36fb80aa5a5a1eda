import pytest

from agentvm.errors import InvalidInput
from agentvm.operations.times import to_ms


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        (None, None),
        (5, 5),
        ("0", 0),
        ("1700000000000", 1_700_000_000_000),
        ("2023-11-14", 1_699_920_000_000),
        ("2023-11-14T22:13:20", 1_700_000_000_000),
        ("2023-11-14T22:13:20Z", 1_700_000_000_000),
        ("2023-11-15T00:13:20+02:00", 1_700_000_000_000),
    ],
)
def test_a_moment_is_a_date_a_time_or_a_number(text: str | int | None, ms: int | None) -> None:
    assert to_ms(text, "since") == ms


@pytest.mark.parametrize("number", [10**15, -(10**15), 2**64])
def test_a_number_beyond_any_time_is_refused(number: int) -> None:
    with pytest.raises(InvalidInput, match="since is too far away"):
        to_ms(number, "since")


@pytest.mark.parametrize("text", ["", "now", "2023-13-01", "-5", "1e5", "9" * 16, "٣", "0001-01-01T00:00:00+14:00x"])
def test_other_text_is_refused_with_the_name_of_its_field(text: str) -> None:
    with pytest.raises(InvalidInput, match="since"):
        to_ms(text, "since")
