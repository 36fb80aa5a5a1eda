"""avm session draft — what you have begun to write and not sent."""

import click

from agentvm.cli.api import Api, asks_server
from agentvm.cli.names import session_argument
from agentvm.cli.table import Columns, Show, moment, plain, when

EXAMPLES = """\b
Examples:
  avm session draft set sess_… "And the day after" --device laptop
  avm session draft show sess_…
  avm session draft list
"""

COLUMNS: Columns = {
    "SESSION": "sessionId",
    "DEVICE": "device",
    "CHANGED (UTC)": moment("updatedAt"),
    "DRAFT": "preview",
}
device_option = click.option("--device", help="Of that device; without it, of none.")


@click.group(epilog=EXAMPLES)
def draft() -> None:
    """Keep what you have begun to write."""


@draft.command("set")
@session_argument
@click.argument("text")
@device_option
@click.option("--if-updated-at", type=click.IntRange(min=0), metavar="MS", help="Only if it is still of that moment.")
@asks_server
def set_draft(api: Api, show: Show, session_id: str, text: str, device: str | None, if_updated_at: int | None) -> None:
    """Keep a text."""
    body = {"text": text, "device": device, "ifUpdatedAt": if_updated_at}
    kept = api.put("sessions", session_id, "draft", body={name: value for name, value in body.items() if value is not None})
    if show.as_json:
        show.json(kept)
    else:
        show.done("It is kept." if "draft" in kept else "It is removed.")


@draft.command("show")
@session_argument
@asks_server
def show_drafts(api: Api, show: Show, session_id: str) -> None:
    """Show your drafts in a session, the newest first."""
    items = api.get("sessions", session_id, "drafts").get("items", [])
    if show.as_json:
        show.json(items)
        return
    for item in items:
        click.secho(f"{when(item['updatedAt'])}  {plain(item.get('device', '(no device)'))}", bold=True)
        click.echo("\n".join(map(plain, str(item["text"]).split("\n"))))
    if not items:
        click.echo("There are no drafts.", err=True)


@draft.command("list")
@click.option("--container", help="Only of that container.")
@click.option("--limit", type=click.IntRange(1, 200), default=50, show_default=True, help="At most so many.")
@asks_server
def list_drafts(api: Api, show: Show, container: str | None, limit: int) -> None:
    """List your drafts of all sessions, the newest first."""
    items = api.get("drafts", container=container, limit=limit).get("items", [])
    show.items(items, COLUMNS, none="There are no drafts.")


@draft.command("remove")
@session_argument
@device_option
@asks_server
def remove(api: Api, show: Show, session_id: str, device: str | None) -> None:
    """Remove a draft."""
    api.ask("DELETE", ("sessions", session_id, "draft"), {} if device is None else {"device": device})
    show.done("It is removed.")
