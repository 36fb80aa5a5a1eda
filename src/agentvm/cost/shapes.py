"""Shapes — the ways to run AgentVM, and the bill of each: one server with a spare, a cluster, the edge."""

import math
from collections.abc import Callable
from typing import Literal, get_args

from agentvm.cost.coefficients import Coefficients
from agentvm.cost.needs import BUSY_SHARE, GB_BYTES, Needs, needs_of
from agentvm.cost.prices import Machine, Metered, PriceTable
from agentvm.cost.workload import Workload
from agentvm.model.base import Record

Shape = Literal["one-node", "cluster", "edge"]
SHAPES: tuple[Shape, ...] = get_args(Shape)

PROCESS_CORES_MAX = 1.0
"""Cores that one server process can use: its turns share one thread."""
OBJECT_BYTES = 128_000_000
"""Memory that a Durable Object is billed for while it is awake."""
CONNECTION_RATIO = 0.2
"""Connections for each turn. An assumption: a person opens a page, asks five questions and leaves."""
NODES_MIN = 2
DATABASES_MIN = 2
"""PostgreSQL servers: the primary and its synchronous standby."""


class BillLine(Record):
    """An item of a bill."""

    name: str
    amount: float
    unit: str
    price: float
    """Dollars a month."""
    source: str


Bill = tuple[tuple[BillLine, ...], str | None]
"""The items, or the reason why the shape cannot carry the workload."""


def bill_of(shape: Shape, workload: Workload, measured: Coefficients, prices: PriceTable) -> Bill:
    """Returns the bill of a workload in a shape."""
    bills: dict[Shape, Callable[[], Bill]] = {
        "one-node": lambda: _one_node(needs_of(workload, measured), prices),
        "cluster": lambda: _cluster(workload, measured, prices),
        "edge": lambda: _edge(workload, measured, prices),
    }
    return bills[shape]()


def total_of(lines: tuple[BillLine, ...]) -> float | None:
    """Returns the sum of a bill; None for one without items."""
    return sum(line.price for line in lines) if lines else None


def _one_node(needs: Needs, prices: PriceTable) -> Bill:
    cores, memory = needs.server_cores.amount + needs.tool_cores.amount, needs.memory.amount
    if needs.server_cores.amount > PROCESS_CORES_MAX:
        return (), (
            f"the turns need {needs.server_cores.amount:.1f} cores, and one server process uses one: "
            "several nodes can carry it (--shape cluster)"
        )
    machine = _cheapest(prices, cores, memory)
    if machine is None:
        return (), _too_large(cores, memory)
    disk, more_disk = needs.disk.amount, max(0.0, needs.disk.amount - machine.disk_gb)
    return (
        _servers("server", 1, machine),
        _servers("spare", 1, machine),
        _line("disk beyond the server's", more_disk, prices.disk.price, "GB", prices.disk.source),
        _line("disk beyond the spare's", more_disk, prices.disk.price, "GB", prices.disk.source),
        _line("backup", disk, prices.backup.price, "GB", prices.backup.source),
        _traffic(needs, machine, 1, prices),
    ), None


def _cluster(workload: Workload, measured: Coefficients, prices: PriceTable) -> Bill:
    """Nodes of which one may fail, and PostgreSQL with a standby; NATS runs beside the nodes."""
    if measured.cluster is None:
        return (), "the coefficients have no numbers of a cluster: measure them with `python -m bench.cost FILE --cluster`"
    needs = needs_of(workload, measured)
    carrying = max(NODES_MIN - 1, math.ceil(needs.server_cores.amount / PROCESS_CORES_MAX))
    cores = (needs.server_cores.amount + needs.tool_cores.amount) / carrying
    node = _cheapest(prices, cores, needs.memory.amount / carrying)
    stored = measured.cluster.cpu_of_database_per_turn.value / 1e3 * workload.peak_turns_per_second / BUSY_SHARE
    database = _cheapest(prices, stored, measured.cluster.memory_of_database.value / GB_BYTES)
    if node is None or database is None:
        return (), _too_large(max(cores, stored), needs.memory.amount / carrying)
    disk = needs.disk.amount * measured.cluster.disk_ratio.value
    return (
        _servers("nodes", carrying + 1, node),
        _servers("PostgreSQL and its standby", DATABASES_MIN, database),
        _line(
            "disk beyond the databases'",
            DATABASES_MIN * max(0.0, disk - database.disk_gb),
            prices.disk.price,
            "GB",
            prices.disk.source,
        ),
        _line("backup", disk, prices.backup.price, "GB", prices.backup.source),
        _traffic(needs, node, carrying + 1, prices),
    ), None


def _edge(workload: Workload, measured: Coefficients, prices: PriceTable) -> Bill:
    """Stateless Workers that wait, and one object for each container that stores."""
    edge, rates = measured.edge, prices.edge
    if edge is None:
        return (), "the coefficients have no numbers of the edge: measure them with `python -m bench.edge`"
    if rates is None:
        return (), "the price table has no section `edge`: `avm cost --print-prices` shows one"
    turns, connections = workload.turns, workload.turns * CONNECTION_RATIO
    objects = turns * edge.object_requests_per_turn.value + connections * edge.object_requests_per_connection.value
    cpu = turns * (edge.cpu_per_turn.value + workload.deltas * edge.cpu_per_delta.value / 1e3)
    stored = workload.users * rates.empty_object.value + turns * workload.months * edge.storage_per_turn.value
    awake = turns * edge.awake_per_turn.value / 1e3 * OBJECT_BYTES / GB_BYTES
    return (
        BillLine(name="plan", amount=1, unit="plan", price=rates.plan.price, source=rates.plan.source),
        _metered("requests of Workers", connections * edge.worker_requests_per_connection.value, rates.requests),
        _metered("CPU of Workers", cpu, rates.cpu_ms),
        _metered("requests of objects", objects, rates.object_requests),
        _metered("objects awake", awake, rates.object_gb_seconds),
        _metered("rows written", turns * edge.rows_per_turn.value, rates.rows_written),
        _metered("storage of objects", stored / GB_BYTES, rates.storage_gb),
    ), None


def _cheapest(prices: PriceTable, cores: float, memory_gb: float) -> Machine | None:
    fitting = [each for each in prices.machines if each.cores >= cores and each.memory_gb >= memory_gb]
    return min(fitting, key=lambda each: each.price, default=None)


def _too_large(cores: float, memory_gb: float) -> str:
    return f"no server of the price table has {cores:.1f} cores and {memory_gb:.1f} GB of memory"


def _servers(name: str, count: int, machine: Machine) -> BillLine:
    return _line(f"{name}, {machine.name}", count, machine.price, "server", machine.source)


def _traffic(needs: Needs, machine: Machine, servers: int, prices: PriceTable) -> BillLine:
    more = max(0.0, needs.traffic.amount - servers * machine.traffic_tb)
    return _line("traffic beyond the server's", more, prices.traffic.price, "TB", prices.traffic.source)


def _metered(name: str, amount: float, rate: Metered) -> BillLine:
    billed = max(0.0, amount - rate.included)
    return BillLine(name=name, amount=amount, unit=rate.unit, price=billed * rate.price, source=rate.source)


def _line(name: str, amount: float, price: float, unit: str, source: str) -> BillLine:
    return BillLine(name=name, amount=amount, unit=unit, price=amount * price, source=source)
