"""avm user — the people of a tenant, and which containers they reach."""

import click

from agentvm.cli.api import Api, asks_server, tenant_option, yes_option
from agentvm.cli.deleting import delete_for_good, dry_run_option
from agentvm.cli.names import USER, find
from agentvm.cli.table import Columns, Item, Show, listed, moment, plain

EXAMPLES = """\b
Examples:
  avm user create alice --name "Alice Liddell"         she gets the container user-alice
  avm user create root@acme.example --role admin --tenant acme
  avm user bind alice team-notes                       she reaches that container
  avm user suspend alice                               her connections end at once
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


@click.group(epilog=EXAMPLES)
def user() -> None:
    """Manage the users of a tenant and their containers."""


@user.command("create", epilog=EXAMPLES)
@click.argument("external_id")
@click.option("--name", help="What people call them.")
@click.option("--role", type=click.Choice(ROLES), default="member", show_default=True, help="The most that their keys may do.")
@tenant_option
@asks_server
def create_user(api: Api, show: Show, external_id: str, name: str | None, role: str) -> None:
    """Add a user. EXTERNAL_ID is your own name for them, such as a mail address."""
    body: Item = {"externalId": external_id, "role": role, **({} if name is None else {"displayName": name})}
    show.record(api.post("users", body=body), DETAILS)


@user.command("list")
@tenant_option
@asks_server
def list_users(api: Api, show: Show) -> None:
    """List the users."""
    show.items(api.pages("users"), COLUMNS, none="There are no users.")


@user.command("show")
@click.argument("name", metavar="USER")
@tenant_option
@asks_server
def show_user(api: Api, show: Show, name: str) -> None:
    """Show a user, by id, external id or name, and their containers."""
    found = find_user(api, name)
    bound = api.get("users", str(found["userId"]), "containers").get("items", [])
    show.record({**found, "containers": [item["containerId"] for item in bound]}, DETAILS)


@user.command("update")
@click.argument("name", metavar="USER")
@click.option("--name", "display_name", help="What people call them; empty for no name.")
@click.option("--role", type=click.Choice(ROLES), help="The most that their keys may do.")
@tenant_option
@asks_server
def update_user(api: Api, show: Show, name: str, display_name: str | None, role: str | None) -> None:
    """Change a user's name or role. Another role ends their connections."""
    change: Item = {}
    if display_name is not None:
        change["displayName"] = display_name or None
    if role is not None:
        change["role"] = role
    if not change:
        raise click.UsageError("Say what to change: --name or --role.")
    _change(api, show, name, change)


@user.command("suspend")
@click.argument("name", metavar="USER")
@tenant_option
@asks_server
def suspend_user(api: Api, show: Show, name: str) -> None:
    """Shut a user out, with all of their keys, until they are resumed."""
    _change(api, show, name, {"status": "suspended"})


@user.command("resume")
@click.argument("name", metavar="USER")
@tenant_option
@asks_server
def resume_user(api: Api, show: Show, name: str) -> None:
    """Let a suspended user in again."""
    _change(api, show, name, {"status": "active"})


@user.command("delete")
@click.argument("name", metavar="USER")
@dry_run_option
@yes_option
@tenant_option
@asks_server
def delete_user(api: Api, show: Show, name: str, dry_run: bool, yes: bool) -> None:
    """Delete a user, with their keys and all that is in containers of theirs alone. Their usage stays in the ledger.

    Containers that other users are bound to stay.
    """
    found = find_user(api, name)
    named, place = f"the user {plain(found['externalId'])}", ("users", str(found["userId"]))
    delete_for_good(api, show, named, place, dry_run=dry_run, yes=yes)


@user.command("bind")
@click.argument("name", metavar="USER")
@click.argument("container")
@tenant_option
@asks_server
def bind_user(api: Api, show: Show, name: str, container: str) -> None:
    """Let a user reach a container."""
    found = find_user(api, name)
    api.put("users", str(found["userId"]), "containers", container, body={})
    show.done(f"{plain(found['externalId'])} reaches {plain(container)}, from their next connection on.")


@user.command("unbind")
@click.argument("name", metavar="USER")
@click.argument("container")
@tenant_option
@asks_server
def unbind_user(api: Api, show: Show, name: str, container: str) -> None:
    """Take a container away from a user; their connections end."""
    found = find_user(api, name)
    api.delete("users", str(found["userId"]), "containers", container)
    show.done(f"{plain(found['externalId'])} no longer reaches {plain(container)}.")


def find_user(api: Api, name: str) -> Item:
    """By id, external id, name, or a unique beginning of the id."""
    return find(api, USER, name)


def _change(api: Api, show: Show, name: str, change: Item) -> None:
    show.record(api.put("users", str(find_user(api, name)["userId"]), body=change), DETAILS)
