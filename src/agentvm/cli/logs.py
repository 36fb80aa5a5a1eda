"""avm logs — what a server has logged: the newest entries, or each as it comes."""

from collections.abc import Iterable
from datetime import UTC, datetime
from itertools import islice

import click
import msgspec

from agentvm.cli.additions import added
from agentvm.cli.api import PAGE, Api, Query, asks_server, tenant_option
from agentvm.cli.names import SESSION, TURN, NamedOption
from agentvm.cli.table import Item, Show, plain
from agentvm.cli.when import past

EXAMPLES = """\b
Examples:
  avm logs                                  the newest 100
  avm logs --follow --level warning         each warning as it comes
  avm logs --turn turn_7                    what was said about one turn
  avm logs --since 2h --grep timeout --json
"""

_COLOURS = {"debug": "bright_black", "warning": "yellow", "error": "red", "critical": "red"}
_IDS = ("requestId", "tenantId", "userId", "containerId", "sessionId", "turnId")


@click.command(epilog=EXAMPLES)
@click.option("-f", "--follow", is_flag=True, help="Go on with each entry as it comes.")
@click.option(
    "--level", type=click.Choice(["debug", "info", "warning", "error", "critical"]), help="The least important that is shown."
)
@click.option("--since", type=past, help="Not before: 2h, 2026-11-15 or 2026-11-15T10:00.")
@click.option("--until", type=past, help="Before that.")
@click.option("--request", help="About this request.")
@click.option("--turn", cls=NamedOption, kind=TURN, help="About this turn.")
@click.option("--session", cls=NamedOption, kind=SESSION, help="About this session.")
@click.option("--container", help="About this container.")
@click.option("--event", help="Of this name.")
@click.option("--grep", "text", metavar="TEXT", help="With this text, in whatever case.")
@click.option("-n", "--lines", type=click.IntRange(1, 100_000), default=100, show_default=True, help="The newest so many.")
@tenant_option
@asks_server
def logs(api: Api, show: Show, /, follow: bool, lines: int, **wanted: str | int | None) -> None:
    """See what the server has logged, and follow it.

    The newest is last.
    """
    if follow:
        for entry in api.lines("logs", follow="true", limit=min(lines, PAGE), **wanted):
            _print(entry, show)
        click.echo("The server has ended it. To go on, run the same command again.", err=True)
        return
    query: Query = {"limit": min(lines, PAGE), **wanted}
    newest = list(islice(api.pages("logs", cursor="before", following="next", **query), lines))
    if not newest and not show.as_json:
        click.echo("Nothing was logged.", err=True)
    _print_all(reversed(newest), show)


def _print_all(entries: Iterable[Item], show: Show) -> None:
    for entry in entries:
        _print(entry, show)


def _print(entry: Item, show: Show) -> None:
    """One line each: JSON too, so that it can be read while it grows."""
    if show.as_json:
        click.echo(msgspec.json.encode(added(entry)).decode())
        return
    level = str(entry.get("level", ""))
    shown = click.style(f"{plain(level).upper():<8}", fg=_COLOURS.get(level))
    click.echo(f"{_time(entry.get('at'))} {shown} {click.style(plain(entry.get('event')), bold=True)}{_facts(entry)}")


def _time(at: object) -> str:
    try:
        return datetime.fromtimestamp(float(str(at)) / 1000, UTC).isoformat(sep=" ", timespec="milliseconds")[:23]
    except (ValueError, OverflowError, OSError):
        return plain(str(at))


def _facts(entry: Item) -> str:
    """Names and values come from others: nothing of them is obeyed by the terminal."""
    facts = entry.get("facts")
    pairs = dict(facts) if isinstance(facts, dict) else {}
    raised = entry.get("raised")
    if isinstance(raised, dict):
        places = raised.get("places")
        where = f" at {places[-1]}" if isinstance(places, list) and places else ""
        pairs["raised"] = f"{raised.get('kind')}{where}"
    pairs |= {name.removesuffix("Id"): entry[name] for name in _IDS if entry.get(name) is not None}
    return "".join(f" {plain(name)}={_value(value)}" for name, value in pairs.items())


def _value(value: object) -> str:
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    shown = plain(text)
    return f'"{shown}"' if isinstance(value, str) and (" " in shown or not shown) else shown
