"""avm export, avm import — sessions as archives for other servers, or as pages for people."""

import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO, cast

import click

from agentvm.cli.api import Api, tenant_command
from agentvm.cli.names import SESSION, NamedType, user_option
from agentvm.cli.options import container_option
from agentvm.cli.table import Item, Show, counted, plain

FORMATS = {"archive": "zip", "markdown": "md", "html": "html"}
SOURCES = ("auto", "archive", "chatgpt", "claude", "openwebui")
PROGRAMS = {"chatgpt": "ChatGPT", "claude": "Claude", "openwebui": "Open WebUI"}

EXPORT_EXAMPLES = """\b
Examples:
  avm export -o everything.zip                      all sessions you have access to
  avm export --container notes -o notes.zip
  avm export --session last --format markdown       prints a session
  avm export --tenant acme -o acme.zip              another tenant, as the operator
  avm export --all-tenants -o exports               one file per tenant
"""
IMPORT_EXAMPLES = """\b
Examples:
  avm import notes.zip --dry-run                    checks the file and prints what would be imported
  avm import notes.zip
  avm import chatgpt.zip --container notes          also exports of ChatGPT, Claude and Open WebUI
"""

force_option = click.option("--force", is_flag=True, help="Overwrite an existing file.")


@click.command(epilog=EXPORT_EXAMPLES)
@click.option("--session", "session_id", type=NamedType(SESSION), help="Only this session: an id, an id prefix or `last`.")
@container_option
@user_option("Only sessions of this user: id, external id or name.")
@click.option("--all-tenants", is_flag=True, help="All tenants, one file each in the directory given by -o.")
@click.option("--format", type=click.Choice(tuple(FORMATS)), default="archive", show_default=True, help="Output format.")
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Output file (default: stdout).")
@force_option
@tenant_command
def export(api: Api, show: Show, /, all_tenants: bool, output: Path | None, force: bool, format: str, **query: Any) -> None:
    """Export sessions as an archive, Markdown or HTML."""
    if all_tenants:
        if output is None or api.tenant is not None or any(query.values()):
            raise click.UsageError("--all-tenants requires -o DIRECTORY and cannot be combined with a filter.")
        _export_tenants(api, show, output, format, force=force)
        return
    if output is None:
        stdout = click.open_file("-", "wb")
        if format == "archive" and sys.stdout.isatty():
            raise click.UsageError("An archive cannot be printed to a terminal. Use -o FILE.")
        api.download(cast("BinaryIO", stdout), "transfer.export", format=format, **query)
        return
    size = _export_file(api, output, force=force, format=format, **query)
    tenant = _tenant(api)
    of_tenant = "" if tenant is None else f", of the tenant {plain(tenant)}"
    report = {"path": str(output), "bytes": size} | ({} if tenant is None else {"tenant": tenant})
    show.done(f"Exported to {output}: {size:,} bytes{of_tenant}.", report)
    if tenant is not None and api.tenant is None and not show.as_json:
        click.echo("Other tenants: --tenant ID, or --all-tenants.", err=True)


def _export_file(api: Api, output: Path, *, force: bool, **query: Any) -> int:
    check_absent(output, force=force)
    return write_atomically(output, lambda file: api.download(file, "transfer.export", **query))


def _export_tenants(api: Api, show: Show, directory: Path, form: str, *, force: bool) -> None:
    """Writes one file per tenant: container names are unique within a tenant only."""
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise click.ClickException(f"Cannot create {directory}: {error.strerror}") from None
    written = []
    for tenant in list(api.items("tenant.list")):
        slug = str(tenant["slug"])
        path = directory / f"{slug}.{FORMATS[form]}"
        api.tenant = str(tenant["tenantId"])
        size = _export_file(api, path, force=force, format=form)
        written.append({"tenant": slug, "path": str(path), "bytes": size})
        show.done(f"Exported to {path}: {size:,} bytes, of the tenant {plain(slug)}.")
    if show.as_json:
        show.json({"items": written})


def _tenant(api: Api) -> str | None:
    """The tenant of an operator's export; None for other users, who have only one."""
    if api.tenant is not None:
        return api.tenant
    identity = api.call("auth.whoami")
    if identity.get("auth") == "off" or "system:admin" not in identity.get("permissions", ()):
        return None
    return str(identity.get("tenant") or identity.get("tenantId"))


def check_absent(output: Path, *, force: bool) -> None:
    """Refuses to overwrite a file without --force."""
    if output.exists() and not force:
        raise click.ClickException(f"{output} already exists. Choose another name, or use --force to overwrite it.")


def write_atomically(output: Path, write: Callable[[BinaryIO], int]) -> int:
    """Writes a file that appears under its name only when it is complete; returns its size in bytes."""
    try:
        descriptor, temporary = tempfile.mkstemp(dir=output.absolute().parent, prefix=f".{output.name}.")
    except OSError as error:
        raise click.ClickException(f"Cannot write {output}: {error.strerror}") from None
    try:
        with os.fdopen(descriptor, "wb") as file:
            size = write(file)
        os.replace(temporary, output)
    finally:
        Path(temporary).unlink(missing_ok=True)
    return size


@click.command("import", epilog=IMPORT_EXAMPLES)
@click.argument("file", type=click.File("rb"))
@click.option("--container", help="Target container (default: those named in the archive).")
@click.option("--from", "source", type=click.Choice(SOURCES), default="auto", show_default=True, help="Format of the file.")
@click.option("--dry-run", is_flag=True, help="Check the file and print what would be imported.")
@tenant_command
def import_(api: Api, show: Show, file: BinaryIO, container: str | None, source: str, dry_run: bool) -> None:
    """Import sessions from an archive.

    Either all sessions are imported or none. Sessions that exist are not imported again, so a newer archive adds only new
    messages. Ids are kept if they are free.
    """
    report = api.upload(file, "transfer.import", container_id=container, from_=source, dry_run=dry_run or None)
    if show.as_json:
        show.json(report)
        return
    if source == "auto" and (program := PROGRAMS.get(str(report.get("format")))) is not None:
        click.echo(f"Format: {program} export.")
    click.echo(summary(report, dry_run=dry_run))
    for old, new in report.get("renamed", {}).items():
        click.echo(f"{plain(old)} is imported as {plain(new)}: the id is in use.")
    counts = report.get("counts", {})
    if not dry_run and (counts.get("schedules") or counts.get("triggers")):
        click.echo(
            "Schedules and triggers are disabled: see avm schedule enable, avm trigger rotate, avm trigger update --enable."
        )


def summary(report: Item, *, dry_run: bool) -> str:
    counts = report.get("counts", {})
    counted_nouns = [counted(counts.get(f"{noun}s", 0), noun) for noun in ("image", "session", "message")]
    for name, noun in (("memories", "memory"), ("schedules", "schedule"), ("triggers", "trigger")):
        if count := counts.get(name):
            counted_nouns.append(f"{plain(count)} {noun if count == 1 else name}")
    parts = ", ".join(counted_nouns)
    containers = ", ".join(plain(name) for name in report.get("containers", [])) or "no container"
    text = f"{'Would import' if dry_run else 'Imported'} {parts} into {containers}."
    if continued := report.get("continued"):
        text += f" Sessions continued: {plain(continued)}."
    if existing := report.get("known"):
        text += f" Sessions already present: {plain(existing)}."
    return text
