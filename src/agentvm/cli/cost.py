"""avm cost — the monthly cost of serving a number of users, from measured coefficients and a price table."""

from pathlib import Path

import click

from agentvm.cli.options import json_option
from agentvm.cli.table import Show, table
from agentvm.cost import coefficients, prices
from agentvm.cost.estimate import Estimate, estimate
from agentvm.cost.needs import Needs, Requirement
from agentvm.cost.shapes import SHAPES, Shape
from agentvm.cost.workload import Workload

EXAMPLES = """\b
Examples:
  avm cost                                          a million users, 30 million turns a month
  avm cost --users 1000 --turns 30000
  avm cost --shape cluster                          nodes, PostgreSQL and its standby
  avm cost --print-prices > prices.yaml             then edit it, and
  avm cost --prices prices.yaml --json
"""

_DEFAULT = Workload()
TITLES: dict[Shape, str] = {"one-node": "ONE SERVER AND A SPARE", "cluster": "A CLUSTER", "edge": "AT THE EDGE"}
_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.command(epilog=EXAMPLES)
@click.option("--users", type=int, default=_DEFAULT.users, show_default=True, help="Registered users.")
@click.option("--turns", type=int, default=_DEFAULT.turns, show_default=True, help="Turns of all users in a month.")
@click.option("--seconds", type=float, default=_DEFAULT.seconds, show_default=True, help="Duration of a turn.")
@click.option("--deltas", type=float, default=_DEFAULT.deltas, show_default=True, help="Deltas of an answer.")
@click.option("--text-bytes", type=float, default=_DEFAULT.text_bytes, show_default=True, help="Bytes of text per turn.")
@click.option(
    "--connected", type=float, default=_DEFAULT.connected, show_default=True, help="Share of users connected at once."
)
@click.option("--peak", type=float, default=_DEFAULT.peak, show_default=True, help="Busiest minutes, times the average.")
@click.option("--tools", type=float, default=_DEFAULT.tools, show_default=True, help="Sandbox calls per turn.")
@click.option("--tool-seconds", type=float, default=_DEFAULT.tool_seconds, show_default=True, help="Duration of such a call.")
@click.option("--visits", type=float, default=_DEFAULT.visits, show_default=True, help="Connections opened per turn.")
@click.option("--months", type=float, default=_DEFAULT.months, show_default=True, help="Retention of conversations, in months.")
@click.option("--shape", type=click.Choice(SHAPES), default="one-node", show_default=True, help="Deployment.")
@click.option("--prices", "price_file", type=_FILE, help="Your price table (YAML) instead of the shipped example.")
@click.option("--coefficients", "coefficient_file", type=_FILE, help="Coefficients measured by bench.cost (JSON).")
@click.option("--print-prices", is_flag=True, help="Print the shipped price table and exit.")
@json_option
def cost(
    shape: Shape, price_file: Path | None, coefficient_file: Path | None, print_prices: bool, as_json: bool, **workload: float
) -> None:
    """Estimate the monthly cost of serving users.

    Tokens of models are not part of it.
    """
    if print_prices:
        click.echo(prices.shipped_text(), nl=False)
        return
    measured = coefficients.shipped() if coefficient_file is None else coefficients.read(coefficient_file)
    priced = prices.shipped() if price_file is None else prices.read(price_file)
    result = estimate(Workload(**workload), measured, priced, shape)  # type: ignore[arg-type]  # checked by estimate()
    if as_json:
        Show(as_json=True).json(result, exact=True)
    else:
        _show(result)


def _show(report: Estimate) -> None:
    work = report.workload
    click.echo(
        f"{work.users:,} users, {work.turns:,} turns a month of {work.seconds:g} s: {work.turns_per_second:.1f} turns/s, "
        f"{work.peak_turns_per_second:.1f} in the busiest minutes with {work.streams:,.0f} under way.\n"
    )
    if report.shape == "edge":
        _show_counts(report)
    else:
        _show_needs(report.needs)
    if report.total is None:
        click.echo(f"This shape has no price: {report.problem}.")
    else:
        rows = [(line.name, f"{line.amount:,.1f} {line.unit}", _dollars(line.price), line.source) for line in report.lines]
        click.echo(
            table((TITLES[report.shape], "AMOUNT", "A MONTH", "SOURCE"), [*rows, ("total", "", _dollars(report.total), "")])
        )
        click.echo(
            f"\nThe surcharge of 5 % pays this when the tokens of all users cost {_dollars(report.break_even)} a month.\n"
        )
    peers = [
        (peer.name, _dollars(peer.price), "" if peer.ratio is None else f"{peer.ratio:,.0f}x", peer.source)
        for peer in report.peers
    ]
    if peers:
        click.echo(table(("OTHER PLATFORMS, SAME TURNS", "A MONTH", "", "SOURCE"), peers))
        click.echo()
    changes = [
        (effect.change, "not in this shape" if effect.price is None else _dollars(effect.price))
        for effect in report.sensitivity
    ]
    click.echo(table(("WHAT IF", "A MONTH"), changes))
    measures = [(measure.name, f"{measure.value:,.10g}", measure.unit, measure.source) for measure in report.measures]
    click.echo(f"\n{table(('MEASURED', '', 'UNIT', 'SOURCE'), measures)}")
    measured = report.measured
    click.echo(
        f"\nMeasured {measured.date} with AgentVM {measured.version} on {measured.machine}; prices of {report.prices_of}."
    )


def _show_counts(report: Estimate) -> None:
    rows = [(line.name, f"{round(line.amount, 3):,.15g}", line.unit, line.by) for line in report.lines]
    if rows:
        click.echo(f"{table(('NEEDED', '', 'UNIT', 'BECAUSE'), rows)}\n")


def _show_needs(needs: Needs) -> None:
    requirements = {
        "server cores": needs.server_cores,
        "sandbox cores": needs.tool_cores,
        "memory": needs.memory,
        "disk": needs.disk,
        "disk syncs": needs.disk_syncs,
        "backup": needs.backup,
        "traffic": needs.traffic,
    }
    rows = [row for name, need in requirements.items() for row in _rows(name, need)]
    click.echo(f"{table(('NEEDED', '', 'UNIT', 'BECAUSE'), rows)}\n")


def _rows(name: str, need: Requirement) -> list[tuple[str, str, str, str]]:
    return [(f"{name}: {term.name}", f"{term.amount:,.3f}", need.unit, term.by) for term in need.terms]


def _dollars(amount: float | None) -> str:
    return "" if amount is None else f"${amount:,.2f}"
