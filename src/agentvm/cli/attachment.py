"""avm attachment — files that messages refer to: uploaded once, named by what they hold."""

import mimetypes
from pathlib import Path
from typing import BinaryIO, cast

import click

from agentvm.cli.api import Api, asks_server, confirm, tenant_option, yes_option
from agentvm.cli.carrying import to_file
from agentvm.cli.table import Columns, Item, Show, moment, plain

EXAMPLES = """\b
Examples:
  avm attachment add photo.png --container notes       prints the reference to put into a message
  avm attachment list --container notes
  avm attachment get attachment:sha256:… -o photo.png --container notes
"""

COLUMNS: Columns = {
    "ATTACHMENT": "attachment",
    "NAME": "name",
    "TYPE": "mediaType",
    "BYTES": "size",
    "ADDED (UTC)": moment("createdAt"),
}
UNKNOWN = "application/octet-stream"
container_option = click.option("--container", help="Container of the file; may be left out if you have only one.")


@click.group(epilog=EXAMPLES)
def attachment() -> None:
    """Upload, list and fetch files that messages refer to."""


@attachment.command("add", epilog=EXAMPLES)
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@container_option
@click.option("--name", help="Its name for people; else that of the file.")
@click.option("--type", "media_type", help="Its media type, like image/png; else what its name says.")
@tenant_option
@asks_server
def add(api: Api, show: Show, file: Path, container: str | None, name: str | None, media_type: str | None) -> None:
    """Upload a file, and print the reference to it.

    What no message refers to goes after a day.
    """
    made = upload(api, file, container, name=name, media_type=media_type)
    if show.as_json:
        show.json(made)
    else:
        click.echo(plain(made["attachment"]))


@attachment.command("list")
@container_option
@tenant_option
@asks_server
def list_attachments(api: Api, show: Show, container: str | None) -> None:
    """List the files of a container, the newest first."""
    show.items(api.pages("attachments", container=container), COLUMNS, none="There are no files.")


@attachment.command("get", epilog=EXAMPLES)
@click.argument("reference", metavar="REF")
@click.option("-o", "--output", type=click.Path(dir_okay=False, path_type=Path), help="File to write; else stdout.")
@click.option("--force", is_flag=True, help="Replace the file if it is there.")
@container_option
@tenant_option
@asks_server
def get(api: Api, show: Show, reference: str, output: Path | None, force: bool, container: str | None) -> None:
    """Fetch a file."""
    if output is None:
        api.download(cast("BinaryIO", click.open_file("-", "wb")), "attachments", reference, container=container)
        return
    if output.exists() and not force:
        raise click.ClickException(f"{output} is there already. Choose another name, or give --force to replace it.")
    size = to_file(output, lambda file: api.download(file, "attachments", reference, container=container))
    if show.as_json:
        show.json({"path": str(output), "bytes": size})
    else:
        click.echo(f"Wrote {output}: {size:,} bytes.")


@attachment.command("delete")
@click.argument("reference", metavar="REF")
@yes_option
@container_option
@tenant_option
@asks_server
def delete(api: Api, show: Show, reference: str, yes: bool, container: str | None) -> None:
    """Delete a file to which no message refers."""
    confirm(f"Delete {plain(reference)}? It cannot be brought back.", yes=yes)
    api.delete("attachments", reference, container=container)
    show.done(f"{plain(reference)} is deleted.")


def upload(api: Api, file: Path, container: str | None, *, name: str | None = None, media_type: str | None = None) -> Item:
    """As the server tells of it."""
    kind = media_type or media_type_of(file)
    try:
        with file.open("rb") as source:
            return api.upload(source, "attachments", media_type=kind, container=container, name=name or file.name)
    except OSError as error:
        raise click.ClickException(f"{file} cannot be read: {error.strerror}") from None


def media_type_of(file: Path) -> str:
    """What the name says."""
    found, encoding = mimetypes.guess_type(file.name)
    return UNKNOWN if found is None or encoding is not None else found
