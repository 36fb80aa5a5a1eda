"""avm tenant — the customers of a server; for its operator."""

import click

from agentvm.cli.api import Api, dry_run_option, server_command, yes_option
from agentvm.cli.deletion import delete_permanently
from agentvm.cli.names import TENANT, NamedType
from agentvm.cli.table import Columns, Show, moment, plain
from agentvm.operations.http_face import NULL

EXAMPLES = """\b
Examples:
  avm tenant create acme --name "Acme Corporation"
  avm user create alice --tenant acme                  as the operator, in another tenant
  avm tenant suspend acme                              rejects all of its keys
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
tenant_argument = click.argument("tenant_id", metavar="TENANT", type=NamedType(TENANT))


@click.group(epilog=EXAMPLES)
def tenant() -> None:
    """Manage the tenants of a server."""


@tenant.command("create", epilog=EXAMPLES)
@click.argument("slug")
@click.option("--name", help="Display name (default: the slug).")
@click.option("--description", help="Description in one line.")
@click.option("--plan", help="Plan: default, free, pro, unlimited, or one from the settings.")
@server_command
def create_tenant(api: Api, show: Show, /, slug: str, name: str | None, **options: str | None) -> None:
    """Create a tenant. SLUG: lower-case letters, digits and hyphens."""
    show.record(api.call("tenant.create", slug=slug, name=name or slug, **options), DETAILS)


@tenant.command("list")
@server_command
def list_tenants(api: Api, show: Show) -> None:
    """List tenants."""
    show.items(api.items("tenant.list"), COLUMNS, none="No tenants found.")


@tenant.command("show")
@tenant_argument
@server_command
def show_tenant(api: Api, show: Show, tenant_id: str) -> None:
    """Show a tenant (id, slug or name)."""
    show.record(api.call("tenant.get", tenant_id), DETAILS)


@tenant.command("update")
@tenant_argument
@click.option("--slug", help="Slug: its name in commands.")
@click.option("--name", help="Display name.")
@click.option("--description", help="Description; empty to remove it.")
@click.option("--plan", help="Plan; empty for the default.")
@server_command
def update_tenant(
    api: Api, show: Show, /, tenant_id: str, description: str | None, plan: str | None, **names: str | None
) -> None:
    """Change a tenant's slug, name, description or plan."""
    change = {**names, "description": NULL if description == "" else description, "plan": NULL if plan == "" else plan}
    if all(value is None for value in change.values()):
        raise click.UsageError("Nothing to change: use --slug, --name, --description or --plan.")
    show.record(api.call("tenant.update", tenant_id, **change), DETAILS)


@tenant.command("suspend")
@tenant_argument
@server_command
def suspend_tenant(api: Api, show: Show, tenant_id: str) -> None:
    """Suspend a tenant: all of its keys are rejected."""
    show.record(api.call("tenant.update", tenant_id, status="suspended"), DETAILS)


@tenant.command("resume")
@tenant_argument
@server_command
def resume_tenant(api: Api, show: Show, tenant_id: str) -> None:
    """Resume a suspended tenant."""
    show.record(api.call("tenant.update", tenant_id, status="active"), DETAILS)


@tenant.command("delete")
@tenant_argument
@dry_run_option
@yes_option
@server_command
def delete_tenant(api: Api, show: Show, tenant_id: str, dry_run: bool, yes: bool) -> None:
    """Delete a tenant and its data. Ledger and audit log are kept."""
    slug = plain(api.call("tenant.get", tenant_id).get("slug"))
    delete_permanently(api, show, f"the tenant {slug}", "tenant.delete", tenant_id, dry_run=dry_run, yes=yes)
