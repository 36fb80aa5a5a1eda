from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentvm.model.money import DOLLAR_NANO, dollars, to_nano


@pytest.mark.parametrize(
    ("nano", "text"),
    [
        (0, "$0.00"),
        (DOLLAR_NANO, "$1.00"),
        (1_050_000_000, "$1.05"),
        (213_000, "$0.000213"),
        (1, "$0.000000001"),
        (-5 * DOLLAR_NANO, "-$5.00"),
        (1_234_567 * DOLLAR_NANO, "$1,234,567.00"),
    ],
)
def test_an_amount_is_shown_exactly(nano: int, text: str) -> None:
    assert dollars(nano) == text


@given(st.integers(-(10**18), 10**18))
def test_what_is_shown_reads_back_as_the_same_amount(nano: int) -> None:
    assert to_nano(Decimal(dollars(nano).replace("$", "").replace(",", ""))) == nano


@pytest.mark.parametrize(("amount", "nano"), [("0.0000000005", 0), ("0.0000000015", 2), ("0.00000000051", 1)])
def test_half_a_nano_goes_to_the_even_side(amount: str, nano: int) -> None:
    assert to_nano(Decimal(amount)) == nano
