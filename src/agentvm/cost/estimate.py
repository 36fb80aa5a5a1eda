"""Estimate — the monthly bill of a workload on one server with a spare, next to other platforms."""

import msgspec

from agentvm.cost.coefficients import Coefficients
from agentvm.cost.needs import Needs, needs_of
from agentvm.cost.prices import Machine, PriceTable
from agentvm.cost.workload import Workload, checked
from agentvm.model.base import Record

PROCESS_CORES_MAX = 1.0
"""Cores that one server process can use: its turns share one thread."""
SURCHARGE_SHARE = 0.05
"""The operator's charge on top of the tokens."""


class BillLine(Record):
    """An item of a bill."""

    name: str
    amount: float
    unit: str
    price: float
    """Dollars a month."""
    source: str


class PeerBill(Record):
    """The bill of another platform for the same turns."""

    name: str
    price: float
    ratio: float | None
    """How many times as much; none for a bill of nothing."""
    source: str


class Sensitivity(Record):
    """The bill of the workload with one assumption changed."""

    change: str
    price: float | None
    """None if one server cannot carry it."""


class Estimate(Record, omit_defaults=False):
    """A bill with everything it was computed from."""

    workload: Workload
    needs: Needs
    lines: tuple[BillLine, ...]
    """Empty if one server cannot carry the workload."""
    problem: str | None
    """Why one server cannot carry the workload."""
    total: float | None
    per_thousand_users: float | None
    break_even: float | None
    """The price of all tokens of a month from which on the surcharge pays the bill."""
    peers: tuple[PeerBill, ...]
    sensitivity: tuple[Sensitivity, ...]
    measured: Coefficients
    prices_of: str


def estimate(workload: Workload, measured: Coefficients, prices: PriceTable) -> Estimate:
    """Returns the bill of a workload; `InvalidInput` for numbers that are out of bounds."""
    workload = checked(workload)
    needs = needs_of(workload, measured)
    lines, problem = _bill(needs, prices)
    total = _total(lines)
    return Estimate(
        workload=workload,
        needs=needs,
        lines=lines,
        problem=problem,
        total=total,
        per_thousand_users=None if total is None else total / workload.users * 1_000,
        break_even=None if total is None else total / SURCHARGE_SHARE,
        peers=_peers(workload, prices, total),
        sensitivity=_sensitivity(workload, measured, prices),
        measured=measured,
        prices_of=prices.date.isoformat(),
    )


def _bill(needs: Needs, prices: PriceTable) -> tuple[tuple[BillLine, ...], str | None]:
    cores, memory = needs.server_cores.amount + needs.tool_cores.amount, needs.memory.amount
    if needs.server_cores.amount > PROCESS_CORES_MAX:
        return (), f"the turns need {needs.server_cores.amount:.1f} cores, and one server process uses one: several nodes"
    fitting = [each for each in prices.machines if each.cores >= cores and each.memory_gb >= memory]
    if not fitting:
        return (), f"no server of the price table has {cores:.1f} cores and {memory:.1f} GB of memory"
    machine = min(fitting, key=lambda each: each.price)
    return _lines(machine, needs, prices), None


def _lines(machine: Machine, needs: Needs, prices: PriceTable) -> tuple[BillLine, ...]:
    disk, traffic = needs.disk.amount, needs.traffic.amount
    more_disk, more_traffic = max(0.0, disk - machine.disk_gb), max(0.0, traffic - machine.traffic_tb)
    return (
        BillLine(name=f"server, {machine.name}", amount=1, unit="server", price=machine.price, source=machine.source),
        BillLine(name=f"spare, {machine.name}", amount=1, unit="server", price=machine.price, source=machine.source),
        _line("disk beyond the server's", more_disk, prices.disk.price, "GB", prices.disk.source),
        _line("disk beyond the spare's", more_disk, prices.disk.price, "GB", prices.disk.source),
        _line("backup", disk, prices.backup.price, "GB", prices.backup.source),
        _line("traffic beyond the server's", more_traffic, prices.traffic.price, "TB", prices.traffic.source),
    )


def _line(name: str, amount: float, price: float, unit: str, source: str) -> BillLine:
    return BillLine(name=name, amount=amount, unit=unit, price=amount * price, source=source)


def _total(lines: tuple[BillLine, ...]) -> float | None:
    return sum(line.price for line in lines) if lines else None


def _peers(workload: Workload, prices: PriceTable, total: float | None) -> tuple[PeerBill, ...]:
    hours = workload.turns * workload.seconds / 3_600
    bills = [(peer, workload.turns * peer.per_turn + hours * peer.per_hour) for peer in prices.peers]
    return tuple(
        PeerBill(name=peer.name, price=price, ratio=price / total if total else None, source=peer.source)
        for peer, price in bills
    )


def _sensitivity(workload: Workload, measured: Coefficients, prices: PriceTable) -> tuple[Sensitivity, ...]:
    changes: dict[str, dict[str, float]] = {
        "twice the turns": {"turns": workload.turns * 2},
        "ten times the text": {"text_bytes": workload.text_bytes * 10, "deltas": workload.deltas * 10},
        "1 % of the users connected": {"connected": 0.01},
        "a call of a tool in every turn": {"tools": 1.0},
        "conversations kept for a year": {"months": 12.0},
    }
    return tuple(
        Sensitivity(
            change=name, price=_total(_bill(needs_of(msgspec.structs.replace(workload, **fields), measured), prices)[0])
        )
        for name, fields in changes.items()
    )
