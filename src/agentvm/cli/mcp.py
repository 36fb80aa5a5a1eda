"""avm mcp — the MCP servers on which AgentVM acts for a user."""

import click

from agentvm.cli.api import Api, confirm, tenant_command, yes_option
from agentvm.cli.table import Columns, Show, moment, plain

COLUMNS: Columns = {"SERVER": "server", "SINCE (UTC)": moment("since")}
user_option = click.option("--user", metavar="USER", help="Another user, by id or name (administrators).")


@click.group()
def mcp() -> None:
    """List the MCP servers that you are signed in to."""


@mcp.command("list")
@user_option
@tenant_command
def list_connections(api: Api, show: Show, user: str | None) -> None:
    """List the servers on which AgentVM acts for you."""
    show.items(api.call("mcp.connections", user=user)["items"], COLUMNS, none="No connections to MCP servers.")


@mcp.command("disconnect")
@click.argument("server")
@user_option
@yes_option
@tenant_command
def disconnect(api: Api, show: Show, server: str, user: str | None, yes: bool) -> None:
    """Sign out of SERVER, given by its address."""
    confirm(f"Disconnect from {plain(server)}?", yes=yes)
    api.call("mcp.disconnect", server=server, user=user)
    show.done(f"Disconnected from {plain(server)}.")
