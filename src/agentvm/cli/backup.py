"""avm backup — writes a data directory into one file, also while the server runs."""

import os
import time
from datetime import UTC, datetime
from pathlib import Path

import click

from agentvm.cli import program
from agentvm.cli.options import json_option
from agentvm.cli.progress import at_terminal
from agentvm.cli.server_options import config_option, configure, data_dir_option
from agentvm.cli.table import Show
from agentvm.cli.transfer import force_option
from agentvm.errors import ConfigInvalid, NotAvailable
from agentvm.model.secret import Secret
from agentvm.storage.engine import SERVER_KEY, BackupResult, make_backup
from agentvm.tenants.server_key import find_server_key

EXAMPLES = """\b
Examples:
  avm backup agentvm.backup                    whether the server runs or not
  avm backup /var/backups/agentvm/             into a folder, with the time as name
  avm backup --with-key agentvm.backup         with the server key and configuration; store it safely
"""

SECRETS = (
    "The backup contains the server key, which decrypts all secrets and allows every identity. Encrypt it and store it as "
    "safely as the key itself."
)


ON_POSTGRESQL = """This server stores in PostgreSQL, which has its own tools. While the server runs:
  pg_dump --format=custom --file=agentvm.dump "$AVM_DATABASE"           everything, as of one moment
  pg_restore --clean --if-exists --dbname="$AVM_DATABASE" agentvm.dump   with the server stopped
To lose nothing of the time since, use point-in-time recovery (pg_basebackup and the archived WAL), or your provider's backups.
Keep server.key of the data directory (or AVM_SERVER_KEY) apart from them: without it no key and no secret can be used."""


@click.command(epilog=EXAMPLES)
@click.argument("target")
@data_dir_option
@config_option
@click.option("--with-key", is_flag=True, help="Include the server key and the configuration file (secrets).")
@force_option
@json_option
def backup(target: str, data_dir: str | None, config: Path | None, with_key: bool, force: bool, as_json: bool) -> None:
    """Back up the data directory into one file.

    TARGET is a file or a folder. The server may keep running.
    """
    loaded = configure(config=config, data_dir=data_dir)
    if loaded.system.database is not None:
        raise NotAvailable(ON_POSTGRESQL)
    if loaded.data_dir is None:
        raise NotAvailable("A server with --memory has no data directory to back up")
    source = loaded.data_dir.expanduser().absolute()
    result = make_backup(
        source,
        target_file(target),
        clock=lambda: time.time_ns() // 1_000_000,
        with_key=with_key,
        force=force,
        seal_key=seal_key_of(source, loaded.system.server_key),
        progress=at_terminal(quiet=as_json, of_bytes=False),
    )
    show(result, with_key=with_key, as_json=as_json)


def seal_key_of(data_dir: Path, server_key: Secret | None) -> bytes | None:
    """The key that seals backups of the directory; None without a server key."""
    try:
        key = find_server_key(data_dir, None if server_key is None else server_key.reveal())
    except ConfigInvalid as error:
        # Backup and restore must work without a valid server key.
        click.secho(f"Warning: {error}", fg="yellow", err=True)
        return None
    return None if key is None else key.backups


def target_file(target: str) -> Path:
    """The output file; in a folder (existing, or with a trailing slash) its name is the time."""
    path = Path(target)
    if not (path.is_dir() or target.endswith(("/", os.sep))):
        return path
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigInvalid(f"Cannot create the folder {path}: {error.strerror}") from error
    return path / f"agentvm-{datetime.now(UTC):%Y%m%dT%H%M%SZ}.backup"


def show(result: BackupResult, *, with_key: bool, as_json: bool) -> None:
    has_key = any(part.name == SERVER_KEY for part in result.manifest.parts)
    if as_json:
        Show(as_json).json({"path": str(result.path), "bytes": result.size, "manifest": result.manifest})
    else:
        click.echo(f"Backup {result.path}: {result.size:,} bytes.")
        click.echo(f"Check it: {program()} restore --check {result.path}")
    if has_key:
        click.secho(f"Warning: {SECRETS}", fg="yellow", err=True)
    elif with_key:
        click.echo(f"No {SERVER_KEY} file: the key is set as AVM_SERVER_KEY. Store it yourself.", err=True)
    elif not as_json:
        click.echo(
            f"{SERVER_KEY} is not included, but required to restore keys and secrets: store it separately, or use --with-key."
        )
