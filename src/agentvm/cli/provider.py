"""avm provider — how the providers of models are that a server asks."""

import click

from agentvm.cli.api import Api, asks_server
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
    "IN A ROW": "consecutiveFailures",
    "LAST ERROR": "lastError",
    "LAST SUCCESS (UTC)": moment("lastSuccessAt"),
    "NOT ASKED BEFORE (UTC)": moment("retryAt"),
    "ADDRESS": "baseUrl",
}


@click.group(epilog=EXAMPLES)
def provider() -> None:
    """See how the providers of models are."""


@provider.command("list", epilog=EXAMPLES)
@asks_server
def list_providers(api: Api, show: Show) -> None:
    """List the providers that the server asks with its own keys, and whether they answer."""
    show.items(api.pages("providers"), COLUMNS, none="There are no providers.")
