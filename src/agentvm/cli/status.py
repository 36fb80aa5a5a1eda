"""avm status — health of a running server."""

import click

from agentvm.cli.api import Api, server_command
from agentvm.cli.table import Columns, Show, plain

EXAMPLES = """\b
Examples:
  avm status
  avm status --json
"""

COLUMNS: Columns = {"CHECK": "name", "STATUS": "status", "": "message"}
OF_NODES: Columns = {"NODE": "nodeId", **COLUMNS}


@click.command(epilog=EXAMPLES)
@server_command
def status(api: Api, show: Show) -> int:
    """Show server health and remedies.

    The exit code is 1 when a check fails; warnings do not count.
    """
    report = api.call("metric.status", nodes="all")
    if show.as_json:
        show.json(report)
    else:
        columns = OF_NODES if report.get("nodes") else COLUMNS
        show.items(report.get("checks", []), columns, none="The server reports no checks.")
        uptime = int(report.get("uptimeSeconds", 0))
        click.echo(f"{plain(report.get('status'))}: AgentVM {plain(report.get('version'))}, up for {uptime:,} s")
    return 1 if report.get("status") == "fail" else 0
