"""Deleting — how commands delete for good: what would go is counted and shown first, then it is asked for."""

import click

from agentvm.cli.api import Api, confirm
from agentvm.cli.table import Columns, Item, Show, listed

COUNTS = {
    "sessions": "session",
    "messages": "message",
    "attachments": "file",
    "resources": "resource",
    "users": "user",
    "keys": "key",
    "secrets": "secret",
}
"""The things that are counted, and what one of each is called."""

COLUMNS: Columns = {
    "Containers": listed("containers"),
    **{name.capitalize(): name for name in COUNTS},
    "Bytes": "bytes",
    "Resources that stay for others": "keptResources",
}

dry_run_option = click.option("--dry-run", is_flag=True, help="Only count what would go.")


def delete_for_good(api: Api, show: Show, named: str, place: tuple[str, ...], *, dry_run: bool, yes: bool) -> None:
    """`named` is what people call the thing, `place` where it is in the API."""
    if dry_run:
        show.record(api.delete_dryly(*place), COLUMNS)
        return
    if not yes:
        confirm(f"Delete {named} with {summed_up(api.delete_dryly(*place))}? It cannot be undone.", yes=yes)
    api.delete(*place)
    show.done(f"{named[0].upper()}{named[1:]} is deleted.")


def summed_up(owned: Item) -> str:
    """In words: `2 sessions, 10 messages (1,204 bytes)`."""
    counted = [f"{owned[name]:,} {one}{'' if owned[name] == 1 else 's'}" for name, one in COUNTS.items() if owned.get(name)]
    kept = owned.get("keptResources")
    said = ", ".join(counted) or "nothing in it"
    weight = f" ({owned['bytes']:,} bytes)" if owned.get("bytes") else ""
    return f"{said}{weight}{f'; {kept:,} of the resources stay for others who use them' if kept else ''}"
