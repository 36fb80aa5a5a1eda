"""avm audit — what was done in a tenant, by whom, and whether it was refused."""

from itertools import islice

import click

from agentvm.cli.api import PAGE, Api, asks_server, tenant_option
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
    """See what was done in a tenant."""


@audit.command("list", epilog=EXAMPLES)
@click.option("--action", help="Only this kind, such as key.create.")
@click.option("--limit", type=click.IntRange(1, 100_000), default=100, show_default=True, help="The newest so many.")
@tenant_option
@asks_server
def list_entries(api: Api, show: Show, action: str | None, limit: int) -> None:
    """List what was done, newest first."""
    entries = api.pages("audit", cursor="before", action=action, limit=min(limit, PAGE))
    found = list(islice(entries, limit))
    if not show.as_json:
        names = {**names_of(api, USER), **names_of(api, KEY)}
        found = [{**item, **{member: _named(item.get(member), names) for member in ("actor", "target")}} for item in found]
    show.items(found, COLUMNS, none="Nothing was done.")


def _named(text: object, names: dict[object, object]) -> str:
    """Ids of users and keys, each with the name it has for people."""
    return "/".join(f"{part} ({names[part]})" if names.get(part) else part for part in str(text or "").split("/"))
