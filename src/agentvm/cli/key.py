"""avm key — makes, lists, renews and ends API keys. A key is shown once, alone on stdout, so that a script can keep it."""

import secrets
import time
from pathlib import Path

import anyio
import click

from agentvm.cli.api import Api, asks_server, confirm, tenant_option, yes_option
from agentvm.cli.names import KEY, USER, find, names_of
from agentvm.cli.options import config_option, configure, data_dir_option
from agentvm.cli.table import Columns, Item, Show, listed, moment, plain
from agentvm.cli.user import find_user
from agentvm.cli.when import future, span
from agentvm.tenants.keys import make_key, parse_key

EXAMPLES = """\b
Examples:
  AVM_ADMIN_KEY=$(avm key new) avm serve --auth on     with an operator's key of your own
  avm key create laptop --user alice                   alice's own key, shown once
  avm key create backup --permission sessions:read --permission sessions:export --expires 30d
  avm key rotate laptop --grace 1h                     a new key; the old one ends in an hour
  avm key revoke laptop                                ends at once, with its connections
  avm key operator --data-dir ./data                   when the operator's key is lost; the server must not run
"""

COLUMNS: Columns = {
    "ID": "keyId",
    "NAME": "name",
    "USER": "user",
    "CONTAINERS": listed("containers"),
    "STATE": lambda item: state_of(item),
    "CREATED (UTC)": moment("createdAt"),
    "USED (UTC)": moment("lastUsedAt"),
    "EXPIRES (UTC)": moment("expiresAt"),
}


@click.group(epilog=EXAMPLES)
def key() -> None:
    """Make, list, renew and end API keys."""


@key.command("new")
def new_key() -> None:
    """Print a new key for AVM_ADMIN_KEY, without asking any server.

    The server takes it as the operator's when it is started with it.
    """
    click.echo(make_key(secrets.randbits)[1].reveal())


@key.command("operator")
@click.argument("name", default="operator")
@data_dir_option
@config_option
def operator_key(name: str, data_dir: Path | None, config: Path | None) -> None:
    """Make an operator's key in a data directory whose server does not run, and print it, this once.

    For whoever has lost the first one, or never saw it.
    """
    # Late: it loads the database, which the other commands leave to the server.
    from agentvm.cli.operator import make_operator_key

    made = anyio.run(make_operator_key, configure(config=config, data_dir=data_dir), name)
    click.echo("The operator's key. It is shown this once; keep it: it can do everything.", err=True)
    click.echo(made.reveal())


@key.command("create", epilog=EXAMPLES)
@click.argument("name")
@click.option("--user", help="Id or external id of the user whose key it is; without it, nobody's.")
@click.option(
    "--permission", "permissions", multiple=True, help="What it may do; repeatable (what the user's role may, or a member)."
)
@click.option("--container", "containers", multiple=True, help="Container it may reach, * and ? allowed; repeatable.")
@click.option("--expires", type=future, metavar="TIME", help="When it ends: 30d, 2026-11-15 (never).")
@tenant_option
@asks_server
def create_key(
    api: Api,
    show: Show,
    name: str,
    user: str | None,
    permissions: tuple[str, ...],
    containers: tuple[str, ...],
    expires: int | None,
) -> None:
    """Make a key and print it, this once."""
    body: Item = {"name": name}
    if user is not None:
        body["userId"] = find_user(api, user)["userId"]
    if permissions:
        body["permissions"] = permissions
    if containers:
        body["containers"] = containers
    if expires is not None:
        body["expiresAt"] = expires
    _show_once(api.post("auth", "keys", body=body), show)


@key.command("list")
@click.option("--user", help="Only keys of this user: id or external id.")
@tenant_option
@asks_server
def list_keys(api: Api, show: Show, user: str | None) -> None:
    """List keys, newest first; never the keys themselves."""
    user_id = None if user is None else str(find_user(api, user)["userId"])
    names = {} if show.as_json else names_of(api, USER)
    keys = api.pages("auth", "keys", userId=user_id)
    named = ({**item, "user": names.get(item.get("userId"), item.get("userId"))} for item in keys)
    show.items(keys if show.as_json else named, COLUMNS, none="There are no keys.")


@key.command("rotate")
@click.argument("key_id", metavar="KEY")
@click.option("--grace", type=span, default="0s", metavar="SPAN", help="How long the old key stays good: 1h, 7d (not at all).")
@tenant_option
@asks_server
def rotate_key(api: Api, show: Show, key_id: str, grace: int) -> None:
    """Make a new key with the rights of an old one, and end that. KEY is its id or its name."""
    _show_once(api.post("auth", "keys", str(_find(api, key_id)["keyId"]), "rotate", body={"graceSeconds": grace}), show)


@key.command("revoke")
@click.argument("key_id", metavar="KEY")
@yes_option
@tenant_option
@asks_server
def revoke_key(api: Api, show: Show, key_id: str, yes: bool) -> None:
    """End a key at once, with its connections. KEY is its id or its name."""
    found = _find(api, key_id)
    key_id, called = str(found["keyId"]), plain(found.get("name"))
    confirm(f"Revoke the key {plain(key_id)} ({called})? Whoever uses it is cut off, and it cannot be undone.", yes=yes)
    api.delete("auth", "keys", key_id)
    show.done(f"The key {plain(key_id)} ({called}) is revoked.")


def _find(api: Api, named: str) -> Item:
    """By id, name, a unique beginning of the id, or the key itself, of which then only the id is sent."""
    parsed = parse_key(named)
    return find(api, KEY, named if parsed is None else parsed.key_id)


def state_of(item: Item) -> str:
    if item.get("revokedAt") is not None:
        return "revoked"
    ends = item.get("expiresAt")
    return "expired" if isinstance(ends, int) and ends <= time.time_ns() // 1_000_000 else "active"


def _show_once(made: Item, show: Show) -> None:
    if show.as_json:
        show.json(made)
        return
    click.echo(f"The key {plain(made.get('keyId'))} ({plain(made.get('name'))}). It is shown this once; keep it:", err=True)
    click.echo(plain(made.get("key")))
