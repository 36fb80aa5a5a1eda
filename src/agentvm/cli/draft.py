"""avm session draft — unsent messages, stored on the server per session and device."""

import click

from agentvm.cli.api import Api, server_command
from agentvm.cli.names import session_argument
from agentvm.cli.options import container_option, keep_name
from agentvm.cli.table import Columns, Show, moment, plain, when

EXAMPLES = """\b
Examples:
  avm session draft set sess_… "And the day after" --device laptop
  avm session draft show sess_…
  avm session draft list
"""

COLUMNS: Columns = {"SESSION": "sessionId", "DEVICE": "device", "UPDATED (UTC)": moment("updatedAt"), "DRAFT": "preview"}
device_option = click.option("--device", help="Device of the draft (default: none).")


@click.group(epilog=EXAMPLES)
def draft() -> None:
    """Save, list and delete drafts of messages."""


@draft.command("set")
@session_argument
@click.argument("text")
@device_option
@click.option("--if-updated-at", type=click.IntRange(min=0), metavar="MS", help="Only if the draft was last updated then.")
@server_command
def set_draft(api: Api, show: Show, session_id: str, text: str, device: str | None, if_updated_at: int | None) -> None:
    """Save a draft."""
    saved = api.call("draft.put", session_id, text=text, device=device, if_updated_at=if_updated_at)
    show.done("Draft saved." if "draft" in saved else "Draft deleted.", saved)


@draft.command("show")
@session_argument
@server_command
def show_drafts(api: Api, show: Show, session_id: str) -> None:
    """Print your drafts in a session, newest first."""
    items = list(api.items("session.drafts", session_id))
    if show.as_json:
        show.json(items)
        return
    for item in items:
        click.secho(f"{when(item['updatedAt'])}  {plain(item.get('device', '(no device)'))}", bold=True)
        click.echo("\n".join(map(plain, str(item["text"]).split("\n"))))
    if not items:
        click.echo("No drafts found.", err=True)


@draft.command("list")
@container_option
@click.option("--limit", type=click.IntRange(1, 200), default=50, show_default=True, help="Maximum number.")
@server_command
def list_drafts(api: Api, show: Show, container_id: str | None, limit: int) -> None:
    """List your drafts in all sessions, newest first."""
    show.items(api.items("session.draft_list", container_id=container_id, at_most=limit), COLUMNS, none="No drafts found.")


@draft.command("delete")
@session_argument
@device_option
@server_command
def delete(api: Api, show: Show, session_id: str, device: str | None) -> None:
    """Delete a draft."""
    api.call("draft.delete", session_id, device=device)
    show.done("Draft deleted.")


keep_name(draft, "remove", delete)
