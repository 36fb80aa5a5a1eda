"""avm files — the files of a session, which its agent reads and writes."""

from pathlib import Path
from typing import BinaryIO, cast

import click

from agentvm.cli.api import Api, confirm, tenant_command, yes_option
from agentvm.cli.attachment import DEFAULT_MEDIA_TYPE
from agentvm.cli.options import keep_name
from agentvm.cli.table import Columns, Show, moment, plain
from agentvm.cli.transfer import check_absent, force_option, write_atomically

EXAMPLES = """\b
Examples:
  avm files list sess_…                                the files of a session
  avm files put sess_… report.csv data/report.csv      a file into the session
  avm files get sess_… data/report.csv -o report.csv   and back
  avm files archive sess_… -o files.zip                all of them
"""

COLUMNS: Columns = {"PATH": "path", "BYTES": "size", "EXECUTABLE": "executable", "CHANGED (UTC)": moment("modifiedAt")}
session_argument = click.argument("session_id", metavar="SESSION")
output_option = click.option(
    "-o", "--output", type=click.Path(dir_okay=False, path_type=Path), help="Output file (default: stdout)."
)


@click.group(epilog=EXAMPLES)
def files() -> None:
    """List, upload and download the files of a session."""


@files.command("list")
@session_argument
@click.option("--under", default="", help="Only files below this folder.")
@tenant_command
def list_files(api: Api, show: Show, session_id: str, under: str) -> None:
    """List the files of a session."""
    show.items(api.items("file.list", session_id, under=under or None), COLUMNS, none="No files found.")


@files.command("get", epilog=EXAMPLES)
@session_argument
@click.argument("path")
@output_option
@force_option
@tenant_command
def get(api: Api, show: Show, session_id: str, path: str, output: Path | None, force: bool) -> None:
    """Download a file of a session."""
    _save(api, show, output, "file.download", (session_id, path), force=force)


@files.command("put", epilog=EXAMPLES)
@session_argument
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.argument("path", required=False)
@tenant_command
def put(api: Api, show: Show, session_id: str, file: Path, path: str | None) -> None:
    """Upload a file into a session, at PATH (default: the file name)."""
    executable = bool(file.stat().st_mode & 0o100)
    try:
        with file.open("rb") as source:
            written = api.upload(
                source, "file.put", session_id, path or file.name, media_type=DEFAULT_MEDIA_TYPE, executable=executable
            )
    except OSError as error:
        raise click.ClickException(f"Cannot read {file}: {error.strerror}") from None
    show.done(f"Wrote {plain(written['path'])}: {written['size']:,} bytes.", written)


@files.command("delete")
@session_argument
@click.argument("path")
@yes_option
@tenant_command
def delete(api: Api, show: Show, session_id: str, path: str, yes: bool) -> None:
    """Delete a file of a session."""
    confirm(f"Delete {plain(path)}?", yes=yes)
    api.call("file.delete", session_id, path)
    show.done(f"{plain(path)} is deleted.")


keep_name(files, "rm", delete)


@files.command("archive", epilog=EXAMPLES)
@session_argument
@output_option
@force_option
@tenant_command
def archive(api: Api, show: Show, session_id: str, output: Path | None, force: bool) -> None:
    """Download all files of a session as a ZIP."""
    _save(api, show, output, "file.archive", (session_id,), force=force)


def _save(api: Api, show: Show, output: Path | None, operation: str, names: tuple[str, ...], *, force: bool) -> None:
    if output is None:
        api.download(cast("BinaryIO", click.open_file("-", "wb")), operation, *names)
        return
    check_absent(output, force=force)
    size = write_atomically(output, lambda file: api.download(file, operation, *names))
    show.done(f"Wrote {output}: {size:,} bytes.", {"path": str(output), "bytes": size})
