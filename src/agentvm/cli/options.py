"""Options — flags that several commands share; flags take precedence over environment variables."""

import os
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import click

from agentvm.cli import profiles, program
from agentvm.cli.times import past
from agentvm.errors import ConfigInvalid, NotFound
from agentvm.model.address import is_loopback
from agentvm.model.secret import Secret

# Settings are imported late: a request to an explicit address needs none and should not wait for them.

url_option = click.option(
    "--url", help="Server URL (AVM_URL; default: the profile's, the local server, http://127.0.0.1:8080)."
)
container_option = click.option("--container", "container_id", help="Only this container.")
since_option = click.option("--since", type=past, metavar="TIME", help="Start: 2h, 30d, 2026-11-15 or 2026-11-15T10:00.")
until_option = click.option("--until", type=past, metavar="TIME", help="End (exclusive).")
node_option = click.option(
    "--node", "nodes", metavar="NUMBER", help="Only this node of a cluster: its number in avm cluster status, or all."
)
json_option = click.option("--json", "as_json", is_flag=True, help="Output JSON.")
key_file_option = click.option(
    "--key-file", type=click.Path(path_type=Path), help="File with your API key, instead of AVM_KEY."
)


def _choose_profile(ctx: click.Context, option: click.Parameter, value: str | None) -> None:
    # Stored in the context: the key and the URL are looked up where a command needs them.
    ctx.meta[_PROFILE] = value


profile_option = click.option(
    "--profile",
    expose_value=False,
    callback=_choose_profile,
    help="Profile stored by `avm login` (AVM_PROFILE; default: default).",
)

KEY_REMEDY = "Provide a valid API key: avm login, AVM_KEY=<key>, or --key-file <path>."
_PROFILE = "agentvm.profile"

KEY_FILE_CHARACTERS_MAX = 65_536
"""Tokens of identity providers can be long; a longer file is not a key file."""


def keep_name(group: click.Group, name: str, command: click.Command) -> None:
    """Lets scripts call a command by its earlier name, which the help does not show."""
    group.add_command(click.Command(name, params=command.params, callback=command.callback, help=command.help, hidden=True))


def option_key(key_file: Path | None, url: str | None = None) -> Secret | None:
    """The API key: from the file, AVM_KEY, or the profile. An explicit --profile takes precedence over AVM_KEY.

    No flag takes the key itself: every user of a machine can list the arguments of processes. A profile's key is sent only to
    the profile's server; `url` is the value of `--url`.
    """
    if key_file is not None:
        return check_key(_read_key(key_file), f"The key file {key_file}")
    named = chosen_profile() is not None
    variable = os.environ.get("AVM_KEY", "").strip()
    if variable and not named:
        return check_key(variable, "AVM_KEY")
    profile = current_profile()
    if profile is not None and profile.key is not None and _is_address_of(profile, url, named=named):
        return profile.key
    return check_key(variable, "AVM_KEY") if variable else None


def check_key(text: str, where: str) -> Secret:
    """The key in a file or a variable; `ConfigInvalid` for text that cannot be a key."""
    text = text.strip()
    if not text:
        raise ConfigInvalid(f"{where} is empty; it must contain an API key")
    if not text.isascii() or not text.isprintable() or " " in text:
        # The text is not printed: it may contain a key.
        raise ConfigInvalid(f"{where} contains more than a key: a key is one line of letters, digits and punctuation")
    return Secret(text)


def option_url(url: str | None) -> str | None:
    """The server URL: --url, the URL of an explicit profile, AVM_URL, the default profile, or the local server.

    None when none of these is set: the default address applies.
    """
    if url is not None and chosen_profile() is not None:
        raise click.UsageError("Use --url or --profile, not both: a profile has its own URL.")
    if not (direct := _direct_url(url)) and (profile := current_profile()) is not None:
        return profile.url
    return direct or local_server()


def chosen_profile() -> str | None:
    """The value of `--profile` of the running command."""
    context = click.get_current_context(silent=True)
    name = None if context is None else context.meta.get(_PROFILE)
    return name if isinstance(name, str) and name else None


def profile_name() -> str:
    return chosen_profile() or os.environ.get("AVM_PROFILE") or profiles.DEFAULT


def current_profile() -> profiles.Profile | None:
    """The selected profile; None when none is stored. `NotFound` for a name without a profile."""
    name = profile_name()
    stored = profiles.load_all()
    if name in stored:
        return stored[name]
    if name == profiles.DEFAULT:
        return None
    others = f"; available: {', '.join(sorted(stored))}" if stored else ""
    raise NotFound(f"Profile not found: {name}{others}. Create it: {program()} login --profile {name}")


def _direct_url(url: str | None) -> str | None:
    if url or chosen_profile() is not None:
        return url
    return os.environ.get("AVM_URL") or None


def _is_address_of(profile: profiles.Profile, url: str | None, *, named: bool) -> bool:
    direct = _direct_url(url)
    return named or direct is None or parse_address(direct) == parse_address(profile.url)


def server_address(url: str | None) -> str:
    """The address of the HTTP API."""
    return address_or_default(option_url(url))


def login_address(url: str | None, stored: str | None) -> str:
    """The server to log in to: the argument, AVM_URL, the profile's server, or the local one."""
    return address_or_default(_direct_url(url) or stored or local_server())


def address_or_default(url: str | None) -> str:
    return f"http://127.0.0.1:{local_port()}" if url is None else parse_address(url)


def parse_address(url: str) -> str:
    """The address of the HTTP API; a WebSocket URL is accepted too, since both are given the same way."""
    try:
        parts = urlsplit(url if "://" in url else f"http://{url}")
        scheme = {"ws": "http", "wss": "https"}.get(parts.scheme, parts.scheme)
        valid = scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        valid = False
    if not valid or "@" in parts.netloc or parts.query or parts.fragment:
        # The URL is not printed: it may contain a key.
        raise ConfigInvalid("The server's URL must be like http://127.0.0.1:8080, without a key in it")
    path = parts.path.rstrip("/").removesuffix("/ws")
    return f"{scheme}://{parts.netloc}{path}"


def local_port() -> int:
    """The port of the local server, also when the configuration file is invalid."""
    from agentvm.config import from_environment, load

    try:
        return load().system.port
    except ConfigInvalid:
        return from_environment().system.port


def local_server() -> str | None:
    """The URL of the server that runs on the data directory; None without one, or when AVM_PORT is set."""
    from agentvm.config import load
    from agentvm.server.announcement import running_server

    if os.environ.get("AVM_PORT"):
        return None
    try:
        data_dir = load().data_dir
    except ConfigInvalid:
        return None
    return None if data_dir is None else running_server(data_dir)


def server_remedy(url: str) -> str:
    """The next step when no server answers at the URL."""
    address = urlsplit(url)
    if not is_loopback(address.hostname or ""):
        return "Check the address and that the server is running.\n"
    from agentvm.config import DEFAULT_PORT

    port = "" if address.port in (None, DEFAULT_PORT) else f" --port {address.port}"
    return f"If the server is not running, start it: {program()} serve{port}\n"


def _read_key(path: Path) -> str:
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            text = file.read(KEY_FILE_CHARACTERS_MAX + 1)
    except OSError as error:
        raise ConfigInvalid(f"Cannot read the key file {path}: {error.strerror}") from None
    if len(text) > KEY_FILE_CHARACTERS_MAX:
        raise ConfigInvalid(f"The key file {path} is too large for a key file")
    return text


def loop_options() -> dict[str, Any]:
    """Event loop options for anyio: uvloop where it is installed."""
    return {"use_uvloop": find_spec("uvloop") is not None}
