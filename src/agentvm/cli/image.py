"""avm image — build, list, upgrade and delete the images that agents run from."""

from collections.abc import Callable
from typing import Any

import click
import msgspec

from agentvm.cli.api import Api, confirm, dry_run_option, tenant_command, yes_option
from agentvm.cli.names import IMAGE, find, image_argument
from agentvm.cli.options import container_option
from agentvm.cli.resource import variable
from agentvm.cli.run import schema_option
from agentvm.cli.secret import read_value
from agentvm.cli.table import Columns, Item, Show, moment, plain, shortened
from agentvm.model.image import ImageConfig
from agentvm.operations.image_build import ImageUpdates

EXAMPLES = """\b
Examples:
  avm image create Tutor --system "You explain, and never give the answer away."
  avm image create Seller --definition resource://agents/seller --container shop
  avm image list --container shop
  avm image create Seller --model anthropic/claude-haiku-4-5 --own-key < key.txt    its own key pays its model calls
  avm image key Seller < key.txt                       another key of its own
  avm image upgrade Seller --dry-run                   what newer versions would change
  avm image save Seller -o seller.avmimage             one file, for another server
  avm image load seller.avmimage --container shop
  avm image push Seller --to https://other.example
  avm image tag Seller stable                          then: avm chat --agent image:stable, avm image show image:stable
  avm image delete Seller
"""

KEY = "provider key"
_PROMPT_CHARACTERS_MAX = 60


def _effective(name: str) -> Callable[[Item], object]:
    """The column of a setting of the next turn."""

    def column(item: Item) -> object:
        value = (item.get("config") or {}).get(name)
        return " ".join(value) if isinstance(value, list) else value

    return column


COLUMNS: Columns = {
    "IMAGE": "imageId",
    "NAME": "name",
    "CONTAINER": "containerId",
    "DEFINITION": lambda item: item.get("definitionRef") or item.get("definitionName"),
    "SESSION": "sessionId",
    "UPDATED (UTC)": moment("updatedAt"),
}
DETAILS: Columns = {
    "Image": "imageId",
    "Name": "name",
    "Description": "description",
    "Container": "containerId",
    "Definition": lambda item: item.get("definitionRef") or item.get("definitionName"),
    "Session": "sessionId",
    "Tags": lambda item: " ".join(item.get("tags") or ()),
    "Online": lambda item: "yes" if item.get("online") else "no",
    "System prompt": "systemPrompt",
    "from": "systemPromptRef",
    "Model": _effective("model"),
    "Tools": _effective("tools"),
    "Knowledge": _effective("knowledge"),
    "Skills": _effective("skills"),
    "Agents": _effective("agents"),
    "Hands over to": _effective("handoffs"),
    "Sandbox": _effective("sandbox"),
    "Maximum tokens": _effective("maxTokens"),
    "Own key": lambda item: "yes" if (item.get("config") or {}).get("ownKey") else "",
    "Built from": lambda item: " ".join(str(locked.get("uri")) for locked in item.get("lock") or ()),
    "Digest": "digest",
    "Created (UTC)": moment("createdAt"),
    "Updated (UTC)": moment("updatedAt"),
}
CHANGES: Columns = {"REFERENCE": "uri", "FROM": "from", "TO": "to"}


def check_name(ctx: click.Context, argument: click.Parameter, name: str) -> str:
    if not name.strip():
        raise click.BadParameter("the name is empty")
    return name


@click.group(epilog=EXAMPLES)
def image() -> None:
    """Build, list, upgrade and delete images of agents."""


@image.command("create", epilog=EXAMPLES)
@click.argument("name", callback=check_name)
@click.option("--container", help="Container of the image (default: your own, or `default`).")
@click.option("--description", help="Description in one line.")
@click.option("--system", "system_prompt", metavar="TEXT", help="System prompt, or the resource:// URI of one.")
@click.option("--model", help="Model: <driver>/<model> (default: the server's).")
@click.option("--definition", help="Name of a definition, or the resource:// URI of an agent.")
@click.option("--tool", "tools", multiple=True, help="Tool: a name or a resource:// URI; repeatable.")
@click.option("--knowledge", multiple=True, metavar="URI", help="Knowledge base; repeatable.")
@click.option("--skill", "skills", multiple=True, metavar="URI", help="Skill; repeatable.")
@click.option("--sandbox", metavar="URI", help="Sandbox of its tools.")
@click.option("--var", "variables", type=variable, multiple=True, help="Prompt variable: name=Ada; repeatable.")
@click.option("--temperature", type=click.FloatRange(0, 2), help="Sampling temperature.")
@click.option("--max-tokens", type=click.IntRange(min=1), help="Maximum tokens of an answer.")
@click.option("--thinking", type=click.IntRange(min=1), help="Token budget for thinking.")
@click.option("--own-key", is_flag=True, help="Read a provider key of its own from stdin or a prompt.")
@schema_option
@tenant_command
def create_image(
    api: Api,
    show: Show,
    /,
    container: str | None,
    tools: tuple[str, ...],
    knowledge: tuple[str, ...],
    skills: tuple[str, ...],
    variables: tuple[tuple[str, object], ...],
    *,
    own_key: bool,
    **config: Any,
) -> None:
    """Build an image with a session to chat in.

    A provider key of its own pays its model calls; it is sealed for this image alone, and never shown.
    """
    config["api_key"] = read_value(KEY) if own_key else None
    config |= {"tools": tools or None, "knowledge": knowledge or None, "skills": skills or None}
    config["variables"] = dict(variables) or None
    built = api.call("image.add", config=ImageConfig(**config), container=container)
    show_built(show, built)


def show_built(show: Show, built: Item) -> None:
    """Shows a new image, and how to chat with it."""
    if show.as_json:
        show.json(built)
        return
    print_warnings(built)
    record: Item = built.get("image", {})
    show.record(record, DETAILS)
    click.echo(f"To chat with it: avm chat --session {plain(record.get('sessionId'))}", err=True)


@image.command("list", epilog=EXAMPLES)
@container_option
@click.option("--limit", type=click.IntRange(min=1), default=50, show_default=True, help="Maximum number.")
@tenant_command
def list_images(api: Api, show: Show, container_id: str | None, limit: int) -> None:
    """List images by container, newest first."""
    images = list(api.items("image.browse", at_most=limit + 1, container_id=container_id))
    show.items(images[:limit], COLUMNS, none="No images found.")
    if len(images) > limit and not show.as_json:
        click.echo(f"There are more than {limit}; use --limit or --container.", err=True)


@image.command("show")
@image_argument
@tenant_command
def show_image(api: Api, show: Show, image_id: str) -> None:
    """Show the details of an image."""
    tags = api.call("image.tags", image_id)["tags"]
    show.record({**api.call("image.get", image_id), "tags": tags}, DETAILS)


@image.command("key", epilog=EXAMPLES)
@image_argument
@click.option("--remove", is_flag=True, help="Remove the key instead.")
@tenant_command
def set_image_key(api: Api, show: Show, image_id: str, remove: bool) -> None:
    """Give an image a provider key of its own.

    The key is read from stdin or a prompt, is sealed for this image alone, and is never shown.
    """
    updates = ImageUpdates(clear=("apiKey",)) if remove else ImageUpdates(api_key=read_value(KEY))
    api.call("image.update", image_id, updates=updates)
    show.done("The key is removed." if remove else "The key is stored for this image alone.")


@image.command("upgrade", epilog=EXAMPLES)
@image_argument
@dry_run_option
@tenant_command
def upgrade_image(api: Api, show: Show, image_id: str, dry_run: bool) -> None:
    """Update an image to the newest versions its references allow."""
    upgrade = api.call("image.upgrade", image_id, dry_run=dry_run)
    if show.as_json:
        show.json(upgrade)
        return
    print_warnings(upgrade)
    if not upgrade.get("changes"):
        show.done("The image is up to date.")
        return
    show.items(upgrade["changes"], CHANGES, none="")
    for name, difference in sorted(upgrade.get("diff", {}).items()):
        click.echo(f"{plain(name)}: {_brief(difference.get('before'))} -> {_brief(difference.get('after'))}")
    show.done("The image is upgraded." if upgrade.get("applied") else "Dry run: nothing was changed.")


@image.command("delete")
@click.argument("name", metavar="IMAGE")
@yes_option
@tenant_command
def delete_image(api: Api, show: Show, name: str, yes: bool) -> None:
    """Delete an image with its sessions and messages."""
    item = find(api, IMAGE, name)
    described = f"the image {plain(item.get('name'))} ({plain(item['imageId'])})"
    confirm(f"Delete {described} with all of its sessions? This cannot be undone.", yes=yes)
    api.call("image.remove", str(item["imageId"]))
    show.done(f"T{described[1:]} is deleted.")


def print_warnings(response: Item) -> None:
    """Prints the warnings of a build."""
    for warning in response.get("warnings") or ():
        click.echo(f"Warning: {plain(warning)}", err=True)


def _brief(value: object) -> str:
    return shortened(plain(value if isinstance(value, str) else msgspec.json.encode(value).decode()), _PROMPT_CHARACTERS_MAX)
