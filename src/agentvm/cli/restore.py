"""avm restore — puts a backup into a data directory, after it was verified."""

import tempfile
from pathlib import Path

import click

from agentvm.cli import program
from agentvm.cli.options import configure, data_dir_option
from agentvm.cli.progress import at_terminal
from agentvm.cli.table import Show, when
from agentvm.errors import NotAvailable
from agentvm.storage.sqlite.backup import SERVER_KEY, Manifest
from agentvm.storage.sqlite.restore import Restored, check_backup, restore_backup

EXAMPLES = """\b
Examples:
  avm restore --check agentvm.backup                    verify it, and do nothing else
  avm restore agentvm.backup --data-dir ./restored      then: avm serve --data-dir ./restored
  avm restore agentvm.backup --force                    in place of what is there, which is kept aside
"""


@click.command(epilog=EXAMPLES)
@click.argument("backup", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@data_dir_option
@click.option("--check", is_flag=True, help="Only verify the backup.")
@click.option("--force", is_flag=True, help="Also into a directory that is not empty; what is replaced is kept aside.")
@click.option("--json", "as_json", is_flag=True, help="Answer in JSON.")
def restore(backup: Path, data_dir: Path | None, check: bool, force: bool, as_json: bool) -> None:
    """Put a backup into a data directory.

    It is verified first; then all of it is put in place, or nothing. No server may run there.
    """
    progress = at_terminal(quiet=as_json, of_bytes=False)
    if check:
        with tempfile.TemporaryDirectory(prefix="avm-check-", dir=backup.absolute().parent) as scratch:
            show_checked(backup, check_backup(backup, Path(scratch), progress), as_json=as_json)
        return
    target = configure(data_dir=data_dir).data_dir
    if target is None:
        raise NotAvailable("There is no data directory to restore to; name one with --data-dir")
    show_restored(restore_backup(backup, target, force=force, progress=progress), target, as_json=as_json)


def show_checked(backup: Path, manifest: Manifest, *, as_json: bool) -> None:
    if as_json:
        Show(as_json).json({"path": str(backup), "manifest": manifest})
    else:
        click.echo(f"{backup} is sound: {describe(manifest)}.")


def show_restored(restored: Restored, target: Path, *, as_json: bool) -> None:
    if as_json:
        kept = None if restored.replaced is None else str(restored.replaced)
        answer = {"dataDir": str(target), "manifest": restored.manifest, "replaced": kept, "hasKey": restored.has_key}
        Show(as_json).json(answer)
    else:
        click.echo(f"Restored to {target}: {describe(restored.manifest)}.")
        if restored.replaced is not None:
            click.echo(f"What was there before is in {restored.replaced}; remove it when you are sure.")
        click.echo(f"Start it: {program()} serve --data-dir {target}")
    if not restored.has_key:
        click.secho(
            f"Warning: there is no {SERVER_KEY} in {target}, and none in the backup. If its server asked for keys, put the "
            "file there, or give AVM_SERVER_KEY, before you start it.",
            fg="yellow",
            err=True,
        )


def describe(manifest: Manifest) -> str:
    parts = ", ".join(part.name for part in manifest.parts)
    return f"{parts} as of {when(manifest.at)} UTC, made by AgentVM {manifest.agentvm}"
