"""avm restore — verifies a backup and restores it to a data directory."""

import tempfile
from pathlib import Path

import click

from agentvm.cli import program
from agentvm.cli.backup import seal_key_of
from agentvm.cli.options import json_option
from agentvm.cli.progress import at_terminal
from agentvm.cli.server_options import configure, data_dir_option
from agentvm.cli.table import Show, when
from agentvm.errors import NotAvailable
from agentvm.storage.engine import SERVER_KEY, BackupManifest, Restored, check_backup, restore_backup

EXAMPLES = """\b
Examples:
  avm restore --check agentvm.backup                    only verify it
  avm restore agentvm.backup --data-dir ./restored      then: avm serve --data-dir ./restored
  avm restore agentvm.backup --force                    replaces the data directory; the old one is kept
"""


_UNCHECKED = (
    "The authenticity of the backup was not checked, only its format. The check needs the server key (in the data directory, "
    "or AVM_SERVER_KEY)."
)


_ON_POSTGRESQL = (
    "system.database names a PostgreSQL database, so the server does not use what was restored. Copy it there with "
    "`avm database copy`, or unset AVM_DATABASE."
)


@click.command(epilog=EXAMPLES)
@click.argument("backup", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@data_dir_option
@click.option("--check", is_flag=True, help="Only verify the backup.")
@click.option("--force", is_flag=True, help="Restore to a non-empty directory; the replaced files are kept.")
@click.option("--trust", is_flag=True, help="Accept a backup of another server key.")
@json_option
def restore(backup: Path, data_dir: str | None, check: bool, force: bool, trust: bool, as_json: bool) -> None:
    """Restore a backup to a data directory.

    The backup is verified first, then restored completely or not at all. Stop the server before. If there is a server key (in
    the directory, or as AVM_SERVER_KEY), the backup must have been created with it.
    """
    progress = at_terminal(quiet=as_json, of_bytes=False)
    loaded = configure(data_dir=data_dir)
    target = loaded.data_dir
    # A check without --data-dir is not about the local server.
    has_key = target is not None and (not check or data_dir is not None or loaded.system.server_key is not None)
    seal_key = seal_key_of(target.expanduser().absolute(), loaded.system.server_key) if has_key and target is not None else None
    if check:
        with tempfile.TemporaryDirectory(prefix="avm-check-", dir=backup.absolute().parent) as scratch:
            manifest = check_backup(backup, Path(scratch), progress, seal_key=seal_key, trust=trust)
            authentic = seal_key is not None and manifest.is_sealed(seal_key)
            show_checked(backup, manifest, authentic=authentic, as_json=as_json)
        return
    if target is None:
        raise NotAvailable("No data directory to restore to; use --data-dir")
    restored = restore_backup(backup, target, force=force, seal_key=seal_key, trust=trust, progress=progress)
    show_restored(restored, target, as_json=as_json)
    if loaded.system.database is not None:
        click.secho(f"Warning: {_ON_POSTGRESQL}", fg="yellow", err=True)


def show_checked(backup: Path, manifest: BackupManifest, *, authentic: bool, as_json: bool) -> None:
    if as_json:
        Show(as_json).json({"path": str(backup), "manifest": manifest, "authentic": authentic})
    else:
        click.echo(f"{backup} is valid: {describe(manifest)}.")
        click.echo("It was created with the local server key." if authentic else _UNCHECKED)


def show_restored(restored: Restored, target: Path, *, as_json: bool) -> None:
    if as_json:
        report = {
            "dataDir": str(target),
            "manifest": restored.manifest,
            "replaced": None if restored.replaced is None else str(restored.replaced),
            "hasKey": restored.has_key,
            "authentic": restored.is_authentic,
        }
        Show(as_json).json(report)
    else:
        click.echo(f"Restored to {target}: {describe(restored.manifest)}.")
        if restored.replaced is not None:
            click.echo(f"The replaced files are in {restored.replaced}; remove them when you no longer need them.")
        click.echo(f"Start it: {program()} serve --data-dir {target}")
    if not restored.is_authentic:
        click.secho(f"Warning: {_UNCHECKED}", fg="yellow", err=True)
    if not restored.has_key:
        click.secho(
            f"Warning: no {SERVER_KEY} in {target} or in the backup. If authentication was on, copy the file there or set "
            "AVM_SERVER_KEY before you start the server.",
            fg="yellow",
            err=True,
        )


def describe(manifest: BackupManifest) -> str:
    parts = ", ".join(part.name for part in manifest.parts)
    return f"{parts} as of {when(manifest.at)} UTC, created by AgentVM {manifest.agentvm}"
