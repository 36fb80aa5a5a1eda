"""avm login, avm logout — profiles with a server and an API key. A key is never an argument."""

import os
import sys
from pathlib import Path

import click

from agentvm.cli import profiles, program
from agentvm.cli.api import Api, RequestFailed, warn_of_open_network
from agentvm.cli.options import check_key, key_file_option, login_address, option_key, profile_name, profile_option
from agentvm.cli.table import Item, plain
from agentvm.errors import NotFound, Unauthenticated
from agentvm.model.secret import Secret

EXAMPLES = """\b
Examples:
  avm login                                            the local server; prompts for the key
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
    """Store a server and your API key in a profile.

    The key is checked first. It is read from stdin or a prompt.
    """
    name = profiles.check_name(profile_name())
    stored = profiles.load_all().get(name)
    address = login_address(url, None if stored is None else stored.url)
    key: Secret | None = None
    try:
        identity = _identity(address, None)
    except RequestFailed as error:
        if error.code != Unauthenticated.code:
            raise
        key = _read_key() if key_file is None else option_key(key_file)
        warn_of_open_network(address)
        identity = _identity(address, key)
    path = profiles.save(name, profiles.Profile(url=address, key=key))
    click.echo(f"{_describe(identity)} at {address}. Profile {name} stored in {path}.")
    for variable in ("AVM_URL", "AVM_KEY"):
        if os.environ.get(variable):
            click.echo(f"{variable} is set and takes precedence over the profile: unset it, or use --profile {name}.", err=True)


@click.command()
@profile_option
def logout() -> None:
    """Remove a stored profile.

    The key stays valid; `avm key revoke` revokes it.
    """
    name = profiles.check_name(profile_name())
    if not profiles.remove(name):
        raise NotFound(f"Profile not found: {name}. To create one: {program()} login")
    click.echo(f"The profile {name} is removed. Its key stays valid until it is revoked.")


def _identity(address: str, key: Secret | None) -> Item:
    with Api(address, key) as api:
        return api.call("auth.whoami")


def _read_key() -> Secret:
    if sys.stdin.isatty():
        return check_key(str(click.prompt("Your key", hide_input=True, err=True)), "The typed key")
    text = sys.stdin.read(_KEY_CHARACTERS_MAX)
    if not text.strip():
        raise click.UsageError(
            "This server requires an API key. Provide it on stdin or with --key-file, or run this command in a terminal."
        )
    return check_key(text, "The input")


def _describe(identity: Item) -> str:
    if identity.get("auth") == "off":
        return "No API key is required"
    user, tenant = identity.get("user"), plain(identity.get("tenant"))
    return f"Logged in as {plain(user)} of {tenant}" if user else f"Logged in to {tenant}"
