"""avm container — which containers there are, what is in them, and how they go."""

import click

from agentvm.cli.api import Api, asks_server, tenant_option, yes_option
from agentvm.cli.deleting import COLUMNS as OWNED
from agentvm.cli.deleting import delete_for_good, dry_run_option
from agentvm.cli.table import Columns, Show, moment, plain

EXAMPLES = """\\b
Examples:
  avm container list
  avm container show user-alice                        what is in it
  avm container delete user-alice --dry-run            what would go
  avm container delete user-alice
"""

COLUMNS: Columns = {"CONTAINER": "containerId"}
DETAILS: Columns = {
    "Container": "containerId",
    "Created (UTC)": moment("createdAt"),
    "Updated (UTC)": moment("updatedAt"),
    **{name: OWNED[name] for name in ("Sessions", "Messages", "Attachments", "Bytes")},
}


@click.group(epilog=EXAMPLES)
def container() -> None:
    """List, show and delete containers."""


@container.command("list")
@tenant_option
@asks_server
def list_containers(api: Api, show: Show) -> None:
    """List the containers that you may reach, the oldest first."""
    show.items(api.pages("containers"), COLUMNS, none="There are no containers.")


@container.command("show")
@click.argument("name", metavar="CONTAINER")
@tenant_option
@asks_server
def show_container(api: Api, show: Show, name: str) -> None:
    """Show a container, and count what is in it."""
    found = api.get("containers", name)
    show.record(found if show.as_json else {**found, **found["owned"]}, DETAILS)


@container.command("delete", epilog=EXAMPLES)
@click.argument("name", metavar="CONTAINER")
@dry_run_option
@yes_option
@tenant_option
@asks_server
def delete_container(api: Api, show: Show, name: str, dry_run: bool, yes: bool) -> None:
    """Delete a container with all that is in it, for good. What was used stays in the ledger."""
    delete_for_good(api, show, f"the container {plain(name)}", ("containers", name), dry_run=dry_run, yes=yes)
