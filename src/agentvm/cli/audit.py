"""avm audit — the audit log of a tenant: actions, actors and results."""

import click

from agentvm.cli.api import Api, tenant_command
from agentvm.cli.names import KEY, USER, names_of
from agentvm.cli.table import Columns, Show, moment

EXAMPLES = """\b
Examples:
  avm audit list
  avm audit list --action key.create --tenant acme --limit 20
"""

COLUMNS: Columns = {
    "TIME (UTC)": moment("at"),
    "ACTOR": "actor",
    "ACTION": "action",
    "TARGET": "target",
    "RESULT": "result",
    "FROM": "address",
}


@click.group(epilog=EXAMPLES)
def audit() -> None:
    """Show the audit log of a tenant."""


@audit.command("list", epilog=EXAMPLES)
@click.option("--action", help="Only this action, such as key.create.")
@click.option("--limit", type=click.IntRange(1, 100_000), default=100, show_default=True, help="Maximum number.")
@tenant_command
def list_entries(api: Api, show: Show, action: str | None, limit: int) -> None:
    """List audit entries, newest first."""
    entries = list(api.items("audit.list", at_most=limit, action=action))
    if not show.as_json:
        names = {**names_of(api, USER), **names_of(api, KEY)}
        entries = [{**item, **{field: _named(item.get(field), names) for field in ("actor", "target")}} for item in entries]
    show.items(entries, COLUMNS, none="No audit entries found.")


def _named(text: object, names: dict[object, object]) -> str:
    """The ids of users and keys, each followed by its name."""
    return "/".join(f"{part} ({names[part]})" if names.get(part) else part for part in str(text or "").split("/"))
