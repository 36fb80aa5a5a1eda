"""Options — the settings that commands share: flags, laid over what the environment says."""

import os
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar
from urllib.parse import urlsplit

import click

from agentvm.cli import profiles, program
from agentvm.errors import ConfigInvalid, NotFound
from agentvm.model.address import is_loopback
from agentvm.model.secret import Secret

if TYPE_CHECKING:
    from agentvm.config import ServerConfig
    from agentvm.config.catalogue import Value

# The settings are loaded where they are needed: who asks a server by its address needs none, and should not wait for them.

C = TypeVar("C", bound=Callable[..., Any])

MODEL_HELP = "Model that answers: <driver>/<model> or <driver> (LLM_MODEL)."

host_option = click.option("--host", help="Address to listen on (AVM_HOST; 127.0.0.1).")
port_option = click.option("--port", type=click.IntRange(0, 65535), help="Port; 0 for any free one (AVM_PORT; 8080).")
data_dir_option = click.option(
    "--data-dir", type=click.Path(path_type=Path), help="Where data is kept (AVM_DATA_DIR; ~/.agentvm)."
)
auth_option = click.option(
    "--auth",
    type=click.Choice(("on", "off")),
    help="Whether peers need a key (AVM_AUTH; on, unless only this machine can reach the server).",
)
model_option = click.option("--model", help=MODEL_HELP)
config_option = click.option(
    "--config", type=click.Path(path_type=Path), help="Configuration file (AVM_CONFIG; config.yaml in the data directory)."
)
set_option = click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="KEY=VALUE",
    help="Any setting but a secret: limits.steps=10; repeatable.",
)
url_option = click.option(
    "--url", help="Server to ask (AVM_URL, the profile's, the one that runs here, http://127.0.0.1:8080)."
)
key_file_option = click.option(
    "--key-file", type=click.Path(path_type=Path), help="File that holds your key, instead of AVM_KEY."
)


def _choose_profile(ctx: click.Context, option: click.Parameter, value: str | None) -> None:
    # Kept beside the parameters: the key and the URL are looked up where a command needs them, not handed through each.
    ctx.meta[_PROFILE] = value


profile_option = click.option(
    "--profile",
    expose_value=False,
    callback=_choose_profile,
    help="Server and key that `avm login` has stored under this name (AVM_PROFILE; default).",
)

KEY_REMEDY = "Give a key that is in force: avm login, AVM_KEY=<key>, or --key-file <path>."
_PROFILE = "agentvm.profile"

MAX_KEY_FILE = 65_536
"""Bytes; whatever is longer is another file than was meant. A token of an identity provider may be long."""


def server_options(command: C) -> C:
    """The flags that say what a server would be."""
    for option in (set_option, config_option, model_option, data_dir_option, port_option, host_option):
        command = option(command)
    return command


def configure(
    *,
    config: Path | None = None,
    host: str | None = None,
    port: int | None = None,
    data_dir: Path | None = None,
    model: str | None = None,
    auth: Literal["on", "off"] | None = None,
    memory: bool = False,
    allow_origins: tuple[str, ...] = (),
    trusted_proxies: tuple[str, ...] = (),
    log_level: str | None = None,
    settings: tuple[str, ...] = (),
) -> "ServerConfig":
    """What the file and the environment say, with the flags that were given laid over it."""
    from agentvm.config import load
    from agentvm.config.build import MEMORY
    from agentvm.drivers.registry import DRIVERS

    given: dict[str, tuple[str, Value | None]] = {
        "system.host": ("--host", host),
        "system.port": ("--port", port),
        "system.dataDir": ("--data-dir", None if data_dir is None else str(data_dir)),
        "system.auth": ("--auth", auth),
        "system.allowOrigins": ("--allow-origin", allow_origins or None),
        "system.trustedProxies": ("--trusted-proxy", trusted_proxies or None),
        "system.logLevel": ("--log-level", log_level),
        "llm.model": ("--model", model),
    }
    if memory:
        given["system.dataDir"] = ("--memory", MEMORY)
    if model is not None and (named := model.partition("/")[0]) in DRIVERS:
        # A flag that names its driver outweighs a variable that names another.
        given["llm.provider"] = ("--model", named)
    flags = {key: (flag, value) for key, (flag, value) in given.items() if value is not None}
    return load(config, flags=flags, settings=parse_settings(settings))


def parse_settings(pairs: tuple[str, ...]) -> dict[str, str]:
    """`--set key=value`, each key once."""
    found: dict[str, str] = {}
    for pair in pairs:
        key, sign, value = pair.partition("=")
        if not sign or not value:
            # The value is not shown: it may be a key that was meant for a variable.
            raise click.UsageError(f"--set {key} must be like --set limits.steps=10")
        if key in found:
            raise click.UsageError(f"--set {key} is given twice")
        found[key] = value
    return found


def given_key(key_file: Path | None, url: str | None = None) -> Secret | None:
    """Who is asking: the content of the file, AVM_KEY, or the key of the profile. A named profile goes before AVM_KEY.

    There is no flag for it: everybody on a machine can list flags. A profile's key goes to the profile's server and to no
    other; `url` is the `--url` that the command was given.
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
    """The key that a file or a variable holds; `ConfigInvalid` when the text can be none."""
    text = text.strip()
    if not text:
        raise ConfigInvalid(f"{where} is empty; it must hold a key")
    if not text.isascii() or not text.isprintable() or " " in text:
        # Not shown: it may be a key with something beside it.
        raise ConfigInvalid(f"{where} holds more than a key: a key has only letters, digits and a few signs, on one line")
    return Secret(text)


def given_url(url: str | None) -> str | None:
    """The server to ask: the flag, a named profile's, AVM_URL, the default profile's, or the one that runs here.

    None when there is none of these: then a server listens where it does by default.
    """
    if url is not None and chosen_profile() is not None:
        raise click.UsageError("Give --url or --profile, not both: a profile has a URL of its own.")
    if not (direct := _direct_url(url)) and (profile := current_profile()) is not None:
        return profile.url
    return direct or local_server()


def chosen_profile() -> str | None:
    """What `--profile` of the running command says."""
    context = click.get_current_context(silent=True)
    found = None if context is None else context.meta.get(_PROFILE)
    return found if isinstance(found, str) and found else None


def profile_name() -> str:
    return chosen_profile() or os.environ.get("AVM_PROFILE") or profiles.DEFAULT


def current_profile() -> profiles.Profile | None:
    """The profile in force; None when none is stored. `NotFound` for one that was named and is not there."""
    name = profile_name()
    found = profiles.load_all()
    if name in found:
        return found[name]
    if name == profiles.DEFAULT:
        return None
    known = f"; there are {', '.join(sorted(found))}" if found else ""
    raise NotFound(f"There is no profile {name}{known}. To store one: {program()} login --profile {name}")


def _direct_url(url: str | None) -> str | None:
    if url or chosen_profile() is not None:
        return url
    return os.environ.get("AVM_URL") or None


def _is_address_of(profile: profiles.Profile, url: str | None, *, named: bool) -> bool:
    direct = _direct_url(url)
    return named or direct is None or parse_address(direct) == parse_address(profile.url)


def server_address(url: str | None) -> str:
    """Where the HTTP API is."""
    return address_or_default(given_url(url))


def login_address(url: str | None, stored: str | None) -> str:
    """The server to log in to: the one that is named, AVM_URL, the one that the profile has, or the one that runs here."""
    return address_or_default(_direct_url(url) or stored or local_server())


def address_or_default(wanted: str | None) -> str:
    return f"http://127.0.0.1:{local_port()}" if wanted is None else parse_address(wanted)


def parse_address(wanted: str) -> str:
    """The address of the HTTP API; the socket's is understood too, since a chat is told the same."""
    try:
        parts = urlsplit(wanted if "://" in wanted else f"http://{wanted}")
        scheme = {"ws": "http", "wss": "https"}.get(parts.scheme, parts.scheme)
        known = scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        known = False
    if not known or "@" in parts.netloc or parts.query or parts.fragment:
        # Not shown: who writes a key into a URL must not find it in a log.
        raise ConfigInvalid("The server's URL must be like http://127.0.0.1:8080, without a key in it")
    path = parts.path.rstrip("/").removesuffix("/ws")
    return f"{scheme}://{parts.netloc}{path}"


def local_port() -> int:
    """Where a server of this machine listens. A file that cannot be used keeps nobody from asking it."""
    from agentvm.config import from_environment, load

    try:
        return load().port
    except ConfigInvalid:
        return from_environment().port


def local_server() -> str | None:
    """The server that runs on the data directory; None when none does, or when AVM_PORT says where to look."""
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
    """What to do when nobody answers there."""
    address = urlsplit(url)
    if not is_loopback(address.hostname or ""):
        return "Check the address, and that a server runs there.\n"
    from agentvm.config import DEFAULT_PORT

    port = "" if address.port in (None, DEFAULT_PORT) else f" --port {address.port}"
    return f"If no server runs there, start one: {program()} serve{port}\n"


def _read_key(path: Path) -> str:
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            text = file.read(MAX_KEY_FILE + 1)
    except OSError as error:
        raise ConfigInvalid(f"Cannot read the key file {path}: {error.strerror}") from None
    if len(text) > MAX_KEY_FILE:
        raise ConfigInvalid(f"The key file {path} is too long for a key")
    return text


def loop_options() -> dict[str, Any]:
    """The event loop's, for anyio: uvloop where it is installed."""
    return {"use_uvloop": find_spec("uvloop") is not None}
