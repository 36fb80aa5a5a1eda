"""avm image save, load, push, pull, tag — images as files, from one server to another."""

import os
from pathlib import Path
from typing import Any

import click

from agentvm.blueprint.image_file import IMAGE_FILE_MAX_BYTES
from agentvm.cli import profiles
from agentvm.cli.api import Api, tenant_command, warn_of_open_network
from agentvm.cli.image import EXAMPLES, image, show_built
from agentvm.cli.names import IMAGE, id_of, image_argument
from agentvm.cli.options import check_key
from agentvm.cli.table import Show, plain

OTHER_KEY = "AVM_OTHER_KEY"
SERVER_HELP = f"URL (its key in {OTHER_KEY}), or a profile of avm login."

conflict_option = click.option(
    "--on-conflict",
    type=click.Choice(("fail", "new-version")),
    default="fail",
    show_default=True,
    help="If a resource exists with other content: fail, or import it as a new version.",
)
name_option = click.option("--name", help="Name of the new image (default: that of the saved one).")
container_option = click.option("--container", help="Container of the new image (default: your own, or `default`).")


@image.command("save", epilog=EXAMPLES)
@image_argument
@click.option("-o", "--output", type=click.Path(dir_okay=False, path_type=Path), help="Output file (default: IMAGE.avmimage).")
@tenant_command
def save_image(api: Api, show: Show, image_id: str, output: Path | None) -> None:
    """Save an image with its resources as one file. It holds no secrets."""
    data = api.call_bytes("image.save", image_id)
    output = Path(f"{image_id}.avmimage") if output is None else output
    try:
        output.write_bytes(data)
    except OSError as error:
        raise click.ClickException(f"Cannot write {output}: {error.strerror}") from None
    show.done(f"The image is saved to {plain(output)}: {len(data):,} bytes.", {"file": str(output), "bytes": len(data)})


@image.command("load", epilog=EXAMPLES)
@click.argument("file", type=click.File("rb"))
@container_option
@name_option
@click.option("--digest", help="Digest that the image must have.")
@conflict_option
@tenant_command
def load_image(
    api: Api, show: Show, file: Any, container: str | None, name: str | None, digest: str | None, on_conflict: str
) -> None:
    """Build the image of a file. A file that was altered is refused."""
    data = file.read(IMAGE_FILE_MAX_BYTES + 1)
    if len(data) > IMAGE_FILE_MAX_BYTES:
        raise click.ClickException(f"{plain(file.name)} is larger than {IMAGE_FILE_MAX_BYTES:,} bytes, the maximum.")
    _load(api, show, data, container=container, name=name, digest=digest, on_conflict=_conflict(on_conflict))


@image.command("push", epilog=EXAMPLES)
@image_argument
@click.option("--to", "other", required=True, metavar="SERVER", help=SERVER_HELP)
@container_option
@name_option
@conflict_option
@tenant_command
def push_image(
    api: Api, show: Show, image_id: str, other: str, container: str | None, name: str | None, on_conflict: str
) -> None:
    """Copy an image of this server to another one."""
    digest = api.call("image.get", image_id).get("digest")
    data = api.call_bytes("image.save", image_id)
    with other_server(other) as there:
        _load(there, show, data, container=container, name=name, digest=digest, on_conflict=_conflict(on_conflict))


@image.command("pull", epilog=EXAMPLES)
@click.argument("name_there", metavar="IMAGE")
@click.option("--from", "other", required=True, metavar="SERVER", help=SERVER_HELP)
@container_option
@name_option
@conflict_option
@tenant_command
def pull_image(
    api: Api, show: Show, name_there: str, other: str, container: str | None, name: str | None, on_conflict: str
) -> None:
    """Copy an image of another server to this one."""
    with other_server(other) as there:
        image_id = id_of(there, IMAGE, name_there)
        digest = there.call("image.get", image_id).get("digest")
        data = there.call_bytes("image.save", image_id)
    _load(api, show, data, container=container, name=name, digest=digest, on_conflict=_conflict(on_conflict))


@image.command("tag", epilog=EXAMPLES)
@image_argument
@click.argument("tag")
@click.option("--remove", is_flag=True, help="Remove the tag instead.")
@tenant_command
def tag_image(api: Api, show: Show, image_id: str, tag: str, remove: bool) -> None:
    """Point TAG at IMAGE, so that image:TAG names it as an agent."""
    if remove:
        api.call("image.untag", image_id, tag)
        show.done(f"The tag {plain(tag)} is removed.")
        return
    api.call("image.tag", image_id, tag)
    show.done(f"image:{plain(tag)} means {plain(image_id)} now.")


def other_server(named: str) -> Api:
    """Opens the other server of a copy: a URL, or a profile with its key."""
    profile = profiles.load_all().get(named)
    if profile is None and "://" not in named:
        raise click.UsageError(f"{named!r} is neither a URL nor a profile. Store one: avm login --profile {named}")
    text = os.environ.get(OTHER_KEY, "")
    key = check_key(text, OTHER_KEY) if text.strip() else None
    url, key = (named, key) if profile is None else (profile.url, profile.key or key)
    if key is not None:
        warn_of_open_network(url)
    return Api(url, key)


def _load(api: Api, show: Show, data: bytes, **fields: Any) -> None:
    built = api.upload(data, "image.load", media_type="application/gzip", **fields)
    show_built(show, built)


def _conflict(chosen: str) -> str:
    return "newVersion" if chosen == "new-version" else chosen
