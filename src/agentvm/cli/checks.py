"""Checks — the checks of `avm doctor`. A check changes nothing; its finding names the remedy."""

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
from agentvm.cli.exit_codes import ExitCode
from agentvm.cli.model import is_complete
from agentvm.cli.serve import describe_model, describe_unpriced
from agentvm.cli.table import plain
from agentvm.config import ServerConfig
from agentvm.drivers.base import DriverSettings
from agentvm.drivers.model_catalog import CATALOG, DEFAULT_MODEL, pull_command
from agentvm.drivers.registry import KEY_VARIABLES, open_driver
from agentvm.drivers.weights import default_model_dir, weights_path
from agentvm.errors import ConfigInvalid, DataDirInUse, MissingKey, shorten
from agentvm.model.address import is_loopback
from agentvm.model.secret import Secret
from agentvm.observability.console import LEVELS, check_level
from agentvm.storage.engine import is_open_to_others, lock_data_dir
from agentvm.tenants.keys import parse_key
from agentvm.tenants.server_key import is_server_key

Status = Literal["ok", "warn", "fail"]

OLDEST_PYTHON = (3, 11)
PACKAGES = {"anthropic": "anthropic", "local": "xllamacpp", "openai": "openai"}
"""The package of each driver."""

HEALTH_TIMEOUT_SECONDS = 2.0
TIERS_TIMEOUT_SECONDS = 20.0
NO_NAMESPACES_REMEDY = (
    "See docs/sandboxes.md, `Where the host forbids namespaces`; `avm doctor --port 0` on that machine names the wall."
)


AUTH_OFF = "off: every program on this machine can read every session"
AUTH_ON = "on: clients need an API key"


@dataclass(frozen=True, slots=True)
class Finding:
    """A line of the report. Warnings and failures have a remedy."""

    name: str
    status: Status
    text: str
    remedy: str | None = None


def examine(config: ServerConfig) -> Iterator[Finding]:
    """All findings, the most important first."""
    yield check_python()
    yield from check_config(config)
    yield Finding("sqlite", "ok", f"SQLite {apsw.sqlite_lib_version()}")
    yield check_data_dir(config.data_dir)
    try:
        provider, _, model = config.default_model.partition("/")
        driver = config.driver_of(provider)
    except ConfigInvalid as error:
        yield Finding("model", "fail", str(error), "Set LLM_PROVIDER or --model accordingly.")
    else:
        yield check_model(config, provider)
        yield from check_packages(driver)
        yield check_weights(config, driver, model)
    yield from check_address(config.system.host, config.system.port)
    yield from check_auth(config)
    yield check_log_level(config.system.log_level)
    yield from check_sandboxes(config)


def examine_running(url: str, data_dir: Path | None, key: Secret | None) -> list[Finding] | None:
    """The checks of a running server; None when the server of `data_dir` is not running after all."""
    place = url if data_dir is None else f"{url} on {data_dir}"
    try:
        with Api(url, key, timeout=HEALTH_TIMEOUT_SECONDS) as api:
            identity, report = api.call("auth.whoami"), api.call("metric.status")
    except RequestFailed as error:
        if error.exit_code != ExitCode.DENIED:
            return _unreachable(url, data_dir, error)
        text = f"AgentVM runs at {place}; its checks need an API key with the permission to read them (avm login, or AVM_KEY)"
        return [Finding("server", "ok", text)]
    findings = [
        Finding("server", "ok", f"AgentVM {plain(report.get('version'))} runs at {place}"),
        Finding("auth", "ok", AUTH_OFF if identity.get("auth") == "off" else AUTH_ON),
    ]
    for check in report.get("checks", ()):
        status: Status = {"warn": "warn", "fail": "fail"}.get(check.get("status"), "ok")  # type: ignore[assignment]  # One of them.
        findings.append(Finding(plain(check.get("name")), status, plain(check.get("message"))))
    return [*findings, *_tiers_of(url, key)]


def _tiers_of(url: str, key: Secret | None) -> Iterator[Finding]:
    """The tiers of a running server, which tries every wall for the first request."""
    try:
        with Api(url, key, timeout=TIERS_TIMEOUT_SECONDS) as api:
            tiers = api.call("sandbox.tiers").get("tiers", ())
    except RequestFailed as error:
        # A key without the permission, or an older server.
        yield Finding("sandbox", "ok", f"not shown: {plain(error.message.partition(chr(10))[0])}")
        return
    for tier in tiers:
        name, missing, walls = plain(tier.get("tier")), tier.get("missing"), tier.get("walls", ())
        text = f"{', '.join(map(plain, tier.get('engines', ())))}; walls: {', '.join(map(plain, walls))}"
        if name == "process" and not missing and "mount" not in walls:
            text += "; this host forbids namespaces, so there is no network and there are no packages"
            yield Finding("tier process", "warn", text, NO_NAMESPACES_REMEDY)
        else:
            yield tier_finding(name, plain(missing) if missing else "", text)


def _unreachable(url: str, data_dir: Path | None, error: RequestFailed) -> list[Finding] | None:
    if data_dir is None:
        return [Finding("server", "fail", error.message.partition("\n")[0], "Start the server, or unset AVM_URL.")]
    if check_data_dir(data_dir).status != "warn":
        # The directory is not locked: the announcement was left behind by a crash.
        return None
    text = f"{data_dir} is in use by a server that does not answer at {url}"
    return [Finding("server", "fail", text, "See its log, and restart it.")]


def check_python() -> Finding:
    text = f"Python {platform.python_version()}"
    if sys.version_info >= OLDEST_PYTHON:
        return Finding("python", "ok", text)
    return Finding("python", "fail", text, "Install Python 3.11 or newer.")


def check_data_dir(data_dir: Path | None) -> Finding:
    if data_dir is None:
        return Finding("data", "ok", "all data is in memory")
    try:
        directory = data_dir.expanduser().absolute()
        parent = next(folder for folder in (directory, *directory.parents) if folder.exists())
    except (OSError, RuntimeError) as error:
        return Finding("data", "fail", f"{data_dir}: {error}", "Choose another directory with --data-dir.")
    if parent != directory:
        return check_new_data_dir(directory, parent)
    try:
        with lock_data_dir(directory):
            if is_open_to_others(directory):
                text, remedy = f"{directory} is accessible to other users of this machine", f"chmod 700 {directory}"
                return Finding("data", "warn", text, remedy)
            return Finding("data", "ok", f"{directory} is writable and not in use")
    except DataDirInUse:
        return Finding(
            "data",
            "warn",
            f"{directory} is in use by a running server",
            "For a second server, choose another directory with --data-dir.",
        )
    except ConfigInvalid as error:
        return Finding("data", "fail", f"{directory} cannot be used", str(error))


def check_new_data_dir(directory: Path, parent: Path) -> Finding:
    try:
        # Permissions are not enough: the file system may be read-only.
        with tempfile.TemporaryDirectory(prefix=".avm-doctor-", dir=parent):
            return Finding("data", "ok", f"{directory} will be created")
    except OSError as error:
        text = f"{directory} cannot be created: {error.strerror}"
        return Finding("data", "fail", text, "Choose another directory with --data-dir.")


def check_config(config: ServerConfig) -> Iterator[Finding]:
    """The configuration file, if there is one; an invalid file was reported before."""
    places = (setting.place for layer in config.layers if layer.name == "file" for setting in layer.values.values())
    if file := next((place.rpartition(":")[0] for place in places if place is not None), None):
        yield Finding("config", "ok", f"{file} is valid")


def check_model(config: ServerConfig, provider: str) -> Finding:
    """Opens the driver as a server would, without a request to the provider."""
    driver = config.driver_of(provider)
    try:
        anyio.run(_open, driver, config.driver_settings(provider))
    except MissingKey:
        return Finding(
            "model",
            "fail",
            f"{config.default_model} is the default model, but has no API key",
            f"Set LLM_API_KEY or {KEY_VARIABLES[driver]}, or use the embedded model: --model local",
        )
    except ConfigInvalid as error:
        return Finding("model", "fail", f"{config.default_model} cannot be used", str(error))
    except ImportError:
        # Reported by the next check.
        pass
    return Finding("model", "ok", f"default: {describe_model(config)}")


async def _open(driver: str, settings: DriverSettings) -> None:
    async with open_driver(driver, settings):
        pass


def check_packages(driver: str) -> Iterator[Finding]:
    """Imports the package of the default driver; the others are only located, since importing takes seconds."""
    for name, package in PACKAGES.items():
        remedy = f"pip install {package}"
        try:
            installed = import_module(package) is not None if name == driver else find_spec(package) is not None
        except ImportError as error:
            yield Finding("package", "fail", f"{package} cannot be imported: {error}", remedy)
            continue
        if installed:
            yield Finding("package", "ok", f"{package} is installed")
        else:
            text = f"{package} is not installed; only {name} models need it ({remedy})"
            yield Finding("package", "ok", text)


def check_weights(config: ServerConfig, driver: str, model: str) -> Finding:
    name = (model if driver == "local" else "") or DEFAULT_MODEL
    directory = config.model_dir or default_model_dir()
    # The embedded model is optional for other drivers.
    problem: Status = "fail" if driver == "local" else "warn"
    try:
        path = weights_path(directory, name)
        complete = path is None or name not in CATALOG or is_complete(path, CATALOG[name])
    except OSError as error:
        return Finding("weights", problem, str(error), "Choose another directory with AVM_MODEL_DIR.")
    if path is None and driver != "local":
        return Finding("weights", "ok", f"{name} is not installed; {driver} models do not need it")
    if path is None:
        return Finding("weights", problem, f"{name} is not in {directory}", f"Run: {program()} {pull_command(name)}")
    if not complete:
        return Finding("weights", problem, f"{path} is damaged", f"Run: {program()} {pull_command(name)}")
    verified = ", digest verified" if name in CATALOG else ""
    return Finding("weights", "ok", f"{path} is installed{verified}")


def check_address(host: str, port: int) -> Iterator[Finding]:
    """Checks whether a server can listen on the address, and from where it is reachable."""
    if not can_bind(host, 0):
        text = f"{shorten(host)} is not an address of this machine"
        yield Finding("host", "fail", text, "For local access only: --host 127.0.0.1")
        return
    scope = f"{host} is local only" if is_loopback(host) else f"{host} is reachable from other machines"
    yield Finding("host", "ok", scope)
    yield check_port(host, port)


def check_auth(config: ServerConfig) -> Iterator[Finding]:
    """Checks whether clients need a key, and whether the keys of the server are valid."""
    if not config.authenticates:
        yield Finding("auth", "ok", AUTH_OFF)
        return
    if config.system.admin_key is not None and parse_key(config.system.admin_key.reveal()) is None:
        text, remedy = "AVM_ADMIN_KEY is not a valid key", "Create one: avm key new"
        yield Finding("auth", "fail", text, remedy)
    elif config.system.server_key is not None and not is_server_key(config.system.server_key.reveal()):
        text, remedy = "AVM_SERVER_KEY is not a valid server key", "Create one: openssl rand -hex 32"
        yield Finding("auth", "fail", text, remedy)
    else:
        yield Finding("auth", "ok", AUTH_ON)
    try:
        unpriced = describe_unpriced(config)
    except ConfigInvalid:
        return
    if unpriced is not None:
        yield Finding("price", "warn", unpriced.partition(" refused. ")[0] + " refused", unpriced.partition(" refused. ")[2])


def check_sandboxes(config: ServerConfig) -> Iterator[Finding]:
    """Starts the launcher of sandboxes as a server would, which tries every wall, and asks the other tiers."""
    # Late: no other command needs any of it.
    from agentvm.errors.tool import TierBroken
    from agentvm.tiers.launcher_host import LauncherSettings
    from agentvm.tiers.opening import probe_others
    from agentvm.tiers.probe import NO_LAUNCHER, describe, offer_of, probe
    from agentvm.tools.remote_server import open_remote_server

    jail = NO_LAUNCHER
    try:
        report = anyio.run(probe, LauncherSettings(rootfs=config.tools.rootfs, first_uid=config.tools.uids))
    except TierBroken as error:
        yield Finding("sandbox", "warn", str(error), "Code tools need Linux, or another tier; everything else works without.")
    else:
        jail = offer_of(report)
        for line in describe(report):
            yield Finding(line.name, "ok" if line.stands else "warn", line.text, line.remedy)
    for offer in anyio.run(probe_others, config, jail, open_remote_server):
        yield tier_finding(offer.tier, offer.missing, ", ".join(sorted(offer.engines)))


def tier_finding(tier: str, missing: str, text: str) -> Finding:
    """A tier that is not configured is not reported as missing."""
    if not missing:
        return Finding(f"tier {tier}", "ok", text)
    if tier == "isolate":
        return Finding("tier isolate", "ok", f"not here: {missing}")
    remedy = "Until then code that needs this tier is refused; a weaker one never replaces it."
    return Finding(f"tier {tier}", "warn", missing, remedy)


def check_port(host: str, port: int) -> Finding:
    """Checks whether a server can listen on the port, or already does."""
    if port == 0:
        return Finding("port", "ok", "any free port")
    if can_bind(host, port):
        return Finding("port", "ok", f"{host}:{port} is free")
    version = ask_health(host, port)
    if version is not None:
        return Finding("port", "ok", f"AgentVM {version} is running on {host}:{port}")
    another = 8081 if port != 8081 else 8082
    text = f"{host}:{port} is in use or not permitted"
    return Finding("port", "fail", text, f"Choose another port: --port {another}")


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
        return Finding("log", "fail", str(error), f"Set AVM_LOG_LEVEL to one of: {', '.join(LEVELS)}")
    return Finding("log", "ok", f"minimum level: {level}")


def ask_health(host: str, port: int) -> str | None:
    """The version of the AgentVM server on the port; None for another program or none."""
    reachable = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    address = f"[{reachable}]" if ":" in reachable else reachable
    try:
        # Proxies from the environment are not for this machine.
        with httpx2.Client(timeout=HEALTH_TIMEOUT_SECONDS, trust_env=False) as client:
            body = client.get(f"http://{address}:{port}/health").json()
    except (httpx2.HTTPError, httpx2.InvalidURL, ValueError, socket.gaierror):
        return None
    version = body.get("version") if isinstance(body, dict) and body.get("status") == "ok" else None
    return version if isinstance(version, str) else None
