"""avm secret — secrets of a tenant, stored encrypted. A value is never an argument: other users can list arguments."""

import sys

import click

from agentvm.cli.api import Api, confirm, tenant_command, yes_option
from agentvm.cli.options import keep_name
from agentvm.cli.table import Columns, Show, listed, moment, plain

EXAMPLES = """\b
Examples:
  avm secret set provider.anthropic                    the tenant's own Anthropic key; prompts for it
  avm secret set provider.anthropic < key.txt
  avm secret list
  avm secret grant ACME_KEY acme/orders --host api.acme.org --as header
  avm secret revoke ACME_KEY acme/orders
"""

COLUMNS: Columns = {"NAME": "name", "UPDATED (UTC)": moment("updatedAt")}
GRANTS: Columns = {
    "SECRET": "secret",
    "TOOL": "tool",
    "AS": "as",
    "HOSTS": listed("hosts"),
    "BY": "grantedBy",
    "GRANTED (UTC)": moment("grantedAt"),
}

use_option = click.option("--as", "use", type=click.Choice(("header", "query", "env")), help="How the tool uses the secret.")


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


@secret.command("delete")
@click.argument("name")
@yes_option
@tenant_command
def delete_secret(api: Api, show: Show, name: str, yes: bool) -> None:
    """Delete a secret and its grants."""
    confirm(f"Delete the secret {plain(name)}? This cannot be undone.", yes=yes)
    api.call("secret.delete", name)
    show.done(f"The secret {plain(name)} is deleted.")


keep_name(secret, "remove", delete_secret)


@secret.command("grant", epilog=EXAMPLES)
@click.argument("name")
@click.argument("tool")
@click.option("--host", "hosts", multiple=True, metavar="HOST", help="Host that the value may go to, such as api.acme.org.")
@use_option
@tenant_command
def grant_secret(api: Api, show: Show, name: str, tool: str, hosts: tuple[str, ...], use: str | None) -> None:
    """Grant a tool access to a secret.

    TOOL is a name, owner/name, a URI, or stdio:ID for an MCP server of the operator. As a header (default) or a query the value
    goes to the named hosts only; as env it is a variable of code that can reach no other hosts.
    """
    grant = api.call("secret.grant", secret=name, tool=tool, hosts=hosts, use=use or "header")
    where = f" for {', '.join(grant['hosts'])}" if grant["hosts"] else ""
    show.done(f"{plain(grant['tool'])} may use {plain(name)} as {grant['as']}{plain(where)}.", grant)


@secret.command("grants")
@click.argument("name", required=False)
@tenant_command
def list_grants(api: Api, show: Show, name: str | None) -> None:
    """List the tools that may use secrets."""
    show.items(api.items("secret.grants", secret=name), GRANTS, none="No grants found.")


@secret.command("revoke")
@click.argument("name")
@click.argument("tool")
@use_option
@tenant_command
def revoke_grant(api: Api, show: Show, name: str, tool: str, use: str | None) -> None:
    """Revoke a tool's access to a secret."""
    api.call("secret.revoke", secret=name, tool=tool, use=use)
    show.done(f"{plain(tool)} may no longer use {plain(name)}.")


def read_value(name: str) -> str:
    """A value from a prompt or stdin, without the trailing line break."""
    if sys.stdin.isatty():
        return str(click.prompt(f"Value of {plain(name)}", hide_input=True, err=True))
    value = sys.stdin.read().removesuffix("\n").removesuffix("\r")
    if not value:
        raise click.UsageError("The input is empty. Provide the value on stdin, or run this command in a terminal.")
    return value
