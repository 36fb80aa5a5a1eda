"""avm attachment — files that messages refer to: uploaded once, addressed by their digest."""

import mimetypes
from pathlib import Path
from typing import BinaryIO, cast

import click

from agentvm.cli.api import Api, confirm, tenant_command, yes_option
from agentvm.cli.table import Columns, Item, Show, moment, plain
from agentvm.cli.transfer import check_absent, force_option, write_atomically

EXAMPLES = """\b
Examples:
  avm attachment add photo.png --container notes       prints the reference for messages
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
DEFAULT_MEDIA_TYPE = "application/octet-stream"
container_option = click.option("--container", "container_id", help="Container of the file; optional if you have only one.")


@click.group(epilog=EXAMPLES)
def attachment() -> None:
    """Upload, list and download files of messages."""


@attachment.command("add", epilog=EXAMPLES)
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@container_option
@click.option("--name", help="Display name (default: the file name).")
@click.option("--type", "media_type", help="Media type, like image/png (default: by the file name).")
@tenant_command
def add(api: Api, show: Show, file: Path, container_id: str | None, name: str | None, media_type: str | None) -> None:
    """Upload a file and print its reference.

    A file that no message refers to is deleted after a day.
    """
    uploaded = upload(api, file, container_id, name=name, media_type=media_type)
    show.done(plain(uploaded["attachment"]), uploaded)


@attachment.command("list")
@container_option
@tenant_command
def list_attachments(api: Api, show: Show, container_id: str | None) -> None:
    """List the files of a container, newest first."""
    show.items(api.items("attachment.list", container_id=container_id), COLUMNS, none="No files found.")


@attachment.command("get", epilog=EXAMPLES)
@click.argument("reference", metavar="REF")
@click.option("-o", "--output", type=click.Path(dir_okay=False, path_type=Path), help="Output file (default: stdout).")
@force_option
@container_option
@tenant_command
def get(api: Api, show: Show, reference: str, output: Path | None, force: bool, container_id: str | None) -> None:
    """Download a file."""
    if output is None:
        api.download(cast("BinaryIO", click.open_file("-", "wb")), "attachment.download", reference, container_id=container_id)
        return
    check_absent(output, force=force)
    size = write_atomically(
        output, lambda file: api.download(file, "attachment.download", reference, container_id=container_id)
    )
    show.done(f"Wrote {output}: {size:,} bytes.", {"path": str(output), "bytes": size})


@attachment.command("delete")
@click.argument("reference", metavar="REF")
@yes_option
@container_option
@tenant_command
def delete(api: Api, show: Show, reference: str, yes: bool, container_id: str | None) -> None:
    """Delete a file that no message refers to."""
    confirm(f"Delete {plain(reference)}? This cannot be undone.", yes=yes)
    api.call("attachment.delete", reference, container_id=container_id)
    show.done(f"{plain(reference)} is deleted.")


def upload(api: Api, file: Path, container_id: str | None, *, name: str | None = None, media_type: str | None = None) -> Item:
    """Uploads a file and returns its record."""
    media_type = media_type or media_type_of(file)
    try:
        with file.open("rb") as source:
            return api.upload(
                source, "attachment.upload", media_type=media_type, container_id=container_id, name=name or file.name
            )
    except OSError as error:
        raise click.ClickException(f"Cannot read {file}: {error.strerror}") from None


def media_type_of(file: Path) -> str:
    """The media type by the file name."""
    media_type, encoding = mimetypes.guess_type(file.name)
    return DEFAULT_MEDIA_TYPE if media_type is None or encoding is not None else media_type
