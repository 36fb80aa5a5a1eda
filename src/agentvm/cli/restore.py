"""avm restore — puts a backup into a data directory, after it was verified."""

import tempfile
from pathlib import Path

import click

from agentvm.cli import program
from agentvm.cli.backup import seal_key_of
from agentvm.cli.options import configure, data_dir_option
from agentvm.cli.progress import at_terminal
from agentvm.cli.table import Show, when
from agentvm.errors import NotAvailable
from agentvm.storage.engine import SERVER_KEY, Manifest, Restored, check_backup, restore_backup

EXAMPLES = """\b
Examples:
  avm restore --check agentvm.backup                    verify it, and do nothing else
  avm restore agentvm.backup --data-dir ./restored      then: avm serve --data-dir ./restored
  avm restore agentvm.backup --force                    in place of what is there, which is kept aside
"""


_UNCHECKED = (
    "Nothing shows that the backup is unchanged: only its form was checked, not what it says. Where the server key is (in the "
    "data directory, or AVM_SERVER_KEY), that is checked too."
)


@click.command(epilog=EXAMPLES)
@click.argument("backup", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@data_dir_option
@click.option("--check", is_flag=True, help="Only verify the backup.")
@click.option("--force", is_flag=True, help="Also into a directory that is not empty; what is replaced is kept aside.")
@click.option("--trust", is_flag=True, help="Also one that was not made under the server key that is here.")
@click.option("--json", "as_json", is_flag=True, help="Answer in JSON.")
def restore(backup: Path, data_dir: Path | None, check: bool, force: bool, trust: bool, as_json: bool) -> None:
    """Put a backup into a data directory.

    It is verified first; then all of it is put in place, or nothing. No server may run there. Where a server key is found (in
    the directory, or as AVM_SERVER_KEY), the backup must have been made under it.
    """
    progress = at_terminal(quiet=as_json, of_bytes=False)
    loaded = configure(data_dir=data_dir)
    target = loaded.data_dir
    # A check without a directory says nothing of the server that happens to be here.
    named = target is not None and (not check or data_dir is not None or loaded.server_key is not None)
    seal_key = seal_key_of(target.expanduser().absolute(), loaded.server_key) if named and target is not None else None
    if check:
        with tempfile.TemporaryDirectory(prefix="avm-check-", dir=backup.absolute().parent) as scratch:
            manifest = check_backup(backup, Path(scratch), progress, seal_key=seal_key, trust=trust)
            authentic = seal_key is not None and manifest.is_sealed(seal_key)
            show_checked(backup, manifest, authentic=authentic, as_json=as_json)
        return
    if target is None:
        raise NotAvailable("There is no data directory to restore to; name one with --data-dir")
    restored = restore_backup(backup, target, force=force, seal_key=seal_key, trust=trust, progress=progress)
    show_restored(restored, target, as_json=as_json)


def show_checked(backup: Path, manifest: Manifest, *, authentic: bool, as_json: bool) -> None:
    if as_json:
        Show(as_json).json({"path": str(backup), "manifest": manifest, "authentic": authentic})
    else:
        click.echo(f"{backup} is sound: {describe(manifest)}.")
        click.echo("It was made under the server key that is here." if authentic else _UNCHECKED)


def show_restored(restored: Restored, target: Path, *, as_json: bool) -> None:
    if as_json:
        kept = None if restored.replaced is None else str(restored.replaced)
        answer = {
            "dataDir": str(target),
            "manifest": restored.manifest,
            "replaced": kept,
            "hasKey": restored.has_key,
            "authentic": restored.is_authentic,
        }
        Show(as_json).json(answer)
    else:
        click.echo(f"Restored to {target}: {describe(restored.manifest)}.")
        if restored.replaced is not None:
            click.echo(f"What was there before is in {restored.replaced}; remove it when you are sure.")
        click.echo(f"Start it: {program()} serve --data-dir {target}")
    if not restored.is_authentic:
        click.secho(f"Warning: {_UNCHECKED}", fg="yellow", err=True)
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
