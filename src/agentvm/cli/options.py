"""Options — the settings that commands share: flags, laid over what the environment says."""

import os
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar
from urllib.parse import urlsplit

import click

from agentvm.cli import program
from agentvm.errors import ConfigInvalid
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
url_option = click.option("--url", help="Server to ask (AVM_URL; http://127.0.0.1:8080, where AVM_PORT names another port).")
key_file_option = click.option(
    "--key-file", type=click.Path(path_type=Path), help="File that holds your key, instead of AVM_KEY."
)

KEY_REMEDY = "Give a key that is in force: AVM_KEY=<key>, or --key-file <path>."

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


def given_key(key_file: Path | None) -> Secret | None:
    """Who is asking: the file's content, else AVM_KEY. There is no flag for it: everybody on a machine can list flags."""
    if key_file is None:
        text, where = os.environ.get("AVM_KEY") or "", "AVM_KEY"
    else:
        text, where = _read_key(key_file), f"The key file {key_file}"
    text = text.strip()
    if not text:
        if key_file is None:
            return None
        raise ConfigInvalid(f"{where} is empty; it must hold a key")
    if not text.isascii() or not text.isprintable() or " " in text:
        # Not shown: it may be a key with something beside it.
        raise ConfigInvalid(f"{where} holds more than a key: a key has only letters, digits and a few signs, on one line")
    return Secret(text)


def given_url(url: str | None) -> str | None:
    """The flag, else AVM_URL."""
    return url or os.environ.get("AVM_URL") or None


def server_address(url: str | None) -> str:
    """Where the HTTP API is; the socket's address is understood too, since a chat is told the same."""
    wanted = given_url(url)
    if wanted is None:
        return f"http://127.0.0.1:{local_port()}"
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
