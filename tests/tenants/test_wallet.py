import pytest

from agentvm.errors import InvalidInput
from agentvm.model.money import DOLLAR_NANO
from agentvm.tenants.wallet import CREDIT_NANO_MAX, check_amount, parse_dollars


@pytest.mark.parametrize(("text", "amount"), [("12.50", 12_500_000_000), ("-1", -DOLLAR_NANO), ("0.000000001", 1)])
def test_dollars_are_read_exactly(text: str, amount: int) -> None:
    assert parse_dollars(text) == amount


@pytest.mark.parametrize("text", ["", "1,5", "$1", "1e3", "NaN", "1.0000000001", "1234567890", "١"])
def test_text_that_is_not_an_amount_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match="amountUsd"):
        parse_dollars(text)


@pytest.mark.parametrize("amount", [0, CREDIT_NANO_MAX + 1, -CREDIT_NANO_MAX - 1])
def test_a_credit_of_nothing_or_of_millions_is_refused(amount: int) -> None:
    with pytest.raises(InvalidInput):
        check_amount(amount)
    assert check_amount(-CREDIT_NANO_MAX) == -CREDIT_NANO_MAX
