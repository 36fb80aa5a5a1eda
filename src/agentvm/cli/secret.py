"""avm secret — what a tenant entrusts to the server. A value is never an argument: everybody on a machine can list those."""

import sys

import click

from agentvm.cli.api import Api, asks_server, confirm, tenant_option, yes_option
from agentvm.cli.table import Columns, Show, moment, plain

EXAMPLES = """\b
Examples:
  avm secret set provider.anthropic                    the tenant's own key of Anthropic; asks for it
  avm secret set provider.anthropic < key.txt
  avm secret list
"""

COLUMNS: Columns = {"NAME": "name", "SET (UTC)": moment("updatedAt")}


@click.group(epilog=EXAMPLES)
def secret() -> None:
    """Keep secrets of a tenant on the server."""


@secret.command("list")
@tenant_option
@asks_server
def list_secrets(api: Api, show: Show) -> None:
    """List the names; values are never shown."""
    show.items(api.pages("secrets"), COLUMNS, none="There are no secrets.")


@secret.command("set", epilog=EXAMPLES)
@click.argument("name")
@tenant_option
@asks_server
def set_secret(api: Api, show: Show, name: str) -> None:
    """Store a secret, read from stdin, or asked for in a terminal."""
    api.put("secrets", name, body={"value": read_value(name)})
    show.done(f"The secret {plain(name)} is set.")


@secret.command("remove")
@click.argument("name")
@yes_option
@tenant_option
@asks_server
def remove_secret(api: Api, show: Show, name: str, yes: bool) -> None:
    """Remove a secret."""
    confirm(f"Remove the secret {plain(name)}? It cannot be read back.", yes=yes)
    api.delete("secrets", name)
    show.done(f"The secret {plain(name)} is removed.")


def read_value(name: str) -> str:
    """Without the line break that an editor or `echo` put behind it."""
    if sys.stdin.isatty():
        return str(click.prompt(f"Value of {plain(name)}", hide_input=True, err=True))
    value = sys.stdin.read().removesuffix("\n").removesuffix("\r")
    if not value:
        raise click.UsageError("The input is empty. Give the value on stdin, or run this command in a terminal.")
    return value
