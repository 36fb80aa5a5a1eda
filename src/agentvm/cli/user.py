"""avm user — the users of a tenant and their containers."""

import click

from agentvm.cli.api import Api, dry_run_option, tenant_command, yes_option
from agentvm.cli.deletion import delete_permanently
from agentvm.cli.names import USER, NamedType, find
from agentvm.cli.table import Columns, Show, listed, moment, plain
from agentvm.operations.http_face import NULL

EXAMPLES = """\b
Examples:
  avm user create alice --name "Alice Liddell"         with the container user-alice
  avm user create root@acme.example --role admin --tenant acme
  avm user bind alice team-notes                       gives access to a container
  avm user suspend alice                               closes her connections at once
"""

ROLES = ("owner", "admin", "member", "viewer")

COLUMNS: Columns = {
    "EXTERNAL ID": "externalId",
    "NAME": "displayName",
    "ROLE": "role",
    "STATUS": "status",
    "ID": "userId",
    "CREATED (UTC)": moment("createdAt"),
}
DETAILS: Columns = {
    "External id": "externalId",
    "Name": "displayName",
    "Role": "role",
    "Status": "status",
    "Id": "userId",
    "Tenant id": "tenantId",
    "Containers": listed("containers"),
    "Created (UTC)": moment("createdAt"),
    "Updated (UTC)": moment("updatedAt"),
}
user_argument = click.argument("user_id", metavar="USER", type=NamedType(USER))
ROLE_HELP = "Role: the maximum permissions of their keys."


@click.group(epilog=EXAMPLES)
def user() -> None:
    """Manage the users of a tenant and their containers."""


@user.command("create", epilog=EXAMPLES)
@click.argument("external_id")
@click.option("--name", help="Display name.")
@click.option("--role", type=click.Choice(ROLES), default="member", show_default=True, help=ROLE_HELP)
@tenant_command
def create_user(api: Api, show: Show, external_id: str, name: str | None, role: str) -> None:
    """Create a user. EXTERNAL_ID is your own name for them.

    A mail address, for example.
    """
    show.record(api.call("user.create", external_id=external_id, role=role, display_name=name), DETAILS)


@user.command("list")
@tenant_command
def list_users(api: Api, show: Show) -> None:
    """List users."""
    show.items(api.items("user.list"), COLUMNS, none="No users found.")


@user.command("show")
@click.argument("name", metavar="USER")
@tenant_command
def show_user(api: Api, show: Show, name: str) -> None:
    """Show a user (id, external id or name) and their containers."""
    item = find(api, USER, name)
    bound = api.items("user.list_containers", str(item["userId"]))
    show.record({**item, "containers": [container["containerId"] for container in bound]}, DETAILS)


@user.command("update")
@click.argument("name", metavar="USER")
@click.option("--name", "display_name", help="Display name; empty to remove it.")
@click.option("--role", type=click.Choice(ROLES), help=ROLE_HELP)
@tenant_command
def update_user(api: Api, show: Show, name: str, display_name: str | None, role: str | None) -> None:
    """Change a user's name or role. A new role closes their connections."""
    if display_name is None and role is None:
        raise click.UsageError("Nothing to change: use --name or --role.")
    user_id = str(find(api, USER, name)["userId"])
    new_name = NULL if display_name == "" else display_name
    show.record(api.call("user.update", user_id, display_name=new_name, role=role), DETAILS)


@user.command("suspend")
@user_argument
@tenant_command
def suspend_user(api: Api, show: Show, user_id: str) -> None:
    """Suspend a user and all of their keys."""
    show.record(api.call("user.update", user_id, status="suspended"), DETAILS)


@user.command("resume")
@user_argument
@tenant_command
def resume_user(api: Api, show: Show, user_id: str) -> None:
    """Resume a suspended user."""
    show.record(api.call("user.update", user_id, status="active"), DETAILS)


@user.command("delete")
@click.argument("name", metavar="USER")
@dry_run_option
@yes_option
@tenant_command
def delete_user(api: Api, show: Show, name: str, dry_run: bool, yes: bool) -> None:
    """Delete a user, their keys and the containers only they have.

    Their usage stays in the ledger. Containers of several users stay.
    """
    item = find(api, USER, name)
    described = f"the user {plain(item['externalId'])}"
    delete_permanently(api, show, described, "user.delete", str(item["userId"]), dry_run=dry_run, yes=yes)


@user.command("bind")
@click.argument("name", metavar="USER")
@click.argument("container")
@tenant_command
def bind_user(api: Api, show: Show, name: str, container: str) -> None:
    """Give a user access to a container."""
    item = find(api, USER, name)
    api.call("user.bind", str(item["userId"]), container)
    show.done(f"{plain(item['externalId'])} has access to {plain(container)} from the next connection on.")


@user.command("unbind")
@click.argument("name", metavar="USER")
@click.argument("container")
@tenant_command
def unbind_user(api: Api, show: Show, name: str, container: str) -> None:
    """Revoke a user's access to a container; closes their connections."""
    item = find(api, USER, name)
    api.call("user.unbind", str(item["userId"]), container)
    show.done(f"{plain(item['externalId'])} no longer has access to {plain(container)}.")
