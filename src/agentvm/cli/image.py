"""avm image — what agents run from: built, listed, shown, upgraded and deleted."""

from itertools import islice

import click
import msgspec

from agentvm.cli.api import Api, asks_server, confirm, tenant_option, yes_option
from agentvm.cli.names import IMAGE, find, image_argument
from agentvm.cli.resource import Argument
from agentvm.cli.table import Columns, Item, Show, listed, moment, plain

EXAMPLES = """\b
Examples:
  avm image create Tutor --system "You explain, and never give the answer away."
  avm image create Seller --definition resource://agents/seller --container shop
  avm image list --container shop
  avm image upgrade Seller --dry-run                   what newer versions would change
  avm image delete Seller
"""

_PROMPT_CHARACTERS_MAX = 60

COLUMNS: Columns = {
    "IMAGE": "imageId",
    "NAME": "name",
    "CONTAINER": "containerId",
    "DEFINITION": lambda item: item.get("definitionRef") or item.get("definitionName"),
    "SESSION": "sessionId",
    "CHANGED (UTC)": moment("updatedAt"),
}
DETAILS: Columns = {
    "Image": "imageId",
    "Name": "name",
    "Description": "description",
    "Container": "containerId",
    "Definition": lambda item: item.get("definitionRef") or item.get("definitionName"),
    "Session": "sessionId",
    "Online": lambda item: "yes" if item.get("online") else "no",
    "System prompt": "systemPrompt",
    "from": "systemPromptRef",
    "Tools": listed("toolRefs"),
    "Built from": lambda item: " ".join(str(one.get("uri")) for one in item.get("lock") or ()),
    "Digest": "digest",
    "Created (UTC)": moment("createdAt"),
    "Updated (UTC)": moment("updatedAt"),
}
CHANGES: Columns = {"REFERENCE": "uri", "FROM": "from", "TO": "to"}


@click.group(epilog=EXAMPLES)
def image() -> None:
    """Build, list, upgrade and delete what agents run from."""


@image.command("create", epilog=EXAMPLES)
@click.argument("name")
@click.option("--container", help="Container of the image (your own, or default).")
@click.option("--description", help="A line about it.")
@click.option("--system", "system_prompt", metavar="TEXT", help="System prompt, or the resource:// URI of one.")
@click.option("--model", help="Model that answers: <driver>/<model> (the server's default).")
@click.option("--definition", help="Name of a definition, or the resource:// URI of an agent.")
@click.option("--tool", "tools", multiple=True, help="Tool it may use, a name or a resource:// URI; repeatable.")
@click.option("--knowledge", multiple=True, metavar="URI", help="Knowledge base it may look into; repeatable.")
@click.option("--sandbox", metavar="URI", help="Sandbox its tools run in.")
@click.option("--var", "variables", type=Argument(), multiple=True, help="A variable of its prompts: name=Ada; repeatable.")
@click.option("--temperature", type=click.FloatRange(0, 2), help="How freely the model chooses its words.")
@click.option("--max-tokens", type=click.IntRange(min=1), help="Tokens of one answer.")
@click.option("--thinking", type=click.IntRange(min=1), help="Tokens that the model may think with.")
@tenant_option
@asks_server
def create_image(
    api: Api,
    show: Show,
    /,
    container: str | None,
    tools: tuple[str, ...],
    knowledge: tuple[str, ...],
    variables: tuple[tuple[str, object], ...],
    **config: object,
) -> None:
    """Build an image, with a session to talk in."""
    several = {"tools": tools or None, "knowledge": knowledge or None, "variables": dict(variables) or None}
    given = {_camel(name): value for name, value in {**config, **several}.items() if value is not None}
    made = api.post("images", body={"config": given, **({} if container is None else {"container": container})})
    if show.as_json:
        show.json(made)
        return
    _warn(made)
    built: Item = made.get("image", {})
    show.record(built, DETAILS)
    click.echo(f"To talk to it: avm chat --session {plain(built.get('sessionId'))}", err=True)


@image.command("list", epilog=EXAMPLES)
@click.option("--container", help="Only of that container.")
@click.option("--limit", type=click.IntRange(min=1), default=50, show_default=True, help="At most so many.")
@tenant_option
@asks_server
def list_images(api: Api, show: Show, container: str | None, limit: int) -> None:
    """List images, by container, the newest of each first."""
    pages = api.pages("images", cursor="cursor", following="nextCursor", limit=min(limit, 1000), container=container)
    found = list(islice(pages, limit + 1))
    show.items(found[:limit], COLUMNS, none="There are no images.")
    if len(found) > limit and not show.as_json:
        click.echo(f"There are more than {limit}; see them with --limit or --container.", err=True)


@image.command("show")
@image_argument
@tenant_option
@asks_server
def show_image(api: Api, show: Show, image_id: str) -> None:
    """Show an image."""
    show.record(api.get("images", image_id), DETAILS)


@image.command("upgrade", epilog=EXAMPLES)
@image_argument
@click.option("--dry-run", is_flag=True, help="Only say what would change.")
@tenant_option
@asks_server
def upgrade_image(api: Api, show: Show, image_id: str, dry_run: bool) -> None:
    """Follow the references of an image anew, to the newest versions that they allow."""
    done = api.post("images", image_id, "upgrade", body={"dryRun": dry_run})
    if show.as_json:
        show.json(done)
        return
    _warn(done)
    changes: list[Item] = done.get("changes", [])
    if not changes:
        show.done("Nothing to upgrade: every reference is at the newest version it allows.")
        return
    show.items(changes, CHANGES, none="")
    for name, difference in sorted(done.get("diff", {}).items()):
        click.echo(f"{plain(name)}: {_brief(difference.get('before'))} -> {_brief(difference.get('after'))}")
    show.done("The image is upgraded." if done.get("applied") else "Nothing was changed: that is what would be.")


@image.command("delete")
@click.argument("name", metavar="IMAGE")
@yes_option
@tenant_option
@asks_server
def delete_image(api: Api, show: Show, name: str, yes: bool) -> None:
    """Delete an image with its sessions, and all that was said in them."""
    found = find(api, IMAGE, name)
    image_id, called = str(found["imageId"]), plain(found.get("name"))
    confirm(f"Delete the image {called} ({plain(image_id)}) with all of its sessions? It cannot be undone.", yes=yes)
    api.delete("images", image_id)
    show.done(f"The image {called} ({plain(image_id)}) is deleted.")


def _warn(answer: Item) -> None:
    for warned in answer.get("warnings") or ():
        click.echo(f"Warning: {plain(warned)}", err=True)


def _brief(value: object) -> str:
    text = plain(value if isinstance(value, str) else msgspec.json.encode(value).decode())
    return text if len(text) <= _PROMPT_CHARACTERS_MAX else f"{text[:_PROMPT_CHARACTERS_MAX]}…"


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.title() for word in rest)
