"""avm provider — health of the model providers of a server."""

import click

from agentvm.cli.api import Api, server_command
from agentvm.cli.table import Columns, Show, moment

EXAMPLES = """\b
Examples:
  avm provider list
  avm provider list --json
"""

COLUMNS: Columns = {
    "NAME": "name",
    "DRIVER": "driver",
    "DEFAULT MODEL": "defaultModel",
    "ROLE": "role",
    "STATE": "state",
    "SINCE (UTC)": moment("since"),
    "CALLS": "calls",
    "FAILURES": "failures",
    "CONSECUTIVE": "consecutiveFailures",
    "LAST ERROR": "lastError",
    "LAST SUCCESS (UTC)": moment("lastSuccessAt"),
    "NEXT RETRY (UTC)": moment("retryAt"),
    "ADDRESS": "baseUrl",
}


@click.group(epilog=EXAMPLES)
def provider() -> None:
    """Show model provider health."""


@provider.command("list", epilog=EXAMPLES)
@server_command
def list_providers(api: Api, show: Show) -> None:
    """List the server's model providers and their health."""
    show.items(api.items("provider.list"), COLUMNS, none="No providers found.")
