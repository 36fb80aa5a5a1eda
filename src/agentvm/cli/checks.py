"""Checks — what `avm doctor` looks at. Each looks without changing anything and says what to do about what it finds."""

import platform
import socket
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

import anyio
import apsw
import httpx2

from agentvm.cli import program
from agentvm.cli.api import Api, RequestFailed
from agentvm.cli.exit_codes import DENIED
from agentvm.cli.model import is_whole
from agentvm.cli.serve import describe_model, describe_unpriced
from agentvm.cli.table import Item, plain
from agentvm.config import ServerConfig
from agentvm.drivers.base import DriverSettings
from agentvm.drivers.registry import KEY_VARIABLES, open_driver
from agentvm.drivers.weights import DEFAULT_MODEL, default_model_dir, weights_path
from agentvm.errors import ConfigInvalid, DataDirInUse, MissingKey, shorten
from agentvm.model.address import is_loopback
from agentvm.model.secret import Secret
from agentvm.observability.console import LEVELS, check_level
from agentvm.storage.engine import lock_data_dir, open_to_others
from agentvm.tenants.keys import parse_key
from agentvm.tenants.server_key import is_server_key

Status = Literal["ok", "warn", "fail"]

OLDEST_PYTHON = (3, 11)
PACKAGES = {"anthropic": "anthropic", "local": "xllamacpp", "openai": "openai"}
"""The package each driver works through."""

PATIENCE = 2.0
"""Seconds that whoever has the port gets to say who it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One line of the doctor's report. Only what is not ok has a remedy."""

    name: str
    status: Status
    text: str
    remedy: str | None = None


def examine(config: ServerConfig) -> Iterator[Finding]:
    """Every finding, in the order in which they matter."""
    yield check_python()
    yield from check_config(config)
    yield Finding(name="sqlite", status="ok", text=f"SQLite {apsw.sqlite_lib_version()}")
    yield check_data_dir(config.data_dir)
    try:
        provider, _, model = config.default_model.partition("/")
        driver = config.driver_of(provider)
    except ConfigInvalid as error:
        yield Finding(name="model", status="fail", text=str(error), remedy="Set LLM_PROVIDER or --model accordingly.")
    else:
        yield check_model(config, provider)
        yield from check_packages(driver)
        yield check_weights(config, driver, model)
    yield from check_address(config.host, config.port)
    yield from check_auth(config)
    yield check_log_level(config.log_level)


def examine_running(url: str, data_dir: Path, key: Secret | None) -> Iterator[Finding] | None:
    """The answer of the server that runs there; None when there is none after all."""
    try:
        with Api(url, key, timeout=PATIENCE) as api:
            who, told = api.get("auth", "whoami"), api.get("status")
    except RequestFailed as error:
        if error.exit_code != DENIED:
            return _silent(url, data_dir)
        text = f"AgentVM runs at {url} on {data_dir}; it tells how it is to those who may see it"
        return iter([Finding(name="server", status="ok", text=f"{text} (avm login, or AVM_KEY)")])
    return _told(url, data_dir, who, told)


def _silent(url: str, data_dir: Path) -> Iterator[Finding] | None:
    if check_data_dir(data_dir).status != "warn":
        # Nobody holds the directory: what says so was left behind by a crash.
        return None
    text = f"{data_dir} is in use by a server that should answer at {url}, and does not"
    return iter([Finding(name="server", status="fail", text=text, remedy="See its log, and start it again.")])


def _told(url: str, data_dir: Path, who: Item, told: Item) -> Iterator[Finding]:
    text = f"AgentVM {plain(told.get('version'))} runs at {url} on {data_dir}"
    yield Finding(name="server", status="ok", text=text)
    off = "off: every program on this machine can read every conversation"
    yield Finding(name="auth", status="ok", text=off if who.get("auth") == "off" else "on: peers need a key")
    for check in told.get("checks", ()):
        status: Status = {"warn": "warn", "fail": "fail"}.get(check.get("status"), "ok")  # type: ignore[assignment]  # One of them.
        yield Finding(name=plain(check.get("name")), status=status, text=plain(check.get("message")))


def check_python() -> Finding:
    text = f"Python {platform.python_version()}"
    if sys.version_info >= OLDEST_PYTHON:
        return Finding(name="python", status="ok", text=text)
    return Finding(name="python", status="fail", text=text, remedy="Install Python 3.11 or newer.")


def check_data_dir(data_dir: Path | None) -> Finding:
    if data_dir is None:
        return Finding(name="data", status="ok", text="everything is kept in memory")
    try:
        directory = data_dir.expanduser().absolute()
        parent = next(folder for folder in (directory, *directory.parents) if folder.exists())
    except (OSError, RuntimeError) as error:
        return Finding(name="data", status="fail", text=f"{data_dir}: {error}", remedy="Choose another one with --data-dir.")
    if parent != directory:
        return check_new_data_dir(directory, parent)
    try:
        with lock_data_dir(directory):
            if open_to_others(directory):
                text, remedy = f"{directory} can be entered by other users of this machine", f"chmod 700 {directory}"
                return Finding(name="data", status="warn", text=text, remedy=remedy)
            return Finding(name="data", status="ok", text=f"{directory} is writable and not in use")
    except DataDirInUse:
        return Finding(
            name="data",
            status="warn",
            text=f"{directory} is in use by a running server",
            remedy="For a second server, choose another one with --data-dir.",
        )
    except ConfigInvalid as error:
        return Finding(name="data", status="fail", text=f"{directory} cannot be used", remedy=str(error))


def check_new_data_dir(directory: Path, parent: Path) -> Finding:
    try:
        # Rights alone do not say it: even root cannot write to a file system that takes nothing.
        with tempfile.TemporaryDirectory(prefix=".avm-doctor-", dir=parent):
            return Finding(name="data", status="ok", text=f"{directory} will be created")
    except OSError as error:
        text = f"{directory} cannot be created: {error.strerror}"
        return Finding(name="data", status="fail", text=text, remedy="Choose another one with --data-dir.")


def check_config(config: ServerConfig) -> Iterator[Finding]:
    """The file that was read: that it can be used is known already, or there would be no config."""
    places = (given.place for layer in config.layers if layer.name == "file" for given in layer.given.values())
    if file := next((place.rpartition(":")[0] for place in places if place is not None), None):
        yield Finding(name="config", status="ok", text=f"{file} can be used")


def check_model(config: ServerConfig, provider: str) -> Finding:
    """Opens the driver as a server would, which asks nothing of the provider."""
    driver = config.driver_of(provider)
    try:
        anyio.run(_open, driver, config.driver_settings(provider))
    except MissingKey:
        return Finding(
            name="model",
            status="fail",
            text=f"{config.default_model} answers by default, but there is no API key for it",
            remedy=f"Set LLM_API_KEY or {KEY_VARIABLES[driver]}, or use the embedded model: --model local",
        )
    except ConfigInvalid as error:
        return Finding(name="model", status="fail", text=f"{config.default_model} cannot be used", remedy=str(error))
    except ImportError:
        # Which package, and what to do: the next check says it.
        pass
    return Finding(name="model", status="ok", text=f"{describe_model(config)} answers by default")


async def _open(driver: str, settings: DriverSettings) -> None:
    async with open_driver(driver, settings):
        pass


def check_packages(driver: str) -> Iterator[Finding]:
    """The default driver's package is imported, the others are only looked for: importing them takes seconds."""
    for name, package in PACKAGES.items():
        remedy = f"pip install {package}"
        try:
            there = import_module(package) is not None if name == driver else find_spec(package) is not None
        except ImportError as error:
            yield Finding(name="package", status="fail", text=f"{package} cannot be imported: {error}", remedy=remedy)
            continue
        if there:
            yield Finding(name="package", status="ok", text=f"{package} is installed")
        else:
            text = f"{package} is not installed; only {name} models need it ({remedy})"
            yield Finding(name="package", status="ok", text=text)


def check_weights(config: ServerConfig, driver: str, model: str) -> Finding:
    wanted = (model if driver == "local" else "") or DEFAULT_MODEL
    directory = config.model_dir or default_model_dir()
    # Who has another model can do without the embedded one.
    problem: Status = "fail" if driver == "local" else "warn"
    try:
        path = weights_path(directory, wanted)
        whole = path is None or wanted != DEFAULT_MODEL or is_whole(path)
    except OSError as error:
        return Finding(name="weights", status=problem, text=str(error), remedy="Choose another directory with AVM_MODEL_DIR.")
    if path is None and driver != "local":
        return Finding(name="weights", status="ok", text=f"{wanted} is not installed; {driver} models do not need it")
    if path is None:
        source = "" if wanted == DEFAULT_MODEL else " <URL or path of its GGUF file>"
        return Finding(
            name="weights",
            status=problem,
            text=f"{wanted} is not in {directory}",
            remedy=f"Run: {program()} model pull{source}",
        )
    if not whole:
        return Finding(name="weights", status=problem, text=f"{path} is damaged", remedy=f"Run: {program()} model pull")
    verified = ", its digest is right" if wanted == DEFAULT_MODEL else ""
    return Finding(name="weights", status="ok", text=f"{path} is there{verified}")


def check_address(host: str, port: int) -> Iterator[Finding]:
    """Whether a server could listen there, and who could then reach it."""
    if not can_bind(host, 0):
        text = f"{shorten(host)} is no address of this machine"
        yield Finding(name="host", status="fail", text=text, remedy="For this machine alone: --host 127.0.0.1")
        return
    reached = f"only this machine reaches {host}" if is_loopback(host) else f"other machines reach {host}"
    yield Finding(name="host", status="ok", text=reached)
    yield check_port(host, port)


def check_auth(config: ServerConfig) -> Iterator[Finding]:
    """Whether peers need a key, and whether what is needed for that can be had."""
    if not config.authenticates:
        text = "off: every program on this machine can read every conversation"
        yield Finding(name="auth", status="ok", text=text)
        return
    if config.admin_key is not None and parse_key(config.admin_key.reveal()) is None:
        text, remedy = "AVM_ADMIN_KEY is not a key, or has a typo", "Make one: avm key new"
        yield Finding(name="auth", status="fail", text=text, remedy=remedy)
    elif config.server_key is not None and not is_server_key(config.server_key.reveal()):
        text, remedy = "AVM_SERVER_KEY is not a server key", "Make one: openssl rand -hex 32"
        yield Finding(name="auth", status="fail", text=text, remedy=remedy)
    else:
        yield Finding(name="auth", status="ok", text="on: peers need a key")
    try:
        unpriced = describe_unpriced(config)
    except ConfigInvalid:
        return
    if unpriced is not None:
        yield Finding(
            name="price",
            status="warn",
            text=unpriced.partition(" refused. ")[0] + " refused",
            remedy=unpriced.partition(" refused. ")[2],
        )


def check_port(host: str, port: int) -> Finding:
    """Whether a server could listen there, or already does."""
    if port == 0:
        return Finding(name="port", status="ok", text="any free port")
    if can_bind(host, port):
        return Finding(name="port", status="ok", text=f"{host}:{port} is free")
    version = ask_health(host, port)
    if version is not None:
        return Finding(name="port", status="ok", text=f"AgentVM {version} is running on {host}:{port}")
    another = 8081 if port != 8081 else 8082
    text = f"{host}:{port} is taken, or this user may not have it"
    return Finding(name="port", status="fail", text=text, remedy=f"Choose another one: --port {another}")


def can_bind(host: str, port: int) -> bool:
    from agentvm.server.serving import bind

    try:
        bind(host, port).close()
    except ConfigInvalid:
        return False
    return True


def check_log_level(level: str) -> Finding:
    try:
        check_level(level)
    except ConfigInvalid as error:
        return Finding(name="log", status="fail", text=str(error), remedy=f"Set AVM_LOG_LEVEL to one of: {', '.join(LEVELS)}")
    return Finding(name="log", status="ok", text=f"entries from {level} on are logged")


def ask_health(host: str, port: int) -> str | None:
    """The version of the AgentVM that listens there; None when nobody does, or somebody else."""
    reachable = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    address = f"[{reachable}]" if ":" in reachable else reachable
    try:
        # Without the environment's proxies: this is about this machine.
        with httpx2.Client(timeout=PATIENCE, trust_env=False) as client:
            body = client.get(f"http://{address}:{port}/health").json()
    except (httpx2.HTTPError, httpx2.InvalidURL, ValueError, socket.gaierror):
        return None
    version = body.get("version") if isinstance(body, dict) and body.get("status") == "ok" else None
    return version if isinstance(version, str) else None
