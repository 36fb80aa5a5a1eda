"""avm resource — publish, search, export and import prompts, tools, sandboxes, agents, knowledge and skills."""

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import click
import msgspec

from agentvm.cli.api import Api, confirm, dry_run_option, tenant_command, yes_option
from agentvm.cli.resource_folders import pull_one, push_all, read_all
from agentvm.cli.table import Columns, Item, Show, listed, moment, plain, shortened
from agentvm.model.resource import SCHEME, TYPES, ResourceUri, parse_uri
from agentvm.model.semver import Bump
from agentvm.resources.archive import BUNDLE_MAX_BYTES

EXAMPLES = """\b
Examples:
  avm resource push ./prompts                          publish every folder with a resource.json
  avm resource search translate
  avm resource resolve resource://prompts/translator --arg targetLanguage=French
  avm resource export resource://agents/seller -o seller.tar.gz
  avm resource import seller.tar.gz --dry-run
"""

RESOURCES_PAGE_MAX = 100
_DESCRIPTION_CHARACTERS_MAX = 60

COLUMNS: Columns = {
    "URI": "uri",
    "LATEST": "latest",
    "VISIBILITY": "visibility",
    "USES": "uses",
    "DESCRIPTION": lambda item: shortened(item.get("description") or "", _DESCRIPTION_CHARACTERS_MAX),
}
DETAILS: Columns = {
    "URI": "uri",
    "Id": "id",
    "Owner": "owner",
    "Version": lambda item: item["version"]["version"],
    "Latest": "latest",
    "Digest": lambda item: item["version"]["digest"],
    "Bytes": lambda item: item["version"]["size"],
    "Visibility": "visibility",
    "Description": "description",
    "Tags": listed("tags"),
    "Deprecated": "deprecated",
    "Yanked (UTC)": lambda item: moment("yankedAt")(item["version"]),
    "Depends on": lambda item: " ".join(item.get("dependencies", {}).values()),
    "Created (UTC)": moment("createdAt"),
    "Updated (UTC)": moment("updatedAt"),
}
VERSIONS: Columns = {
    "VERSION": "version",
    "TAGS": listed("pointers"),
    "STATE": lambda item: "published" if item.get("yankedAt") is None else "yanked",
    "BYTES": "size",
    "CREATED (UTC)": moment("createdAt"),
    "DIGEST": "digest",
}
OUTCOMES: Columns = {"URI": "uri", "OUTCOME": "outcome"}
TOOL_CHANGES: Columns = {"TOOL": "name", "CHANGE": "change", "PIN": "pin"}


def uri(text: str) -> ResourceUri:
    """A resource URI, with or without the scheme."""
    return parse_uri(text if "://" in text else SCHEME + text)


def variable(text: str) -> tuple[str, object]:
    """A variable: `name=text`, or `name:=json`."""
    name, sign, value = text.partition("=")
    if not sign or not name.removesuffix(":"):
        raise click.BadParameter(f"{plain(text)!r} is not a variable; use for example name=Ada or count:=3.")
    if not name.endswith(":"):
        return name, value
    try:
        return name[:-1], msgspec.json.decode(value)
    except msgspec.DecodeError:
        raise click.BadParameter(f"{plain(value)!r} after := is not valid JSON.") from None


uri_argument = click.argument("uri", type=uri, metavar="URI")
type_option = click.option("--type", "kind", help=f"Only this type: {', '.join(TYPES)}.")


@click.group(epilog=EXAMPLES)
def resource() -> None:
    """Publish, search and share prompts, tools and agents.

    Resources are prompts, tools, sandboxes, agents, knowledge and skills.
    """


@resource.command("push", epilog=EXAMPLES)
@click.argument("folder", metavar="DIR", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--bump", type=click.Choice(("patch", "minor", "major")), help="Assign a new version to changed resources.")
@dry_run_option
@tenant_command
def push(api: Api, show: Show, folder: Path, bump: Bump | None, dry_run: bool) -> None:
    """Publish every changed resource below DIR.

    A resource is a folder with a resource.json, or a SKILL.md.
    """
    pushed: list[Item] = []
    for item in push_all(api, read_all(folder), bump, dry_run=dry_run):
        pushed.append(item)
        show.done(f"{item['outcome']:<9}  {plain(item['uri'])}")
        for warning in item.get("warnings", ()):
            click.echo(f"Warning: {plain(item['uri'])}: {plain(warning)}", err=True)
    if show.as_json:
        show.json(pushed)
    elif dry_run:
        click.echo("Dry run: nothing was published.", err=True)


@resource.command("pull")
@uri_argument
@click.argument("folder", metavar="[DIR]", required=False, type=click.Path(file_okay=False, path_type=Path))
@click.option("--force", is_flag=True, help="Overwrite changed files.")
@tenant_command
def pull(api: Api, show: Show, uri: ResourceUri, folder: Path | None, force: bool) -> None:
    """Download a resource as files into DIR (default: its name).

    If files in DIR differ, nothing is written without --force.
    """
    where, item = pull_one(api, uri, folder, force=force)
    if show.as_json:
        show.json({"folder": str(where), "type": item.type, "name": item.name, "version": item.version})
    show.done(f"{item.type}/{item.name}@{item.version} is written to {plain(where)}.")


@resource.command("list")
@type_option
@click.option("--tag", help="Only with this tag.")
@click.option("--owner", help="Only of this tenant (slug); `system` ships with the server.")
@click.option("--scope", type=click.Choice(("own", "public", "all")), default="all", show_default=True, help="Owner.")
@tenant_command
def list_resources(api: Api, show: Show, kind: str | None, tag: str | None, owner: str | None, scope: str) -> None:
    """List your own and public resources."""
    resources = api.items("resource.list", type=kind, tag=tag, owner=owner, scope=scope)
    show.items(resources, COLUMNS, none="No resources found.")


@resource.command("search")
@click.argument("text")
@type_option
@click.option("--limit", type=click.IntRange(1, RESOURCES_PAGE_MAX), default=20, show_default=True, help="Maximum number.")
@tenant_command
def search(api: Api, show: Show, text: str, kind: str | None, limit: int) -> None:
    """Search names, tags, descriptions and texts, best match first."""
    page = api.call("resource.list", q=text, type=kind, limit=limit)
    items: list[Item] = page.get("items", [])
    show.items(items, COLUMNS, none="No resources found.")
    if not show.as_json and page.get("total", 0) > len(items):
        click.echo(f"{len(items)} of {page['total']} results; use --limit for more.", err=True)


@resource.command("show")
@uri_argument
@tenant_command
def show_resource(api: Api, show: Show, uri: ResourceUri) -> None:
    """Show a resource and its content (default: the latest version)."""
    details = api.call("resource.get", _name(uri), version=uri.selector)
    if show.as_json:
        show.json(details)
        return
    show.record({**details["resource"], **{name: details.get(name, {}) for name in ("version", "dependencies")}}, DETAILS)
    click.echo()
    _print_json(details.get("content"))


@resource.command("resolve")
@uri_argument
@click.option("--arg", "args", type=variable, multiple=True, help="Variable: name=Ada, or count:=3 for JSON; repeatable.")
@tenant_command
def resolve(api: Api, show: Show, uri: ResourceUri, args: tuple[tuple[str, object], ...]) -> None:
    """Print a resolved resource: a prompt as text, others as JSON."""
    resolved = api.call("resource.resolve_many", uri=str(uri), args=dict(args))
    if show.as_json:
        show.json(resolved)
        return
    for warning in resolved.get("warnings", ()):
        click.echo(f"Warning: {plain(warning['uri'])}: {plain(warning['message'])}", err=True)
    rendered = resolved.get("rendered")
    if isinstance(rendered, str):
        _print_lines(rendered)
    else:
        _print_json(rendered)


@resource.command("export")
@uri_argument
@click.option(
    "-o", "--output", type=click.Path(dir_okay=False, path_type=Path), help="Output file (default: TYPE-NAME.tar.gz)."
)
@click.option("--no-deps", is_flag=True, help="Without dependencies.")
@click.option("--no-documents", is_flag=True, help="Without the documents of collections.")
@tenant_command
def export(api: Api, show: Show, uri: ResourceUri, output: Path | None, no_deps: bool, no_documents: bool) -> None:
    """Export a version and its dependencies as an archive."""
    choice = {"deps": not no_deps, "documents": not no_documents}
    data = api.call_bytes("resource.export", _name(uri), version=uri.selector, **choice)
    output = Path(f"{uri.type}-{uri.name}.tar.gz") if output is None else output
    try:
        output.write_bytes(data)
    except OSError as error:
        raise click.ClickException(f"Cannot write {output}: {error.strerror}") from None
    show.done(f"{plain(uri)} is exported to {plain(output)}: {len(data):,} bytes.", {"file": str(output), "bytes": len(data)})


@resource.command("import")
@click.argument("file", type=click.File("rb"))
@click.option(
    "--on-conflict",
    type=click.Choice(("fail", "skip", "new-version")),
    default="fail",
    show_default=True,
    help="If a version exists with other content: fail, keep the old one, or import as a new version.",
)
@dry_run_option
@tenant_command
def import_archive(api: Api, show: Show, file: Any, on_conflict: str, dry_run: bool) -> None:
    """Import an archive, all of it or nothing."""
    data = file.read(BUNDLE_MAX_BYTES + 1)
    if len(data) > BUNDLE_MAX_BYTES:
        raise click.ClickException(f"{plain(file.name)} is larger than {BUNDLE_MAX_BYTES:,} bytes, the maximum of an archive.")
    chosen = {"new-version": "newVersion"}.get(on_conflict, on_conflict)
    report = api.upload(data, "resource.import", on_conflict=chosen, dry_run=dry_run)
    show.items(report.get("items", []), OUTCOMES, none="The archive is empty.")
    if dry_run and not show.as_json:
        click.echo("Dry run: nothing was imported.", err=True)


@resource.command("versions")
@uri_argument
@tenant_command
def versions(api: Api, show: Show, uri: ResourceUri) -> None:
    """List the versions of a resource and their tags."""
    page = api.call("resource.versions", _name(uri))
    tags: dict[str, list[str]] = {}
    for tag, version in sorted(page.get("pointers", {}).items()):
        tags.setdefault(version, []).append(tag)
    items = [{**item, "pointers": tags.get(item["version"], [])} for item in page["items"]]
    show.items(items, VERSIONS, none="No versions found.")


@resource.command("pin")
@uri_argument
@click.option("--bump", type=click.Choice(["patch", "minor", "major"]), default="patch", help="Version number to raise.")
@dry_run_option
@tenant_command
def pin(api: Api, show: Show, uri: ResourceUri, bump: Bump, dry_run: bool) -> None:
    """Read the tools of a set from its source again.

    If a server has changed its tools, a new version is published with them. With --dry-run the changes are only shown.
    """
    report = api.call("resource.pin", _name(uri), bump=bump, dry_run=dry_run or None)
    show.items(report["tools"], TOOL_CHANGES, none="The set has no tools.")
    if show.as_json:
        return
    for tool in report["tools"]:
        for member, lines in tool.get("lines", {}).items():
            _print_lines(f"{plain(tool['name'])} {member}:\n{lines}")
    for warning in report.get("warnings", ()):
        click.echo(f"Warning: {plain(warning)}", err=True)
    if dry_run:
        click.echo("Dry run: nothing was published.", err=True)
    else:
        show.done(f"Published {plain(report['uri'])}." if report["created"] else f"Unchanged: {plain(report['uri'])}.")


@resource.command("tag")
@uri_argument
@click.argument("tag")
@click.argument("version", required=False)
@click.option("--remove", is_flag=True, help="Remove the tag instead.")
@tenant_command
def tag(api: Api, show: Show, uri: ResourceUri, tag: str, version: str | None, remove: bool) -> None:
    """Set TAG to VERSION, so that URI@TAG refers to it."""
    if remove == (version is not None):
        raise click.UsageError("Either VERSION or --remove is required.")
    if version is None:
        api.call("resource.untag", _name(uri), tag)
        show.done(f"The tag {plain(tag)} is removed.")
    else:
        api.call("resource.tag", _name(uri), tag, version=version)
        show.done(f"{plain(_name(uri))}@{plain(tag)} is now {plain(version)}.")


@resource.command("yank")
@uri_argument
@click.argument("version")
@click.option("--undo", is_flag=True, help="Publish it again.")
@tenant_command
def yank(api: Api, show: Show, uri: ResourceUri, version: str, undo: bool) -> None:
    """Yank a version: only exact references still resolve to it."""
    api.call("resource.set_yanked", _name(uri), version, yanked=not undo)
    show.done(f"{plain(_name(uri))}@{plain(version)} is {'published again' if undo else 'yanked'}.")


@resource.command("delete")
@uri_argument
@click.option("--force", is_flag=True, help="Delete it even if it is in use (administrators); locks stay valid.")
@yes_option
@tenant_command
def delete(api: Api, show: Show, uri: ResourceUri, force: bool, yes: bool) -> None:
    """Delete a resource with all of its versions."""
    confirm(f"Delete {plain(_name(uri))} with all of its versions?", yes=yes)
    api.call("resource.delete", _name(uri), force=force or None)
    show.done(f"{plain(_name(uri))} is deleted.")


def _name(uri: ResourceUri) -> str:
    """The URI without a version."""
    return str(ResourceUri(type=uri.type, owner=uri.owner, name=uri.name))


def _print_json(value: object) -> None:
    _print_lines(msgspec.json.format(msgspec.json.encode(value), indent=2).decode())


def _print_lines(text: str) -> None:
    """Prints a text unchanged to a pipe, with control characters escaped to a terminal."""
    lines: Iterable[str] = text.split("\n")
    if sys.stdout.isatty():
        lines = map(plain, lines)
    click.echo("\n".join(lines), nl=not text.endswith("\n"))
