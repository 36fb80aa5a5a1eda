"""avm secret — secrets of a tenant, stored encrypted. A value is never an argument: other users can list arguments."""

import sys

import click

from agentvm.cli.api import Api, confirm, tenant_command, yes_option
from agentvm.cli.table import Columns, Show, moment, plain

EXAMPLES = """\b
Examples:
  avm secret set provider.anthropic                    the tenant's own Anthropic key; prompts for it
  avm secret set provider.anthropic < key.txt
  avm secret list
"""

COLUMNS: Columns = {"NAME": "name", "UPDATED (UTC)": moment("updatedAt")}


@click.group(epilog=EXAMPLES)
def secret() -> None:
    """Store secrets of a tenant on the server."""


@secret.command("list")
@tenant_command
def list_secrets(api: Api, show: Show) -> None:
    """List the names of secrets; values are never shown."""
    show.items(api.items("secret.list"), COLUMNS, none="No secrets found.")


@secret.command("set", epilog=EXAMPLES)
@click.argument("name")
@tenant_command
def set_secret(api: Api, show: Show, name: str) -> None:
    """Store a secret, read from stdin or a prompt."""
    api.call("secret.put", name, value=read_value(name))
    show.done(f"The secret {plain(name)} is stored.")


@secret.command("remove")
@click.argument("name")
@yes_option
@tenant_command
def remove_secret(api: Api, show: Show, name: str, yes: bool) -> None:
    """Remove a secret."""
    confirm(f"Remove the secret {plain(name)}? This cannot be undone.", yes=yes)
    api.call("secret.delete", name)
    show.done(f"The secret {plain(name)} is removed.")


def read_value(name: str) -> str:
    """A value from a prompt or stdin, without the trailing line break."""
    if sys.stdin.isatty():
        return str(click.prompt(f"Value of {plain(name)}", hide_input=True, err=True))
    value = sys.stdin.read().removesuffix("\n").removesuffix("\r")
    if not value:
        raise click.UsageError("The input is empty. Provide the value on stdin, or run this command in a terminal.")
    return value
