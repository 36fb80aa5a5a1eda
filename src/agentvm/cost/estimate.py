"""Estimate — the monthly bill of a workload in one shape of running it, next to other platforms."""

import msgspec

from agentvm.cost.coefficients import Coefficients, NamedMeasure, list_measures
from agentvm.cost.needs import Needs, needs_of
from agentvm.cost.prices import PriceTable
from agentvm.cost.shapes import BillLine, Shape, bill_of, total_of
from agentvm.cost.workload import Workload, checked
from agentvm.model.base import Record

SURCHARGE_SHARE = 0.05
"""The operator's charge on top of the tokens."""


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
    """None if the shape cannot carry it."""


class Estimate(Record, omit_defaults=False):
    """A bill with everything it was computed from."""

    workload: Workload
    shape: Shape
    needs: Needs
    """The needs of servers; the edge is billed by its own units."""
    lines: tuple[BillLine, ...]
    """Empty if the shape cannot carry the workload."""
    problem: str | None
    """Why the shape cannot carry the workload."""
    total: float | None
    per_thousand_users: float | None
    break_even: float | None
    """The price of all tokens of a month from which on the surcharge pays the bill."""
    peers: tuple[PeerBill, ...]
    sensitivity: tuple[Sensitivity, ...]
    measures: tuple[NamedMeasure, ...]
    """The coefficients that the shape was computed from."""
    measured: Coefficients
    prices_of: str


def estimate(workload: Workload, measured: Coefficients, prices: PriceTable, shape: Shape = "one-node") -> Estimate:
    """Returns the bill of a workload; `InvalidInput` for numbers that are out of bounds."""
    workload = checked(workload)
    lines, problem = bill_of(shape, workload, measured, prices)
    total = total_of(lines)
    return Estimate(
        workload=workload,
        shape=shape,
        needs=needs_of(workload, measured),
        lines=lines,
        problem=problem,
        total=total,
        per_thousand_users=None if total is None else total / workload.users * 1_000,
        break_even=None if total is None else total / SURCHARGE_SHARE,
        peers=_peers(workload, prices, total),
        sensitivity=_sensitivity(shape, workload, measured, prices),
        measures=_measures(shape, measured),
        measured=measured,
        prices_of=prices.date.isoformat(),
    )


def _measures(shape: Shape, measured: Coefficients) -> tuple[NamedMeasure, ...]:
    of_servers = list_measures(measured)
    if shape == "one-node":
        return of_servers
    if shape == "cluster":
        return (*of_servers, *list_measures(measured.cluster))
    of_sandboxes = {"cpu per tool call", "memory of server", "memory per jail"}
    return (*list_measures(measured.edge), *(measure for measure in of_servers if measure.name in of_sandboxes))


def _peers(workload: Workload, prices: PriceTable, total: float | None) -> tuple[PeerBill, ...]:
    hours = workload.turns * workload.seconds / 3_600
    bills = [(peer, workload.turns * peer.per_turn + hours * peer.per_hour) for peer in prices.peers]
    return tuple(
        PeerBill(name=peer.name, price=price, ratio=price / total if total else None, source=peer.source)
        for peer, price in bills
    )


def _sensitivity(shape: Shape, workload: Workload, measured: Coefficients, prices: PriceTable) -> tuple[Sensitivity, ...]:
    changes: dict[str, dict[str, float]] = {
        "twice the turns": {"turns": workload.turns * 2},
        "ten times the text": {"text_bytes": workload.text_bytes * 10, "deltas": workload.deltas * 10},
        "1 % of the users connected": {"connected": 0.01},
        "a call of a tool in every turn": {"tools": 1.0},
        "conversations kept for a year": {"months": 12.0},
    }
    changed = {name: msgspec.structs.replace(workload, **fields) for name, fields in changes.items()}
    return tuple(
        Sensitivity(change=name, price=total_of(bill_of(shape, work, measured, prices)[0])) for name, work in changed.items()
    )
