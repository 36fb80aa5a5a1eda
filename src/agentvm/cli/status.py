"""avm status — whether a running server is well."""

import click

from agentvm.cli.api import Api, asks_server
from agentvm.cli.table import Columns, Show, plain

EXAMPLES = """\b
Examples:
  avm status
  avm status --json
"""

COLUMNS: Columns = {"CHECK": "name", "STATUS": "status", "": "message"}


@click.command(epilog=EXAMPLES)
@asks_server
def status(api: Api, show: Show) -> int:
    """See whether the server is well, and what to do if not.

    The exit code is 1 when something fails; a warning is none.
    """
    told = api.get("status")
    if show.as_json:
        show.json(told)
    else:
        show.items(told.get("checks", []), COLUMNS, none="The server says nothing of itself.")
        uptime = int(told.get("uptimeSeconds", 0))
        click.echo(f"{plain(told.get('status'))}: AgentVM {plain(told.get('version'))}, up for {uptime:,} s")
    return 1 if told.get("status") == "fail" else 0
