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
SOURCES = ("auto", "archive", "chatgpt", "claude", "openwebui")
PROGRAMS = {"chatgpt": "ChatGPT", "claude": "Claude", "openwebui": "Open WebUI"}

EXPORT_EXAMPLES = """\b
Examples:
  avm export -o everything.zip                      all that you reach of your tenant
  avm export --container notes -o notes.zip
  avm export --session sess_1 --format markdown     prints it
  avm export --tenant acme -o acme.zip              of another tenant, as the operator
  avm export --all-tenants -o exports               every tenant, a file for each
"""
IMPORT_EXAMPLES = """\b
Examples:
  avm import notes.zip --dry-run                    checks it, and says what would be
  avm import notes.zip
  avm import chatgpt.zip --container notes          also what ChatGPT, Claude or Open WebUI exported
"""


@click.command(epilog=EXPORT_EXAMPLES)
@click.option("--session", help="Only this session.")
@click.option("--container", help="Only what is in this container.")
@click.option("--user", help="Only what belongs to this user.")
@click.option("--all-tenants", is_flag=True, help="Every tenant, each in a file of the directory that -o names.")
@click.option("--format", "form", type=click.Choice(tuple(FORMATS)), default="archive", show_default=True)
@click.option("-o", "--output", type=click.Path(path_type=Path), help="File to write; else stdout.")
@click.option("--force", is_flag=True, help="Replace a file that is there.")
@tenant_option
@asks_server
def export(
    api: Api,
    show: Show,
    session: str | None,
    container: str | None,
    user: str | None,
    all_tenants: bool,
    form: str,
    output: Path | None,
    force: bool,
) -> None:
    """Take sessions out of a server, as an archive or as a page."""
    query: dict[str, str | int | None] = {"session": session, "container": container, "user": user, "format": form}
    if all_tenants:
        if output is None or api.tenant is not None or any((session, container, user)):
            raise click.UsageError("--all-tenants is everything: it needs -o DIRECTORY, and nothing that narrows it.")
        _export_tenants(api, show, output, form, force=force)
        return
    if output is None:
        out = click.open_file("-", "wb")
        if form == "archive" and sys.stdout.isatty():
            raise click.UsageError("An archive is nothing for a terminal. Name a file with -o.")
        api.download(cast("BinaryIO", out), "export", **query)
        return
    size = _export_file(api, output, force=force, **query)
    tenant = _tenant(api)
    if show.as_json:
        show.json({"path": str(output), "bytes": size} | ({} if tenant is None else {"tenant": tenant}))
        return
    of_tenant = "" if tenant is None else f", of the tenant {plain(tenant)}"
    click.echo(f"Exported to {output}: {size:,} bytes{of_tenant}.")
    if tenant is not None and api.tenant is None:
        click.echo("Other tenants: --tenant ID, or --all-tenants for everything.", err=True)


def _export_file(api: Api, output: Path, *, force: bool, **query: str | int | None) -> int:
    if output.exists() and not force:
        raise click.ClickException(f"{output} is there already. Choose another name, or give --force to replace it.")
    return to_file(output, lambda file: api.download(file, "export", **query))


def _export_tenants(api: Api, show: Show, directory: Path, form: str, *, force: bool) -> None:
    """A file for each tenant: names of containers are a tenant's own, so no archive holds two."""
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise click.ClickException(f"{directory} cannot be made: {error.strerror}") from None
    written = []
    for tenant in api.pages("tenants"):
        slug = str(tenant["slug"])
        path = directory / f"{slug}.{FORMATS[form]}"
        size = _export_file(api, path, force=force, tenant=str(tenant["tenantId"]), format=form)
        written.append({"tenant": slug, "path": str(path), "bytes": size})
        if not show.as_json:
            click.echo(f"Exported to {path}: {size:,} bytes, of the tenant {plain(slug)}.")
    if show.as_json:
        show.json({"items": written})


def _tenant(api: Api) -> str | None:
    """The tenant that an operator's export is of; None for those who have only one."""
    if api.tenant is not None:
        return api.tenant
    asker = api.get("auth", "whoami")
    if asker.get("auth") == "off" or "system:admin" not in asker.get("permissions", ()):
        return None
    return str(asker.get("tenant") or asker.get("tenantId"))


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
@click.option("--from", "source", type=click.Choice(SOURCES), default="auto", show_default=True, help="Who wrote the file.")
@click.option("--dry-run", is_flag=True, help="Check it, and say what would be done.")
@tenant_option
@asks_server
def import_(api: Api, show: Show, file: BinaryIO, container: str | None, source: str, dry_run: bool) -> None:
    """Bring sessions into a server.

    All of the file, or nothing of it. What is there already is not imported again, so the same file, or a newer one, adds only
    what is new. Ids are kept if they are free.
    """
    query = {"container": container, "from": source, "dryRun": "true" if dry_run else None}
    report = api.upload(file, "import", **query)
    if show.as_json:
        show.json(report)
        return
    if source == "auto" and (program := PROGRAMS.get(str(report.get("format")))) is not None:
        click.echo(f"It is an export of {program}.")
    click.echo(summary(report, dry_run=dry_run))
    for old, new in report.get("renamed", {}).items():
        click.echo(f"{plain(old)} is {plain(new)} here: that id was taken.")


def summary(report: Item, *, dry_run: bool) -> str:
    counts = report.get("counts", {})
    said = ", ".join(f"{plain(counts.get(what, 0))} {what}" for what in ("images", "sessions", "messages"))
    where = ", ".join(plain(name) for name in report.get("containers", [])) or "nowhere"
    told = f"{'Would import' if dry_run else 'Imported'} {said} into {where}."
    if continued := report.get("continued"):
        told += f" Sessions that went on: {plain(continued)}."
    if known := report.get("known"):
        told += f" Sessions that are here already: {plain(known)}."
    return told
