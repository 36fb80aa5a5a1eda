from decimal import Decimal

from agentvm.model.limits import Defaults, Limits


def test_amounts_are_converted_where_they_are_used() -> None:
    assert Limits(turn_cost=Decimal("1.5")).turn_cost_nano == 1_500_000_000
    assert Defaults(timeout=200).timeout_seconds == 0.2
