"""avm key — create, list, rotate and revoke API keys. A key is printed once, alone on stdout, so that a script can store it."""

import secrets
import time
from pathlib import Path

import anyio
import click

from agentvm.cli.api import Api, confirm, tenant_command, yes_option
from agentvm.cli.names import KEY, find, named_users, user_option
from agentvm.cli.server_options import config_option, configure, data_dir_option
from agentvm.cli.table import Columns, Item, Show, listed, moment, plain
from agentvm.cli.times import duration, future
from agentvm.tenants.keys import make_key, parse_key

EXAMPLES = """\b
Examples:
  AVM_ADMIN_KEY=$(avm key new) avm serve --auth on     with an operator key of your own
  avm key create laptop --user alice                   a key of alice, printed once
  avm key create backup --permission sessions:read --permission sessions:export --expires 30d
  avm key rotate laptop --grace 1h                     a new key; the old one expires in an hour
  avm key revoke laptop                                invalid at once; its connections are closed
  avm key operator --data-dir ./data                   replaces a lost operator key; stop the server first
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
    """Create, list, rotate and revoke API keys."""


@key.command("new")
def new_key() -> None:
    """Print a new key for AVM_ADMIN_KEY, without a server.

    A server that is started with it accepts it as the operator's key.
    """
    click.echo(make_key(secrets.randbits)[1].reveal())


@key.command("operator")
@click.argument("name", default="operator")
@data_dir_option
@config_option
def operator_key(name: str, data_dir: str | None, config: Path | None) -> None:
    """Create an operator key for a stopped server.

    Replaces a lost operator key in the data directory. It is printed once.
    """
    # Late: it loads the database, which the other commands leave to the server.
    from agentvm.cli.operator_key import create_operator_key

    secret = anyio.run(create_operator_key, configure(config=config, data_dir=data_dir), name)
    click.echo("The operator's key. It is shown once and has every permission; store it safely:", err=True)
    click.echo(secret.reveal())


@key.command("create", epilog=EXAMPLES)
@click.argument("name")
@user_option("User of the key: id or external id (default: none).")
@click.option("--permission", "permissions", multiple=True, help="Permission; repeatable (default: those of the role).")
@click.option("--container", "containers", multiple=True, help="Container it may access; * and ? match; repeatable.")
@click.option("--expires", type=future, metavar="TIME", help="Expiry: 30d, 2026-11-15 (default: never).")
@tenant_command
def create_key(
    api: Api,
    show: Show,
    name: str,
    user: str | None,
    permissions: tuple[str, ...],
    containers: tuple[str, ...],
    expires: int | None,
) -> None:
    """Create a key and print it once."""
    limits = {"permissions": permissions or None, "containers": containers or None}
    _print_once(api.call("key.create", name=name, user_id=user, expires_at=expires, **limits), show)


@key.command("list")
@user_option("Only keys of this user: id or external id.")
@tenant_command
def list_keys(api: Api, show: Show, user: str | None) -> None:
    """List keys without their secrets, newest first."""
    keys = api.items("key.list", user_id=user)
    show.items(keys if show.as_json else named_users(api, keys), COLUMNS, none="No keys found.")


@key.command("rotate")
@click.argument("name", metavar="KEY")
@click.option("--grace", type=duration, default="0s", metavar="SPAN", help="How long the old key stays valid: 1h, 7d (0s).")
@tenant_command
def rotate_key(api: Api, show: Show, name: str, grace: int) -> None:
    """Replace a key (id or name) by a new one.

    The new key has the same permissions.
    """
    _print_once(api.call("key.rotate", str(_find(api, name)["keyId"]), grace_seconds=grace), show)


@key.command("revoke")
@click.argument("name", metavar="KEY")
@yes_option
@tenant_command
def revoke_key(api: Api, show: Show, name: str, yes: bool) -> None:
    """Revoke a key (id or name) at once and close its connections."""
    item = _find(api, name)
    described = f"{plain(item['keyId'])} ({plain(item.get('name'))})"
    confirm(f"Revoke the key {described}? Its connections are closed. This cannot be undone.", yes=yes)
    api.call("key.revoke", str(item["keyId"]))
    show.done(f"The key {described} is revoked.")


def _find(api: Api, name: str) -> Item:
    """The key with this id, name or unique id prefix. Of a complete key only the id is sent to the server."""
    parsed = parse_key(name)
    return find(api, KEY, name if parsed is None else parsed.key_id)


def state_of(item: Item) -> str:
    if item.get("revokedAt") is not None:
        return "revoked"
    expires = item.get("expiresAt")
    return "expired" if isinstance(expires, int) and expires <= time.time_ns() // 1_000_000 else "active"


def _print_once(created: Item, show: Show) -> None:
    if show.as_json:
        show.json(created)
        return
    name = f"{plain(created.get('keyId'))} ({plain(created.get('name'))})"
    click.echo(f"The key {name}. It is shown once; store it safely:", err=True)
    click.echo(plain(created.get("key")))
