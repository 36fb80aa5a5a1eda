"""The bill of each shape."""

import msgspec
import pytest
from tests.cost.coefficients import ROUND, measured

from agentvm.cost import prices
from agentvm.cost.coefficients import ClusterCoefficients, EdgeCoefficients, shipped
from agentvm.cost.shapes import SHAPES, Shape, bill_of, total_of
from agentvm.cost.workload import MONTH_SECONDS, Workload

PRICES = prices.shipped()
CLUSTERED = msgspec.structs.replace(
    ROUND,
    cluster=ClusterCoefficients(
        cpu_of_database_per_turn=measured(2.0), memory_of_database=measured(1e8), disk_ratio=measured(1.5)
    ),
)
AT_THE_EDGE = msgspec.structs.replace(
    ROUND,
    edge=EdgeCoefficients(
        date="2026-11-18",
        machine="a test",
        worker_requests_per_connection=measured(1),
        object_requests_per_connection=measured(1),
        object_requests_per_turn=measured(2.8),
        rows_per_turn=measured(3),
        rows_read_per_turn=measured(1_000),
        awake_per_turn=measured(15),
        object_requests_per_booked_turn=measured(3.8),
        rows_per_booked_turn=measured(4),
        rows_read_per_booked_turn=measured(2_000),
        awake_per_booked_turn=measured(20),
        key_reads_per_turn=measured(0.5),
        cpu_per_turn=measured(4),
        cpu_per_delta=measured(10),
        storage_per_turn=measured(700),
        storage_per_text=measured(1),
    ),
)


def test_a_small_cluster_has_two_nodes_and_a_database_with_a_standby() -> None:
    lines, problem = bill_of("cluster", Workload(users=1_000, turns=30_000), CLUSTERED, PRICES)
    assert problem is None
    assert [(line.name, line.amount) for line in lines[:2]] == [
        ("nodes, 2 vCPU, 4 GB", 2),
        ("PostgreSQL and its standby, 2 vCPU, 4 GB", 2),
    ]
    assert total_of(lines) == pytest.approx(sum(line.price for line in lines))


def test_a_cluster_grows_by_nodes_and_bears_the_loss_of_one() -> None:
    # 500 turns a second of 2 ms each: 1.43 cores of 70 %.
    work = Workload(users=1_000, turns=round(MONTH_SECONDS * 500), peak=1.0, tools=0.0, visits=0.0)
    one, problem = bill_of("one-node", work, CLUSTERED, PRICES)
    assert one == ()
    assert problem is not None
    assert "--shape cluster" in problem
    nodes = bill_of("cluster", work, CLUSTERED, PRICES)[0][0]
    assert nodes.amount == 3


def test_text_takes_more_disk_in_postgresql() -> None:
    lines, _ = bill_of("cluster", Workload(), CLUSTERED, PRICES)
    single, _ = bill_of("one-node", Workload(), CLUSTERED, PRICES)
    amount = {line.name: line.amount for line in lines}["backup"]
    # A backup of SQLite is packed, here to a half; one of PostgreSQL may be a copy of its files.
    assert amount == pytest.approx(1.5 / 0.5 * {line.name: line.amount for line in single}["backup"])


def test_the_edge_is_billed_beyond_what_its_plan_includes() -> None:
    lines, problem = bill_of("edge", Workload(), AT_THE_EDGE, PRICES)
    assert problem is None
    price = {line.name: line.price for line in lines}
    assert price["plan"] == 5
    assert price["requests of Workers"] == 0
    assert price["CPU of Workers"] == pytest.approx(2.4)
    # A call of a tool in every twentieth turn needs a machine, which books the calls of the models, too.
    assert price["requests of objects"] == pytest.approx((30 * 3.8 + 6 - 1) * 0.15)
    assert price["objects awake"] == 0
    # One for each of 6 million connections, and for every second turn.
    assert price["lookups of keys"] == pytest.approx((6 + 15 - 10) * 0.5)
    assert price["storage of objects"] == pytest.approx((12 + 180 - 5) * 0.2)
    assert price["rows written"] == pytest.approx(70)
    assert price["rows read"] == pytest.approx(35)
    assert price["server for sandboxes, 2 vCPU, 4 GB"] == 12


def test_text_is_stored_at_the_edge_too_and_without_sandboxes_no_server_is_needed() -> None:
    lines, _ = bill_of("edge", Workload(text_bytes=13_000, tools=0), AT_THE_EDGE, PRICES)
    assert {line.name: line.amount for line in lines}["storage of objects"] == pytest.approx(12 + 90 * 13.7)
    assert not [line for line in lines if line.unit == "server"]
    price = {line.name: line.price for line in lines}
    assert price["requests of objects"] == pytest.approx((30 * 2.8 + 6 - 1) * 0.15)
    assert price["rows written"] == pytest.approx(40)
    assert price["rows read"] == pytest.approx(5)


@pytest.mark.parametrize(("shape", "remedy"), [("cluster", "bench.cost"), ("edge", "bench.edge")])
def test_a_shape_that_was_not_measured_has_no_price(shape: Shape, remedy: str) -> None:
    lines, problem = bill_of(shape, Workload(), ROUND, PRICES)
    assert lines == ()
    assert problem is not None
    assert remedy in problem


def test_a_price_table_without_the_edge_says_so() -> None:
    _, problem = bill_of("edge", Workload(), AT_THE_EDGE, msgspec.structs.replace(PRICES, edge=None))
    assert problem is not None
    assert "--print-prices" in problem


@pytest.mark.parametrize("shape", SHAPES)
def test_a_million_users_cost_less_than_200_dollars_in_every_shape(shape: Shape) -> None:
    lines, problem = bill_of(shape, Workload(), shipped(), PRICES)
    assert problem is None
    assert (total_of(lines) or 1_000) <= 200
