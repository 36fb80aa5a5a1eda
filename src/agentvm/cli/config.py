"""avm config — settings of a server: effective values, sources, validation and changes at run time."""

import os
from pathlib import Path

import click
import msgspec

from agentvm.cli.api import Api, Unreachable, dry_run_option, tenant_command
from agentvm.cli.assignments import read_assignments
from agentvm.cli.options import json_option
from agentvm.cli.serve import describe_unpriced
from agentvm.cli.table import Columns, Item, Show, moment, plain, when
from agentvm.config import history as history_of
from agentvm.config.build import build
from agentvm.config.catalogue import find, is_group, unknown
from agentvm.config.file import refuse
from agentvm.config.layers import Layer, ResolvedValue, merge
from agentvm.config.load import DATA_DIR, DATABASE_URL, check_conflicts, layers_of
from agentvm.config.schema import config_schema
from agentvm.config.view import views
from agentvm.errors import StoreFailed
from agentvm.model.secret import Secret
from agentvm.model.settings import MEMORY
from agentvm.storage.engine import DATABASE, read_file

EXAMPLES = """\b
Examples:
  avm config show                             effective values and their sources
  avm config explain llm.model                value, sources and precedence of one setting
  avm config set limits.steps 10 --note "too many loops"
  avm config set llm.apiKey < key.txt         secrets are read from stdin or a prompt
  avm config set llm.providers.gw.driver=openai llm.providers.gw.apiKey=- < key.txt
  avm config set llm.fallback '[gw, local]'
  avm config validate config.yaml             offline; lists all problems
  avm config rollback 3
"""

offline_option = click.option("--offline", is_flag=True, help="Without a server: the settings it would start with.")
file_option = click.option("--config", type=click.Path(path_type=Path), help="Configuration file, with --offline.")
note_option = click.option("--note", help="Reason, for the history.")
revision_option = click.option("--revision", type=click.IntRange(0), help="Fail if there is a newer revision.")


@click.group(epilog=EXAMPLES)
def config() -> None:
    """Show, explain, validate and change settings."""


@config.command("show", epilog=EXAMPLES)
@click.argument("key", required=False)
@offline_option
@file_option
@tenant_command
def show_config(api: Api, show: Show, key: str | None, offline: bool, config: Path | None) -> None:
    """Show the effective settings, all or those below KEY."""
    settings = all_settings(api, offline or config is not None, config)
    below = [item for item in settings if key is None or item["key"] == key or item["key"].startswith(f"{key}.")]
    if key is not None and not below:
        raise click.UsageError(f"{key}: {unknown(key)}")
    effective = [item for item in below if item.get("effective") is not None]
    columns: Columns = {"KEY": "key", "VALUE": effective_value, "SOURCE": origin}
    show.items(effective, columns, none="No settings found.")


@config.command("get")
@click.argument("key")
@offline_option
@file_option
@tenant_command
def get_value(api: Api, show: Show, key: str, offline: bool, config: Path | None) -> None:
    """Print the effective value of KEY alone."""
    try:
        item = read_setting(api, key, offline or config is not None, config, or_offline=False)
    except Unreachable as error:
        # A script must not mistake an offline value for the server's.
        raise Unreachable(f"{error.message}\nThe value at the next start: avm config get {key} --offline") from None
    if show.as_json:
        show.json(item.get("effective"), exact=True)
    elif item.get("effective") is not None:
        click.echo(effective_value(item))
    else:
        raise click.ClickException(f"{key} is {item.get('why') or 'not set'}.")


@config.command("explain", epilog=EXAMPLES)
@click.argument("key")
@offline_option
@file_option
@tenant_command
def explain(api: Api, show: Show, key: str, offline: bool, config: Path | None) -> None:
    """Explain a setting: effective value, all sources, precedence."""
    item = read_setting(api, key, offline or config is not None, config)
    if show.as_json:
        show.json(item)
        return
    effect = {"live": "at once", "restart": "at the next start", "boot": "only by file, variable or flag"}
    tenants = {"no": "no", "any": "yes", "lower": "yes, only lower values"}
    show.record(
        item,
        {
            "KEY": "key",
            "VALUE": effective_value,
            "REASON": "why",
            "SOURCE": origin,
            "DESCRIPTION": "doc",
            "TYPE": "type",
            "DEFAULT": lambda setting: as_text(setting.get("default")),
            "VARIABLE": "variable",
            "CHANGES": lambda setting: effect.get(setting["applies"], setting["applies"]),
            "PER TENANT": lambda setting: tenants.get(setting["tenant"], setting["tenant"]),
            "RESTART PENDING": lambda setting: "yes" if setting.get("restartPending") else None,
        },
    )
    sources = item.get("layers") or []
    if len(sources) > 1:
        click.echo("\nSources, lowest precedence first:")
        for source in sources:
            # No mark where a layer of higher precedence selects another provider.
            mark = "*" if source["layer"] == item.get("layer") else " "
            click.echo(f"  {mark} {plain(as_text(source.get('value')))}  {plain(origin(source))}")


@config.command("set", epilog=EXAMPLES)
@click.argument("words", metavar="KEY VALUE | KEY=VALUE...", nargs=-1, required=True)
@note_option
@dry_run_option
@revision_option
@tenant_command
def set_value(api: Api, show: Show, words: tuple[str, ...], note: str | None, dry_run: bool, revision: int | None) -> None:
    """Change settings of a running server, all or none.

    A secret has no VALUE (KEY, or KEY=-): it is read from stdin or a prompt. VALUE may be an object for all settings below KEY.
    """
    change(api, show, read_assignments(words), note, dry_run, revision)


@config.command("unset")
@click.argument("key")
@note_option
@dry_run_option
@revision_option
@tenant_command
def unset_value(api: Api, show: Show, key: str, note: str | None, dry_run: bool, revision: int | None) -> None:
    """Undo run-time changes of KEY and of settings below it."""
    change(api, show, {key: None}, note, dry_run, revision)


@config.command("validate")
@click.argument("file", type=click.Path(path_type=Path))
@json_option
def validate(file: Path, as_json: bool) -> int:
    """Check a configuration file offline and list all problems."""
    layers, problems = layers_of(file, os.environ)
    problems += check_conflicts(layers, problems)
    if as_json:
        items = [{"place": problem.place, "key": problem.key, "message": problem.text} for problem in problems]
        Show(as_json=True).json({"ok": not problems, "problems": items})
    else:
        for problem in problems:
            click.echo(str(problem), err=True)
        if not problems:
            click.echo(f"{file} is valid.")
            config = build(merge(layers))
            if config.authenticates and (unpriced := describe_unpriced(config)):
                click.echo(f"Warning: {unpriced}", err=True)
    return 1 if problems else 0


@config.command("history")
@click.option("--limit", type=click.IntRange(1, 100_000), default=20, show_default=True, help="Maximum number.")
@tenant_command
def history(api: Api, show: Show, limit: int) -> None:
    """List changes, newest first."""
    columns: Columns = {
        "REVISION": "revision",
        "TIME (UTC)": moment("at"),
        "ACTOR": "actor",
        "CHANGES": lambda item: ", ".join(map(describe_change, item["changes"])),
        "NOTE": "note",
    }
    show.items(api.items("config.history", at_most=limit), columns, none="No changes found.")


@config.command("diff")
@click.argument("since", type=click.IntRange(0))
@click.argument("to", type=click.IntRange(0), required=False)
@tenant_command
def diff(api: Api, show: Show, since: int, to: int | None) -> None:
    """Compare revision SINCE with revision TO, or with now."""
    difference = api.call("config.diff", since=since, to=to)
    if show.as_json:
        show.json(difference)
    else:
        show.items(difference["changed"], CHANGED, none="No differences.")


@config.command("rollback")
@click.argument("revision_to", metavar="REVISION", type=click.IntRange(0))
@note_option
@dry_run_option
@revision_option
@tenant_command
def rollback(api: Api, show: Show, revision_to: int, note: str | None, dry_run: bool, revision: int | None) -> None:
    """Restore the settings of REVISION; 0 undoes all changes."""
    report(show, api.call("config.rollback", to=revision_to, note=note, dry_run=dry_run, revision=revision))


@config.command("schema")
def schema() -> None:
    """Print the JSON Schema of configuration files, for editors."""
    Show(as_json=True).json(config_schema())


CHANGED: Columns = {"KEY": "key", "FROM": lambda item: as_text(item.get("from")), "TO": lambda item: as_text(item.get("to"))}


def change(api: Api, show: Show, changes: Item, note: str | None, dry_run: bool, revision: int | None) -> None:
    report(show, api.call("config.change", changes=changes, note=note, dry_run=dry_run, revision=revision))


def describe_change(item: Item) -> str:
    value = as_text(item.get("to"))
    return f"{item['key']} unset" if value is None else f"{item['key']}={value}"


def report(show: Show, outcome: Item) -> None:
    """Prints the result of a change or of its dry run."""
    if show.as_json:
        show.json(outcome)
        return
    if not outcome["changed"]:
        click.echo("No changes.")
        return
    show.items(outcome["changed"], CHANGED, none="")
    if outcome.get("dryRun"):
        click.echo("Dry run: nothing was changed.")
    else:
        click.echo(f"This is revision {outcome['revision']}.")
    if outcome["restartRequired"]:
        click.echo(f"Effective at the next start: {', '.join(outcome['restartRequired'])}")


def all_settings(api: Api, offline: bool, file: Path | None) -> list[Item]:
    """All settings of the server, or those it would start with."""
    if not offline:
        try:
            settings: list[Item] = api.call("config.show", view="full")["settings"]
            return settings
        except Unreachable:
            click.echo(f"No server answers at {api.url}; showing the settings it would start with.", err=True)
    if api.tenant is not None:
        raise click.UsageError("--tenant requires a running server.")
    layers, problems = layers_of(file, os.environ)
    refuse(problems)
    layers = (*layers, overrides_of(layers))
    values = merge(layers)

    def sources(key: str) -> list[ResolvedValue]:
        default = merge(()).get(key)
        values = [ResolvedValue(layer.name, layer.values[key]) for layer in layers if key in layer.values]
        return values if default is None else [default, *values]

    return [msgspec.to_builtins(view) for view in views(values, sources, of_tenant=False)]


class PlaceholderVault:
    """A vault that opens no secret: a secret is only shown to be set."""

    def seal(self, scope: str, name: str, value: Secret) -> bytes:
        raise NotImplementedError

    def unseal(self, scope: str, name: str, sealed: bytes) -> Secret:
        return Secret("sealed")


def overrides_of(layers: tuple[Layer, ...]) -> Layer:
    """The run-time changes stored in the data directory that the layers name."""
    directory = str(merge(layers)[DATA_DIR].value)
    if DATABASE_URL in merge(layers):
        click.echo("Run-time changes are not shown: they are in PostgreSQL; ask the running server", err=True)
        return Layer("override", {})
    try:
        changes = () if directory == MEMORY else read_file(Path(directory).expanduser() / DATABASE)
    except (RuntimeError, StoreFailed) as error:
        click.echo(f"Run-time changes are not shown: {error}", err=True)
        changes = ()
    return Layer("override", history_of.decode(None, history_of.replay(changes), PlaceholderVault()))


def read_setting(api: Api, key: str, offline: bool, file: Path | None, *, or_offline: bool = True) -> Item:
    if find(key) is None:
        raise click.UsageError(f"{key}: {'this is a group; use the key of a setting' if is_group(key) else unknown(key)}")
    if not offline:
        try:
            return api.call("config.get", key)
        except Unreachable:
            if not or_offline:
                raise
    setting = next((item for item in all_settings(api, offline, file) if item["key"] == key), None)
    if setting is None:
        raise click.ClickException(f"{key} is not set.")
    return setting


def effective_value(item: Item) -> str | None:
    """The effective value as text."""
    return as_text(item.get("effective"))


def as_text(value: object) -> str | None:
    """A string unchanged, any other value as JSON."""
    return value if value is None or isinstance(value, str) else msgspec.json.encode(value).decode()


def origin(item: Item) -> str:
    """The source of a value, with the actor and time of a run-time change."""
    derived = item.get("effective") is not None and item.get("effective") != item.get("value")
    words = ["derived" if derived else item.get("layer") or "", item.get("place") or ""]
    if item.get("at") is not None:
        words.append(f"by {item.get('actor')}, {when(item['at'])} UTC")
    hidden = [
        source.get("place")
        for source in item.get("layers") or ()
        if source.get("place") and source.get("layer") != item.get("layer")
    ]
    if item.get("layer") == "override" and hidden:
        words.append(f"(overrides {', '.join(map(str, hidden))})")
    if item.get("restartPending"):
        words.append("(restart pending)")
    return " ".join(word for word in words if word)
