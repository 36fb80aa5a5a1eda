"""avm tenant — the customers of a server; for its operator."""

import click

from agentvm.cli.api import Api, asks_server, yes_option
from agentvm.cli.deleting import delete_for_good, dry_run_option
from agentvm.cli.names import TENANT, NamedArgument
from agentvm.cli.table import Columns, Item, Show, moment, plain

EXAMPLES = """\b
Examples:
  avm tenant create acme --name "Acme Corporation"
  avm user create alice --tenant acme                  what the operator does in a tenant
  avm tenant suspend acme                              nobody of it gets in
"""

COLUMNS: Columns = {
    "SLUG": "slug",
    "NAME": "name",
    "STATUS": "status",
    "PLAN": "plan",
    "ID": "tenantId",
    "CREATED (UTC)": moment("createdAt"),
}
DETAILS: Columns = {
    "Slug": "slug",
    "Name": "name",
    "Description": "description",
    "Status": "status",
    "Plan": "plan",
    "Id": "tenantId",
    "Created (UTC)": moment("createdAt"),
    "Updated (UTC)": moment("updatedAt"),
}


@click.group(epilog=EXAMPLES)
def tenant() -> None:
    """Manage the tenants of a server."""


@tenant.command("create", epilog=EXAMPLES)
@click.argument("slug")
@click.option("--name", help="What people call it; by default the slug.")
@click.option("--description", help="A line about it.")
@click.option("--plan", help="What it may use: default, free, pro, unlimited, or a plan of your settings.")
@asks_server
def create_tenant(api: Api, show: Show, slug: str, name: str | None, description: str | None, plan: str | None) -> None:
    """Add a tenant. SLUG is its name in commands: small letters, digits and hyphens."""
    body: Item = {"slug": slug, "name": name or slug, "description": description, "plan": plan}
    show.record(api.post("tenants", body={member: value for member, value in body.items() if value is not None}), DETAILS)


@tenant.command("list")
@asks_server
def list_tenants(api: Api, show: Show) -> None:
    """List the tenants."""
    show.items(api.pages("tenants"), COLUMNS, none="There are no tenants.")


@tenant.command("show")
@click.argument("name", metavar="TENANT", cls=NamedArgument, kind=TENANT)
@asks_server
def show_tenant(api: Api, show: Show, name: str) -> None:
    """Show a tenant, by id, slug or name."""
    show.record(api.get("tenants", name), DETAILS)


@tenant.command("update")
@click.argument("named", metavar="TENANT", cls=NamedArgument, kind=TENANT)
@click.option("--slug", help="Another name in commands.")
@click.option("--name", help="What people call it.")
@click.option("--description", help="A line about it; empty for none.")
@click.option("--plan", help="What it may use, see create; empty for the default.")
@asks_server
def update_tenant(
    api: Api, show: Show, named: str, slug: str | None, name: str | None, description: str | None, plan: str | None
) -> None:
    """Change a tenant's names, description or plan."""
    change: Item = {member: value for member, value in (("slug", slug), ("name", name)) if value is not None}
    change |= {member: value or None for member, value in (("description", description), ("plan", plan)) if value is not None}
    if not change:
        raise click.UsageError("Say what to change: --slug, --name, --description or --plan.")
    show.record(api.put("tenants", named, body=change), DETAILS)


@tenant.command("suspend")
@click.argument("name", metavar="TENANT", cls=NamedArgument, kind=TENANT)
@asks_server
def suspend_tenant(api: Api, show: Show, name: str) -> None:
    """Shut everybody of a tenant out until it is resumed."""
    show.record(api.put("tenants", name, body={"status": "suspended"}), DETAILS)


@tenant.command("resume")
@click.argument("name", metavar="TENANT", cls=NamedArgument, kind=TENANT)
@asks_server
def resume_tenant(api: Api, show: Show, name: str) -> None:
    """Let a suspended tenant in again."""
    show.record(api.put("tenants", name, body={"status": "active"}), DETAILS)


@tenant.command("delete")
@click.argument("name", metavar="TENANT", cls=NamedArgument, kind=TENANT)
@dry_run_option
@yes_option
@asks_server
def delete_tenant(api: Api, show: Show, name: str, dry_run: bool, yes: bool) -> None:
    """Delete a tenant with everything that is its own. Its ledger and its audit log stay."""
    slug = plain(api.get("tenants", name).get("slug"))
    delete_for_good(api, show, f"the tenant {slug}", ("tenants", name), dry_run=dry_run, yes=yes)
