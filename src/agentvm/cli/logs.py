"""avm logs — log entries of a server: the newest, or each as it is written."""

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

import click
import msgspec

from agentvm.cli.api import Api, tenant_command
from agentvm.cli.derived_fields import with_derived_fields
from agentvm.cli.names import SESSION, TURN, NamedType
from agentvm.cli.options import container_option, node_option, since_option, until_option
from agentvm.cli.table import Item, Show, plain

EXAMPLES = """\b
Examples:
  avm logs                                  the newest 100 entries
  avm logs --follow --level warning         new warnings and errors as they are written
  avm logs --turn turn_7                    entries about one turn
  avm logs --since 2h --grep timeout --json
"""

_COLOURS = {"debug": "bright_black", "warning": "yellow", "error": "red", "critical": "red"}
_FOLLOWED_LINES_MAX = 1_000
_IDS = ("requestId", "tenantId", "userId", "containerId", "sessionId", "turnId", "nodeId")


@click.command(epilog=EXAMPLES)
@click.option("-f", "--follow", is_flag=True, help="Print new entries as they are written.")
@click.option("--level", type=click.Choice(["debug", "info", "warning", "error", "critical"]), help="Minimum level.")
@since_option
@until_option
@click.option("--request", "request_id", help="Only this request.")
@click.option("--turn", "turn_id", type=NamedType(TURN), help="Only this turn.")
@click.option("--session", "session_id", type=NamedType(SESSION), help="Only this session.")
@container_option
@click.option("--event", help="Only this event.")
@click.option("--grep", "text", metavar="TEXT", help="Only entries that contain TEXT, ignoring case.")
@node_option
@click.option("-n", "--lines", type=click.IntRange(1, 100_000), default=100, show_default=True, help="Number of lines.")
@tenant_command
def logs(api: Api, show: Show, /, follow: bool, lines: int, nodes: str | None, **query: Any) -> None:
    """Show and follow the server log, newest last.

    In a cluster the entries of all nodes are listed; --follow prints those of the node that is asked.
    """
    if follow:
        if nodes is not None:
            raise click.UsageError("--follow prints the entries of the node that is asked: name that node with --url.")
        _print_all(api.lines("log.list", follow=True, limit=min(lines, _FOLLOWED_LINES_MAX), **query), show)
        click.echo("The server closed the stream. Run the command again to continue.", err=True)
        return
    newest = list(api.items("log.list", at_most=lines, nodes=nodes or "all", **query))
    if not newest and not show.as_json:
        click.echo("No log entries found.", err=True)
    _print_all(reversed(newest), show)


def _print_all(entries: Iterable[Item], show: Show) -> None:
    """Prints one line per entry, also as JSON, so that a program can read a stream."""
    for entry in entries:
        if show.as_json:
            click.echo(msgspec.json.encode(with_derived_fields(entry)).decode())
            continue
        level = str(entry.get("level", ""))
        label = click.style(f"{plain(level).upper():<8}", fg=_COLOURS.get(level))
        click.echo(f"{_time(entry.get('at'))} {label} {click.style(plain(entry.get('event')), bold=True)}{_facts(entry)}")


def _time(at: object) -> str:
    try:
        return datetime.fromtimestamp(float(str(at)) / 1000, UTC).isoformat(sep=" ", timespec="milliseconds")[:23]
    except (ValueError, OverflowError, OSError):
        return plain(str(at))


def _facts(entry: Item) -> str:
    """The fields of an entry as ` name=value` pairs, with control characters escaped."""
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
    text = plain(value if isinstance(value, str) else msgspec.json.encode(value).decode())
    return f'"{text}"' if isinstance(value, str) and (" " in text or not text) else text
