"""The monthly bill."""

import msgspec
import pytest
from tests.cost.coefficients import ROUND, measured

from agentvm.cost import prices
from agentvm.cost.coefficients import shipped
from agentvm.cost.estimate import estimate
from agentvm.cost.shapes import SHAPES, Shape
from agentvm.cost.workload import Workload
from agentvm.errors import InvalidInput

PRICES = prices.shipped()
SMALL = Workload(users=1_000, turns=30_000)


def test_the_total_is_the_sum_of_the_lines_and_the_surcharge_pays_it() -> None:
    found = estimate(SMALL, ROUND, PRICES)
    assert found.total is not None
    assert found.total == pytest.approx(sum(line.price for line in found.lines))
    assert found.break_even == pytest.approx(found.total / 0.05)
    assert found.per_thousand_users == pytest.approx(found.total)


def test_the_cheapest_server_that_fits_is_taken_and_a_spare_beside_it() -> None:
    names = [line.name for line in estimate(SMALL, ROUND, PRICES).lines]
    assert names[:2] == ["server, 2 vCPU, 4 GB", "spare, 2 vCPU, 4 GB"]
    larger = estimate(SMALL, msgspec.structs.replace(ROUND, memory_of_server=measured(6e9)), PRICES)
    assert larger.lines[0].name == "server, 4 vCPU, 8 GB"


def test_what_one_process_cannot_carry_has_no_price_but_a_reason() -> None:
    found = estimate(Workload(turns=30_000_000_000), ROUND, PRICES)
    assert (found.total, found.lines) == (None, ())
    assert found.problem is not None
    assert "one server process uses one" in found.problem


def test_a_workload_that_no_server_holds_says_what_would() -> None:
    found = estimate(SMALL, msgspec.structs.replace(ROUND, memory_of_server=measured(1e12)), PRICES)
    assert found.problem is not None
    assert found.problem.startswith("no server of the price table has")


def test_other_platforms_are_priced_by_the_same_turns() -> None:
    per_run, per_hour, _, awake = estimate(Workload(), ROUND, PRICES).peers
    assert round(awake.price) == 960
    assert per_run.price == pytest.approx(150_000)
    assert per_hour.price == pytest.approx(13_333, abs=1)


@pytest.mark.parametrize("shape", SHAPES)
def test_no_number_is_without_its_source(shape: Shape) -> None:
    found = estimate(Workload(), shipped(), PRICES, shape)
    sources = [each.source for each in found.lines]
    sources += [each.source for each in found.peers] + [each.source for each in found.measures]
    assert all(sources)
    # An amount is explained by a need, or by its own multiplication.
    assert shape != "edge" or all(line.by for line in found.lines)
    used = {"one-node": "disk per turn", "cluster": "disk ratio", "edge": "rows per turn"}
    assert used[shape] in {each.name for each in found.measures}


def test_who_opens_a_connection_for_each_turn_pays_for_it_at_the_edge() -> None:
    usual, more = (estimate(Workload(visits=visits), shipped(), PRICES, "edge").total for visits in (0.2, 1.0))
    assert usual is not None
    assert more is not None
    assert more > usual


def test_a_workload_out_of_bounds_is_refused() -> None:
    with pytest.raises(InvalidInput):
        estimate(Workload(users=-5), ROUND, PRICES)


def test_a_million_users_cost_less_than_200_dollars_by_the_measured_coefficients() -> None:
    total = estimate(Workload(), shipped(), PRICES).total
    assert total is not None
    assert total <= 200
