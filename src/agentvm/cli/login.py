"""avm login, avm logout — a server and a key, stored for the commands that follow. A key is never an argument."""

import os
import sys
from pathlib import Path

import click

from agentvm.cli import profiles, program
from agentvm.cli.api import Api, RequestFailed, warn_of_open_network
from agentvm.cli.options import check_key, given_key, key_file_option, login_address, profile_name, profile_option
from agentvm.cli.table import Item, plain
from agentvm.errors import NotFound, Unauthenticated
from agentvm.model.secret import Secret

EXAMPLES = """\b
Examples:
  avm login                                            the server of this machine; asks for the key
  avm login https://agents.example.org --profile work
  avm login https://agents.example.org < key.txt       for scripts
  avm session list --profile work
  avm logout --profile work
"""

_KEY_CHARACTERS_MAX = 65_536


@click.command(epilog=EXAMPLES)
@click.argument("url", required=False)
@key_file_option
@profile_option
def login(url: str | None, key_file: Path | None) -> None:
    """Store a server and your key for the commands that follow.

    Both are tried first: what the server does not accept is not stored. The key comes from stdin, or is asked for.
    """
    name = profiles.check_name(profile_name())
    known = profiles.load_all().get(name)
    address = login_address(url, None if known is None else known.url)
    key: Secret | None = None
    try:
        who = _who(address, None)
    except RequestFailed as error:
        if error.code != Unauthenticated.code:
            raise
        key = _read_key() if key_file is None else given_key(key_file)
        warn_of_open_network(address)
        who = _who(address, key)
    path = profiles.save(name, profiles.Profile(url=address, key=key))
    click.echo(f"{_describe(who)} at {address}. Stored in {path} as the profile {name}.")
    for variable in ("AVM_URL", "AVM_KEY"):
        if os.environ.get(variable):
            click.echo(f"{variable} is set, and goes before the profile: unset it, or give --profile {name}.", err=True)


@click.command()
@profile_option
def logout() -> None:
    """Forget a server and a key that were stored.

    The key itself stays in force; `avm key revoke` ends it.
    """
    name = profiles.check_name(profile_name())
    if not profiles.remove(name):
        raise NotFound(f"There is no profile {name}. To store one: {program()} login")
    click.echo(f"The profile {name} is removed. Its key stays in force until it is revoked.")


def _who(address: str, key: Secret | None) -> Item:
    with Api(address, key) as api:
        return api.get("auth", "whoami")


def _read_key() -> Secret:
    if sys.stdin.isatty():
        return check_key(str(click.prompt("Your key", hide_input=True, err=True)), "What you typed")
    text = sys.stdin.read(_KEY_CHARACTERS_MAX)
    if not text.strip():
        raise click.UsageError("This server asks for a key. Give it on stdin or with --key-file, or run this in a terminal.")
    return check_key(text, "The input")


def _describe(who: Item) -> str:
    if who.get("auth") == "off":
        return "No key is needed"
    user, tenant = who.get("user"), plain(who.get("tenant"))
    return f"You are {plain(user)} of {tenant}" if user else f"Your key is of {tenant}"
