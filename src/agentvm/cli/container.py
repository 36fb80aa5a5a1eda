"""avm container — list, show and delete containers."""

import click

from agentvm.cli.api import Api, dry_run_option, tenant_command, yes_option
from agentvm.cli.deletion import COLUMNS as OWNED
from agentvm.cli.deletion import delete_permanently
from agentvm.cli.table import Columns, Show, moment, plain

EXAMPLES = """\b
Examples:
  avm container list
  avm container show user-alice                        with counts of its data
  avm container delete user-alice --dry-run            shows what would be deleted
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
@tenant_command
def list_containers(api: Api, show: Show) -> None:
    """List the containers you have access to, oldest first."""
    show.items(api.items("container.browse"), COLUMNS, none="No containers found.")


@container.command("show")
@click.argument("name", metavar="CONTAINER")
@tenant_command
def show_container(api: Api, show: Show, name: str) -> None:
    """Show a container and count its data."""
    item = api.call("container.show", name)
    show.record(item if show.as_json else {**item, **item["owned"]}, DETAILS)


@container.command("delete", epilog=EXAMPLES)
@click.argument("name", metavar="CONTAINER")
@dry_run_option
@yes_option
@tenant_command
def delete_container(api: Api, show: Show, name: str, dry_run: bool, yes: bool) -> None:
    """Delete a container and its data permanently.

    Its usage stays in the ledger.
    """
    delete_permanently(api, show, f"the container {plain(name)}", "container.delete", name, dry_run=dry_run, yes=yes)
