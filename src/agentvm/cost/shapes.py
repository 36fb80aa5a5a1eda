"""Shapes — the ways to run AgentVM, and the bill of each: one server with a spare, a cluster, the edge."""

import math
from collections.abc import Callable
from typing import Literal, get_args

import msgspec

from agentvm.cost.coefficients import Coefficients, EdgeCoefficients, Measured
from agentvm.cost.needs import BUSY_SHARE, GB_BYTES, Needs, needs_of, sandboxes_at_once
from agentvm.cost.prices import Machine, Metered, PriceTable
from agentvm.cost.workload import Workload
from agentvm.model.base import Record

Shape = Literal["one-node", "cluster", "edge"]
SHAPES: tuple[Shape, ...] = get_args(Shape)

PROCESS_CORES_MAX = 1.0
"""Cores that one server process can use: its turns share one thread."""
OBJECT_BYTES = 128_000_000
"""Memory that a Durable Object is billed for while it is awake."""
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
    by: str = ""
    """The multiplication that the amount came from, where the needs of servers do not show it."""


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
    more_disk = max(0.0, needs.disk.amount - machine.disk_gb)
    return (
        _servers("server", 1, machine),
        _servers("spare", 1, machine),
        _line("disk beyond the server's", more_disk, prices.disk.price, "GB", prices.disk.source),
        _line("disk beyond the spare's", more_disk, prices.disk.price, "GB", prices.disk.source),
        _line("backup", needs.backup.amount, prices.backup.price, "GB", prices.backup.source),
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
    """Stateless Workers that wait, one object for each container that stores, and a server for jobs that need a machine."""
    edge, rates = measured.edge, prices.edge
    if edge is None:
        return (), "the coefficients have no numbers of the edge: measure them with `python -m bench.edge`"
    if rates is None:
        return (), "the price table has no section `edge`: `avm cost --print-prices` shows one"
    turns, visits = workload.turns, workload.turns * workload.visits
    bytes_per_turn = edge.storage_per_turn.value + workload.text_bytes * edge.storage_per_text.value
    sandboxes, problem = _sandboxes(workload, measured, prices)
    if problem is not None:
        return (), problem
    requests, rows, rows_read, awake = _of_turn(edge, booked=bool(sandboxes))
    return (
        BillLine(name="plan", amount=1, unit="plan", price=rates.plan.price, source=rates.plan.source, by="1 plan"),
        _metered("requests of Workers", rates.requests, (visits, "connections", edge.worker_requests_per_connection.value)),
        _metered(
            "CPU of Workers",
            rates.cpu_ms,
            (turns, "turns", edge.cpu_per_turn.value),
            (turns * workload.deltas, "deltas", edge.cpu_per_delta.value / 1e3),
        ),
        _metered(
            "requests of objects",
            rates.object_requests,
            (turns, "turns", requests.value),
            (visits, "connections", edge.object_requests_per_connection.value),
        ),
        _metered(
            "objects awake",
            rates.object_gb_seconds,
            (turns, "turns", awake.value / 1e3 * OBJECT_BYTES / GB_BYTES),
        ),
        _metered(
            "lookups of keys", rates.key_reads, (visits, "connections", 1), (turns, "turns", edge.key_reads_per_turn.value)
        ),
        _metered("rows written", rates.rows_written, (turns, "turns", rows.value)),
        _metered("rows read", rates.rows_read, (turns, "turns", rows_read.value)),
        _metered(
            "storage of objects",
            rates.storage_gb,
            (workload.users, "users", rates.empty_object.value / GB_BYTES),
            (turns * workload.months, "turns", bytes_per_turn / GB_BYTES),
        ),
        *sandboxes,
    ), None


def _of_turn(edge: EdgeCoefficients, *, booked: bool) -> tuple[Measured, Measured, Measured, Measured]:
    """The requests, rows, rows read and milliseconds of an object for a turn; where there is a server, it books the calls."""
    if booked:
        of_requests, of_rows = edge.object_requests_per_booked_turn, edge.rows_per_booked_turn
        return of_requests, of_rows, edge.rows_read_per_booked_turn, edge.awake_per_booked_turn
    return edge.object_requests_per_turn, edge.rows_per_turn, edge.rows_read_per_turn, edge.awake_per_turn


def _sandboxes(workload: Workload, measured: Coefficients, prices: PriceTable) -> Bill:
    """The server for calls that the edge has no tier for. It has no spare: while it is away only these calls fail."""
    if workload.tools == 0:
        return (), None
    cores = needs_of(workload, measured).tool_cores.amount
    memory = (measured.memory_of_server.value + sandboxes_at_once(workload) * measured.memory_per_jail.value) / GB_BYTES
    machine = _cheapest(prices, cores, memory)
    if machine is None:
        return (), _too_large(cores, memory)
    line = _servers("server for sandboxes", 1, machine)
    return (msgspec.structs.replace(line, by=f"{cores:.3f} cores and {memory:.3f} GB of memory"),), None


def _cheapest(prices: PriceTable, cores: float, memory_gb: float) -> Machine | None:
    fitting = [machine for machine in prices.machines if machine.cores >= cores and machine.memory_gb >= memory_gb]
    return min(fitting, key=lambda machine: machine.price, default=None)


def _too_large(cores: float, memory_gb: float) -> str:
    return f"no server of the price table has {cores:.1f} cores and {memory_gb:.1f} GB of memory"


def _servers(name: str, count: int, machine: Machine) -> BillLine:
    return _line(f"{name}, {machine.name}", count, machine.price, "server", machine.source)


def _traffic(needs: Needs, machine: Machine, servers: int, prices: PriceTable) -> BillLine:
    more = max(0.0, needs.traffic.amount - servers * machine.traffic_tb)
    return _line("traffic beyond the server's", more, prices.traffic.price, "TB", prices.traffic.source)


def _metered(name: str, rate: Metered, *counts: tuple[float, str, float]) -> BillLine:
    """An item of the bill with several counted units: how many, of which kind, and how much each takes."""
    amount = sum(count * units for count, _, units in counts)
    by = " + ".join(f"{count:,.0f} {noun} x {units:.4g} {rate.unit}" for count, noun, units in counts)
    price = max(0.0, amount - rate.included) * rate.price
    return BillLine(name=name, amount=amount, unit=rate.unit, price=price, source=rate.source, by=by)


def _line(name: str, amount: float, price: float, unit: str, source: str) -> BillLine:
    return BillLine(name=name, amount=amount, unit=unit, price=amount * price, source=source)
