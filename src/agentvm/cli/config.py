"""avm config — the settings of a server: what counts and why, whether a file is right, and how to change them while it runs."""

import os
from itertools import islice
from pathlib import Path

import click
import msgspec

from agentvm.cli.api import PAGE, Api, Unreachable, asks_server, tenant_option
from agentvm.cli.assignments import read_assignments
from agentvm.cli.serve import describe_unpriced
from agentvm.cli.table import Columns, Item, Show, moment, plain, when
from agentvm.config import history as history_of
from agentvm.config.build import MEMORY, build
from agentvm.config.catalogue import find, is_group, unknown
from agentvm.config.file import refuse
from agentvm.config.layers import Found, Layer, merge
from agentvm.config.load import DATA_DIR, check_together, layers_of
from agentvm.config.schema import config_schema
from agentvm.config.view import views
from agentvm.errors import StoreFailed
from agentvm.model.secret import Secret
from agentvm.storage.engine import DATABASE, read_file

EXAMPLES = """\b
Examples:
  avm config show                             what counts, and where each value is from
  avm config explain llm.model                everything about one setting
  avm config set limits.steps 10 --note "too many loops"
  avm config set llm.apiKey < key.txt         a secret comes from stdin, or is asked for
  avm config set llm.providers.gw.driver=openai llm.providers.gw.apiKey=- < key.txt
  avm config set llm.fallback '[gw, local]'
  avm config validate config.yaml             offline; says everything that is wrong
  avm config rollback 3
"""

offline_option = click.option("--offline", is_flag=True, help="Ask no server: what one would start with here.")
file_option = click.option("--config", type=click.Path(path_type=Path), help="With --offline: this configuration file.")
note_option = click.option("--note", help="Why, for the history.")
dry_run_option = click.option("--dry-run", is_flag=True, help="Only say what would change.")
revision_option = click.option("--revision", type=click.IntRange(0), help="Change nothing if there is a newer one.")


@click.group(epilog=EXAMPLES)
def config() -> None:
    """See, explain, check and change the settings of a server."""


@config.command("show", epilog=EXAMPLES)
@click.argument("key", required=False)
@offline_option
@file_option
@tenant_option
@asks_server
def show_config(api: Api, show: Show, key: str | None, offline: bool, config: Path | None) -> None:
    """Show the settings that count, all or those below KEY, and where they are from."""
    found = known_settings(api, offline or config is not None, config)
    below = [item for item in found if key is None or item["key"] == key or item["key"].startswith(f"{key}.")]
    if key is not None and not below:
        raise click.UsageError(f"{key}: {unknown(key)}")
    set_ones = [item for item in below if item.get("effective") is not None]
    columns: Columns = {"KEY": "key", "VALUE": effective_value, "FROM": origin}
    show.items(set_ones, columns, none="Nothing is set.")


@config.command("get")
@click.argument("key")
@offline_option
@file_option
@tenant_option
@asks_server
def get_value(api: Api, show: Show, key: str, offline: bool, config: Path | None) -> None:
    """Print the effective value of KEY, and nothing else."""
    try:
        item = one_setting(api, key, offline or config is not None, config, or_offline=False)
    except Unreachable as error:
        # A program that asks for one value must not take another for it.
        raise Unreachable(f"{error.message}\nWhat one would start with here: avm config get {key} --offline") from None
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
@tenant_option
@asks_server
def explain(api: Api, show: Show, key: str, offline: bool, config: Path | None) -> None:
    """Explain a setting: effective value, all sources, precedence."""
    item = one_setting(api, key, offline or config is not None, config)
    if show.as_json:
        show.json(item)
        return
    effect = {"live": "at once", "restart": "with the next start", "boot": "only in the file, a variable or a flag"}
    tenants = {"no": "no", "any": "yes", "lower": "yes, lower ones"}
    show.record(
        item,
        {
            "KEY": "key",
            "VALUE": effective_value,
            "WHY": "why",
            "FROM": origin,
            "MEANS": "doc",
            "MUST BE": "type",
            "DEFAULT": lambda one: shown_value({"value": one.get("default")}),
            "VARIABLE": "variable",
            "CHANGES": lambda one: effect.get(one["applies"], one["applies"]),
            "TENANTS' OWN": lambda one: tenants.get(one["tenant"], one["tenant"]),
            "WAITS FOR RESTART": lambda one: "yes" if one.get("restartPending") else None,
        },
    )
    sources = item.get("layers") or []
    if len(sources) > 1:
        click.echo("\nFrom the weakest to the strongest:")
        for source in sources:
            # None of them, where a stronger layer names another provider than they are for.
            mark = "*" if source["layer"] == item.get("layer") else " "
            click.echo(f"  {mark} {plain(shown_value(source))}  {plain(origin(source))}")


@config.command("set", epilog=EXAMPLES)
@click.argument("words", metavar="KEY VALUE | KEY=VALUE...", nargs=-1, required=True)
@note_option
@dry_run_option
@revision_option
@tenant_option
@asks_server
def set_value(api: Api, show: Show, words: tuple[str, ...], note: str | None, dry_run: bool, revision: int | None) -> None:
    """Change settings while the server runs: all that are named, or none.

    A secret is only named (KEY, or KEY=-): it is read from stdin, or asked for. For all that is below a key, VALUE may be an
    object.
    """
    change(api, show, read_assignments(words), note, dry_run, revision)


@config.command("unset")
@click.argument("key")
@note_option
@dry_run_option
@revision_option
@tenant_option
@asks_server
def unset_value(api: Api, show: Show, key: str, note: str | None, dry_run: bool, revision: int | None) -> None:
    """Take back what was changed of KEY, or of all that is below it, while the server ran."""
    change(api, show, {key: None}, note, dry_run, revision)


@config.command("validate")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Answer in JSON.")
def validate(file: Path, as_json: bool) -> int:
    """Check a configuration file, without a server. Says everything that is wrong with it."""
    layers, problems = layers_of(file, os.environ)
    problems += check_together(layers, problems)
    if as_json:
        items = [{"place": one.place, "key": one.key, "message": one.text} for one in problems]
        Show(as_json=True).json({"ok": not problems, "problems": items})
    else:
        for problem in problems:
            click.echo(str(problem), err=True)
        if not problems:
            click.echo(f"{file} can be used.")
            config = build(merge(layers))
            if config.authenticates and (unpriced := describe_unpriced(config)):
                click.echo(f"But: {unpriced}", err=True)
    return 1 if problems else 0


@config.command("history")
@click.option("--limit", type=click.IntRange(1, 100_000), default=20, show_default=True, help="The newest so many.")
@tenant_option
@asks_server
def history(api: Api, show: Show, limit: int) -> None:
    """List what was changed, by whom and when, newest first."""
    columns: Columns = {
        "REVISION": "revision",
        "TIME (UTC)": moment("at"),
        "ACTOR": "actor",
        "CHANGES": lambda item: ", ".join(map(told_change, item["changes"])),
        "NOTE": "note",
    }
    entries = api.pages("config", "history", cursor="before", limit=min(limit, PAGE))
    show.items(islice(entries, limit), columns, none="Nothing was changed.")


@config.command("diff")
@click.argument("since", type=click.IntRange(0))
@click.argument("to", type=click.IntRange(0), required=False)
@tenant_option
@asks_server
def diff(api: Api, show: Show, since: int, to: int | None) -> None:
    """Show what differs between revision SINCE and revision TO, or now."""
    answer = api.get("config", "diff", **{"from": since, "to": to})
    if show.as_json:
        show.json(answer)
    else:
        show.items(answer["changed"], CHANGED, none="Nothing differs.")


@config.command("rollback")
@click.argument("revision_to", metavar="REVISION", type=click.IntRange(0))
@note_option
@dry_run_option
@revision_option
@tenant_option
@asks_server
def rollback(api: Api, show: Show, revision_to: int, note: str | None, dry_run: bool, revision: int | None) -> None:
    """Go back to what was set after REVISION, by one more change; 0 takes every change back."""
    body = {"to": revision_to, "note": note, "dryRun": dry_run, "revision": revision}
    report(show, api.post("config", "rollback", body={name: value for name, value in body.items() if value is not None}))


@config.command("schema")
def schema() -> None:
    """Print the JSON Schema of a configuration file, for editors."""
    Show(as_json=True).json(config_schema())


CHANGED: Columns = {
    "KEY": "key",
    "FROM": lambda item: shown_value({"value": item.get("from")}),
    "TO": lambda item: shown_value({"value": item.get("to")}),
}


def change(api: Api, show: Show, changes: Item, note: str | None, dry_run: bool, revision: int | None) -> None:
    body = {"changes": changes, "note": note, "dryRun": dry_run, "revision": revision}
    report(show, api.put("config", body={name: value for name, value in body.items() if value is not None}))


def told_change(one: Item) -> str:
    value = shown_value({"value": one.get("to")})
    return f"{one['key']} taken back" if value is None else f"{one['key']}={value}"


def report(show: Show, outcome: Item) -> None:
    """What a change has done, or would do."""
    if show.as_json:
        show.json(outcome)
        return
    if not outcome["changed"]:
        click.echo("Nothing changes.")
        return
    show.items(outcome["changed"], CHANGED, none="")
    if outcome.get("dryRun"):
        click.echo("Nothing was changed: this was a dry run.")
    else:
        click.echo(f"This is revision {outcome['revision']}.")
    if outcome["restartRequired"]:
        click.echo(f"With the next start of the server: {', '.join(outcome['restartRequired'])}")


def known_settings(api: Api, offline: bool, file: Path | None) -> list[Item]:
    """Every setting as the server knows it, or as one would start with."""
    if not offline:
        try:
            found: list[Item] = api.get("config", view="full")["settings"]
            return found
        except Unreachable:
            click.echo(f"No server answers at {api.url}; this is what one would start with.", err=True)
    if api.tenant is not None:
        raise click.UsageError("What a tenant has set is asked of a running server; without one, leave --tenant away.")
    layers, problems = layers_of(file, os.environ)
    refuse(problems)
    layers = (*layers, overrides_of(layers))
    values = merge(layers)

    def sources(key: str) -> list[Found]:
        weakest = merge(()).get(key)
        said = [Found(layer.name, layer.given[key]) for layer in layers if key in layer.given]
        return said if weakest is None else [weakest, *said]

    return [msgspec.to_builtins(one) for one in views(values, sources, of_tenant=False)]


class Sealed:
    """In the place of who can open what is secret: nobody needs to, to show that there is something."""

    def seal(self, scope: str, name: str, value: Secret) -> bytes:
        raise NotImplementedError

    def unseal(self, scope: str, name: str, sealed: bytes) -> Secret:
        return Secret("sealed")


def overrides_of(layers: tuple[Layer, ...]) -> Layer:
    """What was changed while a server ran on the data directory that the layers name."""
    directory = str(merge(layers)[DATA_DIR].value)
    try:
        changes = () if directory == MEMORY else read_file(Path(directory).expanduser() / DATABASE)
    except (RuntimeError, StoreFailed) as error:
        click.echo(f"What was changed at run time is left out: {error}", err=True)
        changes = ()
    return Layer("override", history_of.decode(None, history_of.replay(changes), Sealed()))


def one_setting(api: Api, key: str, offline: bool, file: Path | None, *, or_offline: bool = True) -> Item:
    if find(key) is None:
        raise click.UsageError(f"{key}: {'it holds settings; name one of them' if is_group(key) else unknown(key)}")
    if not offline:
        try:
            return api.get("config", key)
        except Unreachable:
            if not or_offline:
                raise
    found = next((item for item in known_settings(api, offline, file) if item["key"] == key), None)
    if found is None:
        raise click.ClickException(f"{key} is not set.")
    return found


def effective_value(item: Item) -> str | None:
    """The value that the server works with, as text."""
    return shown_value({"value": item.get("effective")})


def shown_value(item: Item) -> str | None:
    """Text as it is, anything else as JSON."""
    value = item.get("value")
    return value if value is None or isinstance(value, str) else msgspec.json.encode(value).decode()


def origin(item: Item) -> str:
    """Where a value is from, and who gave it when."""
    derived = item.get("effective") is not None and item.get("effective") != item.get("value")
    words = ["derived" if derived else item.get("layer") or "", item.get("place") or ""]
    if item.get("at") is not None:
        words.append(f"by {item.get('actor')}, {when(item['at'])} UTC")
    hidden = [
        one.get("place") for one in item.get("layers") or () if one.get("place") and one.get("layer") != item.get("layer")
    ]
    if item.get("layer") == "override" and hidden:
        words.append(f"(hides {', '.join(map(str, hidden))})")
    if item.get("restartPending"):
        words.append("(waits for a restart)")
    return " ".join(word for word in words if word)
