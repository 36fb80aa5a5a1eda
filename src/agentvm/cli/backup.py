"""avm backup — a data directory as one file, also while its server runs."""

import os
import time
from datetime import UTC, datetime
from pathlib import Path

import click

from agentvm.cli import program
from agentvm.cli.options import config_option, configure, data_dir_option
from agentvm.cli.progress import at_terminal
from agentvm.cli.table import Show
from agentvm.errors import ConfigInvalid, NotAvailable
from agentvm.model.secret import Secret
from agentvm.storage.engine import SERVER_KEY, Made, make_backup
from agentvm.tenants.server_key import find_server_key

EXAMPLES = """\b
Examples:
  avm backup agentvm.backup                    while the server runs, or not
  avm backup /var/backups/agentvm/             into a folder, named after the time
  avm backup --with-key agentvm.backup         with the server's key and configuration: keep it safe
"""

SECRETS = (
    "The backup holds the server's key: whoever has it can open every secret in it and be anybody. Keep it where you would "
    "keep the key, and encrypt it."
)


@click.command(epilog=EXAMPLES)
@click.argument("target")
@data_dir_option
@config_option
@click.option("--with-key", is_flag=True, help="Also the server's key and configuration file, which hold secrets.")
@click.option("--force", is_flag=True, help="Replace the file if it is there.")
@click.option("--json", "as_json", is_flag=True, help="Answer in JSON.")
def backup(target: str, data_dir: Path | None, config: Path | None, with_key: bool, force: bool, as_json: bool) -> None:
    """Write everything a server keeps into one file.

    TARGET is the file, or a folder for it. The server may go on running.
    """
    loaded = configure(config=config, data_dir=data_dir)
    if loaded.data_dir is None:
        raise NotAvailable("A server that keeps everything in memory has nothing to back up")
    source = loaded.data_dir.expanduser().absolute()
    made = make_backup(
        source,
        place_of(target),
        clock=lambda: time.time_ns() // 1_000_000,
        with_key=with_key,
        force=force,
        seal_key=seal_key_of(source, loaded.server_key),
        progress=at_terminal(quiet=as_json, of_bytes=False),
    )
    show(made, with_key=with_key, as_json=as_json)


def seal_key_of(data_dir: Path, given: Secret | None) -> bytes | None:
    """The key that seals backups of the directory; None where no server key is found."""
    try:
        key = find_server_key(data_dir, None if given is None else given.reveal())
    except ConfigInvalid as error:
        # Whoever has lost the key needs backups and restores more than anybody.
        click.secho(f"Warning: {error}", fg="yellow", err=True)
        return None
    return None if key is None else key.backups


def place_of(target: str) -> Path:
    """The file to write; a folder, which is one or ends in a slash, gets a file named after the time."""
    path = Path(target)
    if not (path.is_dir() or target.endswith(("/", os.sep))):
        return path
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigInvalid(f"The folder {path} cannot be made: {error.strerror}") from error
    return path / f"agentvm-{datetime.now(UTC):%Y%m%dT%H%M%SZ}.backup"


def show(made: Made, *, with_key: bool, as_json: bool) -> None:
    has_key = any(part.name == SERVER_KEY for part in made.manifest.parts)
    if as_json:
        Show(as_json).json({"path": str(made.path), "bytes": made.size, "manifest": made.manifest})
    else:
        click.echo(f"Backup {made.path}: {made.size:,} bytes.")
        click.echo(f"Check it: {program()} restore --check {made.path}")
    if has_key:
        click.secho(f"Warning: {SECRETS}", fg="yellow", err=True)
    elif with_key:
        click.echo(f"There is no {SERVER_KEY}: the key is given as AVM_SERVER_KEY. Keep that one yourself.", err=True)
    elif not as_json:
        click.echo(f"It is without {SERVER_KEY}, which its keys and secrets need: keep that elsewhere, or give --with-key.")
