"""avm webhooks — addresses to which events are sent."""

import click

from agentvm.cli.api import Api, confirm, tenant_command, yes_option
from agentvm.cli.table import Columns, Item, Show, listed, moment, plain

EXAMPLES = """\b
Examples:
  avm webhooks create https://example.org/hooks --event turn.completed --event turn.failed
  avm webhooks test whk_…
  avm webhooks deliveries whk_…
  avm webhooks redeliver whk_… 17
"""

EVENTS = ("turn.completed", "turn.failed", "turn.interrupted", "session.created", "wait.created", "quota.warning")

COLUMNS: Columns = {
    "WEBHOOK": "webhookId",
    "URL": "url",
    "EVENTS": listed("events"),
    "STATE": lambda item: _state(item),
    "CREATED (UTC)": moment("createdAt"),
}
DETAILS: Columns = {
    "Webhook": "webhookId",
    "URL": "url",
    "Events": listed("events"),
    "Description": "description",
    "State": lambda item: _state(item),
    "Failing since": moment("failingSince"),
    "Created (UTC)": moment("createdAt"),
    "Secret": "secret",
}
DELIVERIES: Columns = {
    "NUMBER": "number",
    "EVENT": "type",
    "STATE": "state",
    "STATUS": "status",
    "ATTEMPTS": "attempts",
    "LAST (UTC)": moment("lastAt"),
    "NEXT (UTC)": moment("nextAt"),
    "ERROR": "error",
}
webhook_argument = click.argument("webhook_id", metavar="WEBHOOK")


@click.group(epilog=EXAMPLES)
def webhooks() -> None:
    """Send events to your own servers."""


@webhooks.command("create", epilog=EXAMPLES)
@click.argument("address", metavar="URL")
@click.option("--event", "events", multiple=True, type=click.Choice(EVENTS), help="Event to send; repeatable (default: all).")
@click.option("--description", help="Description in one line.")
@tenant_command
def create_webhook(api: Api, show: Show, address: str, events: tuple[str, ...], description: str | None) -> None:
    """Create a webhook. Its secret is shown once."""
    webhook = api.call("webhook.create", url=address, events=list(events or EVENTS), description=description)
    show.record(webhook, DETAILS)


@webhooks.command("list")
@tenant_command
def list_webhooks(api: Api, show: Show) -> None:
    """List webhooks."""
    show.items(api.items("webhook.list"), COLUMNS, none="No webhooks.")


@webhooks.command("show")
@webhook_argument
@tenant_command
def show_webhook(api: Api, show: Show, webhook_id: str) -> None:
    """Show a webhook."""
    show.record(api.call("webhook.get", webhook_id), DETAILS)


@webhooks.command("update")
@webhook_argument
@click.option("--address", metavar="URL", help="New address.")
@click.option("--event", "events", multiple=True, type=click.Choice(EVENTS), help="Event to send instead; repeatable.")
@click.option("--enable/--disable", "enabled", default=None, help="Resume or stop deliveries.")
@tenant_command
def update_webhook(
    api: Api, show: Show, webhook_id: str, address: str | None, events: tuple[str, ...], enabled: bool | None
) -> None:
    """Update, disable or enable a webhook."""
    changed = api.call("webhook.update", webhook_id, url=address, events=list(events) or None, enabled=enabled)
    show.record(changed, DETAILS)


@webhooks.command("rotate")
@webhook_argument
@tenant_command
def rotate_webhook(api: Api, show: Show, webhook_id: str) -> None:
    """Replace the secret. For 24 hours requests are signed with both."""
    show.record(api.call("webhook.rotate", webhook_id), DETAILS)


@webhooks.command("delete")
@webhook_argument
@yes_option
@tenant_command
def delete_webhook(api: Api, show: Show, webhook_id: str, yes: bool) -> None:
    """Delete a webhook and its deliveries."""
    confirm(f"Delete the webhook {plain(webhook_id)}?", yes=yes)
    api.call("webhook.delete", webhook_id)
    show.done(f"{plain(webhook_id)} deleted.")


@webhooks.command("test")
@webhook_argument
@tenant_command
def test_webhook(api: Api, show: Show, webhook_id: str) -> None:
    """Send a test event and show the result."""
    _print(show, api.call("webhook.test", webhook_id))


@webhooks.command("deliveries")
@webhook_argument
@click.option("--limit", type=click.IntRange(1), default=50, show_default=True, help="Maximum number.")
@tenant_command
def list_deliveries(api: Api, show: Show, webhook_id: str, limit: int) -> None:
    """List the deliveries of a webhook, newest first."""
    show.items(api.items("webhook.deliveries", webhook_id, at_most=limit), DELIVERIES, none="Nothing was sent yet.")


@webhooks.command("redeliver")
@webhook_argument
@click.argument("number", type=click.IntRange(1))
@tenant_command
def redeliver(api: Api, show: Show, webhook_id: str, number: int) -> None:
    """Send a delivery again, with the same id."""
    _print(show, api.call("webhook.redeliver", webhook_id, str(number)))


def _print(show: Show, delivery: Item) -> None:
    if delivery["state"] == "delivered":
        show.done(f"Delivered: the receiver answered {delivery['status']}.", delivery)
        return
    show.done(f"Not delivered: {plain(delivery.get('error') or '')}", delivery)


def _state(item: Item) -> str:
    if not item["enabled"]:
        return f"disabled ({plain(item['disabledReason'])})" if item.get("disabledReason") else "disabled"
    return "failing" if item.get("failingSince") else "enabled"
