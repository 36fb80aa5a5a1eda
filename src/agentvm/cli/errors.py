"""avm errors — errors of a server, grouped by kind."""

import click

from agentvm.cli.api import Api, tenant_command
from agentvm.cli.options import node_option, since_option, until_option
from agentvm.cli.table import Columns, Show, moment

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
    "NODES": "nodes",
    "LAST TURN": "lastTurnId",
    "LAST REQUEST": "lastRequestId",
}


@click.command(epilog=EXAMPLES)
@since_option
@until_option
@node_option
@click.option("--limit", type=click.IntRange(1, 1_000), default=100, show_default=True, help="Maximum number.")
@tenant_command
def errors(api: Api, show: Show, since: int | None, until: int | None, nodes: str | None, limit: int) -> None:
    """List errors by kind, latest first.

    In a cluster those of all nodes.
    """
    groups = api.items("error.list", since=since, until=until, nodes=nodes or "all", at_most=limit)
    show.items(groups, COLUMNS, none="No errors found.")
