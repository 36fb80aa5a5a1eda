"""Deletion — permanent deletion of users, containers and tenants: count, confirm, delete."""

from agentvm.cli.api import Api, confirm
from agentvm.cli.table import Columns, Item, Show, counted, listed

COUNTS = {
    "sessions": "session",
    "messages": "message",
    "attachments": "file",
    "resources": "resource",
    "users": "user",
    "keys": "key",
    "secrets": "secret",
}
"""Counted fields of the response, each with its singular."""

COLUMNS: Columns = {
    "Containers": listed("containers"),
    **{name.capitalize(): name for name in COUNTS},
    "Bytes": "bytes",
    "Resources kept for other tenants": "keptResources",
}


def delete_permanently(api: Api, show: Show, name: str, operation: str, item_id: str, *, dry_run: bool, yes: bool) -> None:
    """Counts the data, asks for confirmation and deletes it; `name` is for the messages."""
    if dry_run:
        show.record(api.call(operation, item_id, dry_run=True), COLUMNS)
        return
    if not yes:
        owned = describe_owned(api.call(operation, item_id, dry_run=True))
        confirm(f"Delete {name} with {owned}? This cannot be undone.", yes=yes)
    api.call(operation, item_id)
    show.done(f"{name[0].upper()}{name[1:]} is deleted.")


def describe_owned(owned: Item) -> str:
    """The counts as text: `2 sessions, 10 messages (1,204 bytes)`."""
    parts = ", ".join(counted(owned[name], noun) for name, noun in COUNTS.items() if owned.get(name)) or "no data"
    size = f" ({owned['bytes']:,} bytes)" if owned.get("bytes") else ""
    kept_count = owned.get("keptResources")
    return f"{parts}{size}{f'; {kept_count:,} of the resources are kept for other tenants that use them' if kept_count else ''}"
