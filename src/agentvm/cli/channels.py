"""avm channels — bots on chat platforms, whose messages an agent answers."""

from typing import Any

import click

from agentvm.cli.api import Api, confirm, tenant_command, yes_option
from agentvm.cli.table import Columns, Show, moment, plain

EXAMPLES = """\b
Examples:
  avm secret set telegram.token                        prompts for the token of @BotFather
  avm channels create support --kind telegram --agent assistant --set token=telegram.token
  avm channels list
  avm channels disable support
"""

COLUMNS: Columns = {
    "NAME": "name",
    "KIND": "kind",
    "AGENT": "agent",
    "STATE": lambda channel: channel["status"]["state"],
    "SINCE (UTC)": lambda channel: moment("since")(channel["status"]),
    "LAST ERROR": lambda channel: channel["status"].get("lastError", ""),
}
KINDS: Columns = {
    "KIND": "name",
    "PLATFORM": "title",
    "SETTINGS": lambda kind: " ".join(f"{field['name']}{'*' if field.get('isSecret') else ''}" for field in kind["fields"]),
}

set_option = click.option(
    "--set", "settings", multiple=True, metavar="NAME=VALUE", help="Setting of the platform; for a secret, its name here."
)
rate_option = click.option("--per-minute", type=int, help="Messages of one sender in a minute (default: 20).")


@click.group(epilog=EXAMPLES)
def channels() -> None:
    """Connect bots of chat platforms to agents."""


@channels.command("kinds")
@tenant_command
def list_kinds(api: Api, show: Show) -> None:
    """List the platforms and their settings; * marks a secret."""
    show.items(api.call("channel.kinds")["items"], KINDS, none="No platforms found.")


@channels.command("list")
@tenant_command
def list_channels(api: Api, show: Show) -> None:
    """List channels and their status."""
    show.items(api.items("channel.list"), COLUMNS, none="No channels found.")


@channels.command("show")
@click.argument("name")
@tenant_command
def show_channel(api: Api, show: Show, name: str) -> None:
    """Show a channel and its status."""
    channel = _find(api, name)
    status = channel["status"]
    text = [f"{plain(channel['name'])} is {status['state']}; {plain(channel['kind'])} to the agent {plain(channel['agent'])}."]
    if "lastError" in status:
        text.append(f"Last error, {moment('lastErrorAt')(status)} UTC: {plain(status['lastError'])}")
    if "remedy" in status:
        text.append(f"To do: {plain(status['remedy'])}")
    show.done("\n".join(text), channel)


@channels.command("create", epilog=EXAMPLES)
@click.argument("name")
@click.option("--kind", required=True, help="Platform; see avm channels kinds.")
@click.option("--agent", required=True, help="Definition, agent or image that answers.")
@set_option
@rate_option
@tenant_command
def create_channel(
    api: Api, show: Show, name: str, kind: str, agent: str, settings: tuple[str, ...], per_minute: int | None
) -> None:
    """Connect a bot to an agent. Store its secrets first: avm secret set."""
    channel = api.call(
        "channel.create", name=name, kind=kind, agent=agent, settings=_settings(settings), messages_per_minute=per_minute
    )
    show.done(f"The channel {plain(name)} connects; see avm channels show {plain(name)}.", channel)


@channels.command("update")
@click.argument("name")
@click.option("--agent", help="Definition, agent or image that answers.")
@set_option
@rate_option
@tenant_command
def update_channel(
    api: Api, show: Show, name: str, agent: str | None, settings: tuple[str, ...], per_minute: int | None
) -> None:
    """Update a channel; omitted settings stay unchanged."""
    channel = _find(api, name)
    changed = {**channel["settings"], **_settings(settings)} if settings else None
    done = api.call("channel.update", channel["channelId"], agent=agent, settings=changed, messages_per_minute=per_minute)
    show.done(f"The channel {plain(name)} is changed and connects again.", done)


@channels.command("enable")
@click.argument("name")
@tenant_command
def enable_channel(api: Api, show: Show, name: str) -> None:
    """Connect a channel that was disabled."""
    show.done(f"The channel {plain(name)} connects.", api.call("channel.enable", _find(api, name)["channelId"]))


@channels.command("disable")
@click.argument("name")
@tenant_command
def disable_channel(api: Api, show: Show, name: str) -> None:
    """Disconnect a channel; answers wait until it is enabled."""
    show.done(f"The channel {plain(name)} is disconnected.", api.call("channel.disable", _find(api, name)["channelId"]))


@channels.command("delete")
@click.argument("name")
@yes_option
@tenant_command
def delete_channel(api: Api, show: Show, name: str, yes: bool) -> None:
    """Delete a channel and revoke its key. Sessions stay."""
    channel = _find(api, name)
    confirm(f"Delete the channel {plain(name)}? Answers that wait are not delivered.", yes=yes)
    api.call("channel.delete", channel["channelId"])
    show.done(f"The channel {plain(name)} is deleted.")


def _find(api: Api, name: str) -> dict[str, Any]:
    for channel in api.items("channel.list"):
        if name in (channel["name"], channel["channelId"]):
            return channel
    raise click.ClickException(f"There is no channel {name}; see avm channels list")


def _settings(pairs: tuple[str, ...]) -> dict[str, str]:
    settings = {}
    for pair in pairs:
        name, sign, value = pair.partition("=")
        if not sign:
            raise click.UsageError(f"--set takes NAME=VALUE, not {pair}")
        settings[name] = value
    return settings
