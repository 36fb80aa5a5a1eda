"""avm resource — publishes, finds and moves what agents are made of: prompts, tools, sandboxes, agents, knowledge."""

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import click
import msgspec

from agentvm.cli.api import Api, asks_server, confirm, tenant_option, yes_option
from agentvm.cli.resource_folders import pull_one, push_all, read_all
from agentvm.cli.table import Columns, Item, Show, listed, moment, plain
from agentvm.model.resource import SCHEME, TYPES, ResourceUri, parse_uri
from agentvm.model.semver import Bump
from agentvm.resources.archive import MAX_BUNDLE

EXAMPLES = """\b
Examples:
  avm resource push ./prompts                          publish every folder with a resource.json
  avm resource search translate
  avm resource resolve resource://prompts/translator --arg targetLanguage=French
  avm resource export resource://agents/seller -o seller.tar.gz
  avm resource import seller.tar.gz --dry-run
"""

PAGE = 100
"""The most that the server gives at once."""
_MAX_DESCRIPTION = 60

COLUMNS: Columns = {
    "URI": "uri",
    "LATEST": "latest",
    "VISIBILITY": "visibility",
    "USES": "uses",
    "DESCRIPTION": lambda item: _short(item.get("description")),
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
    "Withdrawn (UTC)": lambda item: moment("yankedAt")(item["version"]),
    "Depends on": lambda item: " ".join(item.get("dependencies", {}).values()),
    "Created (UTC)": moment("createdAt"),
    "Updated (UTC)": moment("updatedAt"),
}
VERSIONS: Columns = {
    "VERSION": "version",
    "TAGS": listed("pointers"),
    "STATE": lambda item: "published" if item.get("yankedAt") is None else "withdrawn",
    "BYTES": "size",
    "CREATED (UTC)": moment("createdAt"),
    "DIGEST": "digest",
}
OUTCOMES: Columns = {"URI": "uri", "OUTCOME": "outcome"}


class Uri(click.ParamType[ResourceUri]):
    """A URI, with or without `resource://` before it."""

    name = "uri"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> ResourceUri:
        return value if isinstance(value, ResourceUri) else parse_uri(value if "://" in value else SCHEME + value)


class Argument(click.ParamType[tuple[str, object]]):
    """`name=text`, or `name:=json`."""

    name = "argument"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, object]:
        if isinstance(value, tuple):
            return value
        name, sign, text = str(value).partition("=")
        if not sign or not name.removesuffix(":"):
            self.fail(f"{plain(value)!r} must be like name=Ada or count:=3.", param, ctx)
        if not name.endswith(":"):
            return name, text
        try:
            return name[:-1], msgspec.json.decode(text)
        except msgspec.DecodeError:
            self.fail(f"What follows := must be JSON, unlike {plain(text)!r}.", param, ctx)


uri_argument = click.argument("uri", type=Uri(), metavar="URI")
type_option = click.option("--type", "kind", help=f"Only of this type: {', '.join(TYPES)}.")


@click.group(epilog=EXAMPLES)
def resource() -> None:
    """Publish, find and move what agents are made of.

    These are resources: prompts, tools, sandboxes, agents and knowledge.
    """


@resource.command("push", epilog=EXAMPLES)
@click.argument("folder", metavar="DIR", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--bump", type=click.Choice(("patch", "minor", "major")), help="Number what has changed anew.")
@click.option("--dry-run", is_flag=True, help="Only say what would be done.")
@tenant_option
@asks_server
def push(api: Api, show: Show, folder: Path, bump: Bump | None, dry_run: bool) -> None:
    """Publish every folder with a resource.json in DIR or below it; what is unchanged is left alone."""
    done: list[Item] = []
    for item in push_all(api, read_all(folder), bump, dry_run=dry_run):
        done.append(item)
        show.done(f"{item['outcome']:<9}  {plain(item['uri'])}")
        for warning in item.get("warnings", ()):
            click.echo(f"Warning: {plain(item['uri'])}: {plain(warning)}", err=True)
    if show.as_json:
        show.json(done)
    elif dry_run:
        click.echo("Nothing was sent: that is what would be done.", err=True)


@resource.command("pull")
@uri_argument
@click.argument("folder", metavar="[DIR]", required=False, type=click.Path(file_okay=False, path_type=Path))
@click.option("--force", is_flag=True, help="Overwrite files that differ.")
@tenant_option
@asks_server
def pull(api: Api, show: Show, uri: ResourceUri, folder: Path | None, force: bool) -> None:
    """Write a resource into DIR as files, by default into a folder of its name.

    Files that are there and differ are left alone, and then nothing is written.
    """
    where, item = pull_one(api, uri, folder, force=force)
    if show.as_json:
        show.json({"folder": str(where), "type": item.type, "name": item.name, "version": item.version})
    show.done(f"{item.type}/{item.name}@{item.version} is in {plain(where)}.")


@resource.command("list")
@type_option
@click.option("--tag", help="Only with this tag.")
@click.option("--owner", help="Only of this tenant, by its slug; system is what ships with the server.")
@click.option("--scope", type=click.Choice(("own", "public", "all")), default="all", help="Whose: yours, others', all (all).")
@tenant_option
@asks_server
def list_resources(api: Api, show: Show, kind: str | None, tag: str | None, owner: str | None, scope: str) -> None:
    """List your resources and those that are public."""
    pages = api.pages(
        "resources", cursor="cursor", following="nextCursor", limit=PAGE, type=kind, tag=tag, owner=owner, scope=scope
    )
    show.items(pages, COLUMNS, none="There are no resources.")


@resource.command("search")
@click.argument("text")
@type_option
@click.option("--limit", type=click.IntRange(1, PAGE), default=20, show_default=True, help="How many at most.")
@tenant_option
@asks_server
def search(api: Api, show: Show, text: str, kind: str | None, limit: int) -> None:
    """Find resources by their names, tags, descriptions and texts, best first."""
    page = api.get("resources", q=text, type=kind, limit=limit)
    items: list[Item] = page.get("items", [])
    show.items(items, COLUMNS, none="Nothing was found.")
    if not show.as_json and page.get("total", 0) > len(items):
        click.echo(f"{len(items)} of {page['total']}; more with --limit.", err=True)


@resource.command("show")
@uri_argument
@tenant_option
@asks_server
def show_resource(api: Api, show: Show, uri: ResourceUri) -> None:
    """Show a resource, by default its latest version, and the content."""
    found = api.get("resources", _name(uri), version=uri.selector)
    if show.as_json:
        show.json(found)
        return
    show.record({**found["resource"], **{name: found.get(name, {}) for name in ("version", "dependencies")}}, DETAILS)
    click.echo()
    _print_json(found.get("content"))


@resource.command("resolve")
@uri_argument
@click.option("--arg", "args", type=Argument(), multiple=True, help="A variable: name=Ada, or count:=3 for JSON; repeatable.")
@tenant_option
@asks_server
def resolve(api: Api, show: Show, uri: ResourceUri, args: tuple[tuple[str, object], ...]) -> None:
    """Print what a resource comes to: a prompt's text with its variables filled in, anything else as JSON."""
    found = api.post("resources", "resolve", body={"uri": str(uri), "args": dict(args)})
    if show.as_json:
        show.json(found)
        return
    for warned in found.get("warnings", ()):
        click.echo(f"Warning: {plain(warned['uri'])}: {plain(warned['message'])}", err=True)
    rendered = found.get("rendered")
    if isinstance(rendered, str):
        _print_lines(rendered)
    else:
        _print_json(rendered)


@resource.command("export")
@uri_argument
@click.option("-o", "--output", type=click.Path(dir_okay=False, path_type=Path), help="The file to write (TYPE-NAME.tar.gz).")
@click.option("--no-deps", is_flag=True, help="Without what it depends on.")
@tenant_option
@asks_server
def export(api: Api, show: Show, uri: ResourceUri, output: Path | None, no_deps: bool) -> None:
    """Write a version, and what it depends on, into an archive."""
    data = api.get_bytes("resources", _name(uri), "export", version=uri.selector, deps="false" if no_deps else "true")
    output = Path(f"{uri.type}-{uri.name}.tar.gz") if output is None else output
    try:
        output.write_bytes(data)
    except OSError as error:
        raise click.ClickException(f"Cannot write {output}: {error.strerror}") from None
    if show.as_json:
        show.json({"file": str(output), "bytes": len(data)})
    show.done(f"{plain(uri)} is in {plain(output)}, {len(data):,} bytes.")


@resource.command("import")
@click.argument("file", type=click.File("rb"))
@click.option(
    "--on-conflict",
    type=click.Choice(("fail", "skip", "new-version")),
    default="fail",
    help="For a version that is there with other content: import nothing, leave it, or number the new one anew (fail).",
)
@click.option("--dry-run", is_flag=True, help="Only say what would be done.")
@tenant_option
@asks_server
def import_archive(api: Api, show: Show, file: Any, on_conflict: str, dry_run: bool) -> None:
    """Take in an archive that was exported: all of it, or nothing."""
    data = file.read(MAX_BUNDLE + 1)
    if len(data) > MAX_BUNDLE:
        raise click.ClickException(f"{plain(file.name)} is larger than {MAX_BUNDLE:,} bytes: that is no archive of resources.")
    chosen = {"new-version": "newVersion"}.get(on_conflict, on_conflict)
    done = api.post("resources", "import", body=data, onConflict=chosen, dryRun="true" if dry_run else "false")
    show.items(done.get("items", []), OUTCOMES, none="There was nothing to import.")
    if dry_run and not show.as_json:
        click.echo("Nothing was imported: that is what would be done.", err=True)


@resource.command("versions")
@uri_argument
@tenant_option
@asks_server
def versions(api: Api, show: Show, uri: ResourceUri) -> None:
    """List the versions of a resource, and the tags that point to them."""
    found = api.get("resources", _name(uri), "versions")
    pointing: Item = found.get("pointers", {})
    named = ({**one, "pointers": sorted(tag for tag, to in pointing.items() if to == one["version"])} for one in found["items"])
    show.items(named, VERSIONS, none="There are no versions.")


@resource.command("tag")
@uri_argument
@click.argument("tag")
@click.argument("version", required=False)
@click.option("--remove", is_flag=True, help="Remove the tag instead.")
@tenant_option
@asks_server
def tag(api: Api, show: Show, uri: ResourceUri, tag: str, version: str | None, remove: bool) -> None:
    """Let TAG point to VERSION, so that URI@TAG means it."""
    if remove == (version is not None):
        raise click.UsageError("Give the VERSION that the tag shall point to, or --remove.")
    if version is None:
        api.delete("resources", _name(uri), "tags", tag)
        show.done(f"The tag {plain(tag)} is removed.")
    else:
        api.put("resources", _name(uri), "tags", tag, body={"version": version})
        show.done(f"{plain(_name(uri))}@{plain(tag)} is {plain(version)}.")


@resource.command("yank")
@uri_argument
@click.argument("version")
@click.option("--undo", is_flag=True, help="Bring it back.")
@tenant_option
@asks_server
def yank(api: Api, show: Show, uri: ResourceUri, version: str, undo: bool) -> None:
    """Withdraw a version: only who names it exactly is given it, and what is locked to it goes on."""
    api.put("resources", _name(uri), "versions", version, body={"yanked": not undo})
    show.done(f"{plain(_name(uri))}@{plain(version)} is {'back' if undo else 'withdrawn'}.")


@resource.command("delete")
@uri_argument
@click.option("--force", is_flag=True, help="Although others use it; what is locked to it goes on. For administrators.")
@yes_option
@tenant_option
@asks_server
def delete(api: Api, show: Show, uri: ResourceUri, force: bool, yes: bool) -> None:
    """Delete a resource with all of its versions."""
    confirm(f"Delete {plain(_name(uri))} with all of its versions?", yes=yes)
    api.delete("resources", _name(uri), force="true" if force else None)
    show.done(f"{plain(_name(uri))} is deleted.")


def _name(uri: ResourceUri) -> str:
    """The resource, whatever version of it was named."""
    return str(ResourceUri(type=uri.type, owner=uri.owner, name=uri.name))


def _short(text: str | None) -> str:
    line = " ".join((text or "").split())
    return line if len(line) <= _MAX_DESCRIPTION else f"{line[: _MAX_DESCRIPTION - 1]}…"


def _print_json(value: object) -> None:
    _print_lines(msgspec.json.format(msgspec.json.encode(value), indent=2).decode())


def _print_lines(text: str) -> None:
    """As it is for a program; for a terminal without what it would obey."""
    lines: Iterable[str] = text.split("\n")
    if sys.stdout.isatty():
        lines = map(plain, lines)
    click.echo("\n".join(lines), nl=not text.endswith("\n"))
