"""avm export, avm import — sessions from one server to another, or to people."""

import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO, cast

import click

from agentvm.cli.api import Api, asks_server, tenant_option
from agentvm.cli.table import Item, Show, plain

FORMATS = {"archive": "zip", "markdown": "md", "html": "html"}
SOURCES = ("archive", "chatgpt", "claude", "openwebui")

EXPORT_EXAMPLES = """\b
Examples:
  avm export -o everything.zip                      all that you reach
  avm export --container notes -o notes.zip
  avm export --session sess_1 --format markdown     prints it
"""
IMPORT_EXAMPLES = """\b
Examples:
  avm import notes.zip --dry-run                    checks it, and says what would be
  avm import notes.zip
  avm import chatgpt.zip --from chatgpt --container notes
"""


@click.command(epilog=EXPORT_EXAMPLES)
@click.option("--session", help="Only this session.")
@click.option("--container", help="Only what is in this container.")
@click.option("--user", help="Only what belongs to this user.")
@click.option("--format", "form", type=click.Choice(tuple(FORMATS)), default="archive", show_default=True)
@click.option("-o", "--output", type=click.Path(dir_okay=False, path_type=Path), help="File to write; else stdout.")
@click.option("--force", is_flag=True, help="Replace the file if it is there.")
@tenant_option
@asks_server
def export(
    api: Api,
    show: Show,
    session: str | None,
    container: str | None,
    user: str | None,
    form: str,
    output: Path | None,
    force: bool,
) -> None:
    """Take sessions out of a server, as an archive or as a page."""
    query: dict[str, str | int | None] = {"session": session, "container": container, "user": user, "format": form}
    if output is None:
        out = click.open_file("-", "wb")
        if form == "archive" and sys.stdout.isatty():
            raise click.UsageError("An archive is nothing for a terminal. Name a file with -o.")
        api.download(cast("BinaryIO", out), "export", **query)
        return
    if output.exists() and not force:
        raise click.ClickException(f"{output} is there already. Choose another name, or give --force to replace it.")
    size = to_file(output, lambda file: api.download(file, "export", **query))
    if show.as_json:
        show.json({"path": str(output), "bytes": size})
    else:
        click.echo(f"Exported to {output}: {size:,} bytes.")


def to_file(output: Path, write: Callable[[BinaryIO], int]) -> int:
    """Under its name when it is whole: half an archive is none. How many bytes were written."""
    try:
        descriptor, aside = tempfile.mkstemp(dir=output.absolute().parent, prefix=f".{output.name}.")
    except OSError as error:
        raise click.ClickException(f"{output} cannot be written: {error.strerror}") from None
    try:
        with os.fdopen(descriptor, "wb") as file:
            size = write(file)
        os.replace(aside, output)
    finally:
        Path(aside).unlink(missing_ok=True)
    return size


@click.command("import", epilog=IMPORT_EXAMPLES)
@click.argument("file", type=click.File("rb"))
@click.option("--container", help="Container for all of it; else those that the archive names.")
@click.option("--from", "source", type=click.Choice(SOURCES), default="archive", show_default=True, help="Who wrote the file.")
@click.option("--dry-run", is_flag=True, help="Check it, and say what would be done.")
@tenant_option
@asks_server
def import_(api: Api, show: Show, file: BinaryIO, container: str | None, source: str, dry_run: bool) -> None:
    """Bring sessions into a server.

    All of the file, or nothing of it. Ids are kept if they are free.
    """
    query = {"container": container, "from": source, "dryRun": "true" if dry_run else None}
    report = api.upload(file, "import", **query)
    if show.as_json:
        show.json(report)
        return
    click.echo(summary(report, dry_run=dry_run))
    for old, new in report.get("renamed", {}).items():
        click.echo(f"{plain(old)} is {plain(new)} here: that id was taken.")


def summary(report: Item, *, dry_run: bool) -> str:
    counts = report.get("counts", {})
    said = ", ".join(f"{plain(counts.get(what, 0))} {what}" for what in ("images", "sessions", "messages"))
    where = ", ".join(plain(name) for name in report.get("containers", [])) or "nowhere"
    return f"{'Would import' if dry_run else 'Imported'} {said} into {where}."
