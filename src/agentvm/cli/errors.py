"""avm errors — what went wrong on a server, by kind."""

import click

from agentvm.cli.api import Api, asks_server, tenant_option
from agentvm.cli.table import Columns, Show, moment
from agentvm.cli.when import past

EXAMPLES = """\b
Examples:
  avm errors
  avm errors --since 1d --tenant acme
"""

COLUMNS: Columns = {
    "LAST (UTC)": moment("lastAt"),
    "FIRST (UTC)": moment("firstAt"),
    "COUNT": "count",
    "CODE": "code",
    "EVENT": "event",
    "WHERE": "where",
    "TENANT": "tenantId",
    "LAST TURN": "lastTurnId",
    "LAST REQUEST": "lastRequestId",
}


@click.command(epilog=EXAMPLES)
@click.option("--since", type=past, help="Not before: 2h, 2026-11-15 or 2026-11-15T10:00.")
@click.option("--until", type=past, help="Before that.")
@click.option("--limit", type=click.IntRange(1, 1_000), default=100, show_default=True, help="Those seen last, so many.")
@tenant_option
@asks_server
def errors(api: Api, show: Show, since: int | None, until: int | None, limit: int) -> None:
    """See what went wrong, by kind.

    What was seen last is first.
    """
    found = api.get("errors", since=since, until=until, limit=limit)
    show.items(found.get("items", []), COLUMNS, none="Nothing went wrong.")
