"""Checks — what `avm doctor` looks at. Each looks without changing anything and says what to do about what it finds."""

import os
import platform
import socket
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

import apsw
import httpx2

from agentvm.cli.model import is_whole
from agentvm.config import ServerConfig
from agentvm.drivers.registry import KEY_VARIABLES, needs_key
from agentvm.drivers.weights import DEFAULT_MODEL, default_model_dir, weights_path
from agentvm.errors import AgentVMError, ConfigInvalid, DataDirInUse
from agentvm.storage.sqlite.datadir import lock_data_dir

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
    yield Finding(name="sqlite", status="ok", text=f"SQLite {apsw.sqlite_lib_version()}")
    yield check_data_dir(config.data_dir)
    try:
        driver, _, model = config.default_model.partition("/")
    except ConfigInvalid as error:
        yield Finding(name="model", status="fail", text=str(error), remedy="Set LLM_PROVIDER or --model accordingly.")
    else:
        yield check_model(config, driver)
        yield from check_packages(driver)
        yield check_weights(config, driver, model)
    yield check_port(config.host, config.port)


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
        if parent.is_dir() and os.access(parent, os.W_OK):
            return Finding(name="data", status="ok", text=f"{directory} will be created")
        return Finding(
            name="data", status="fail", text=f"{directory} cannot be created", remedy="Choose another one with --data-dir."
        )
    try:
        with lock_data_dir(directory):
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


def check_model(config: ServerConfig, driver: str) -> Finding:
    text = f"{config.default_model} answers by default"
    settings = config.driver_settings(driver)
    if settings.api_key is not None and driver in KEY_VARIABLES:
        return Finding(name="model", status="ok", text=f"{text}, with an API key")
    if not needs_key(driver, settings):
        return Finding(name="model", status="ok", text=f"{text}; it needs no API key")
    return Finding(
        name="model",
        status="fail",
        text=f"{text}, but there is no API key for it",
        remedy=f"Set LLM_API_KEY or {KEY_VARIABLES[driver]}, or use the embedded model: --model local",
    )


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
            yield Finding(name="package", status="warn", text=f"{package} is not installed, for {name} models", remedy=remedy)


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
    if path is None:
        source = "" if wanted == DEFAULT_MODEL else " <URL or path of its GGUF file>"
        return Finding(
            name="weights", status=problem, text=f"{wanted} is not in {directory}", remedy=f"Run: avm model pull{source}"
        )
    if not whole:
        return Finding(name="weights", status=problem, text=f"{path} is damaged", remedy="Run: avm model pull")
    verified = ", its digest is right" if wanted == DEFAULT_MODEL else ""
    return Finding(name="weights", status="ok", text=f"{path} is there{verified}")


def check_port(host: str, port: int) -> Finding:
    """Whether a server could listen there, or already does."""
    from agentvm.server.serving import bind

    if port == 0:
        return Finding(name="port", status="ok", text="any free port")
    try:
        with bind(host, port):
            return Finding(name="port", status="ok", text=f"{host}:{port} is free")
    except ConfigInvalid as error:
        problem: AgentVMError = error
    version = ask_health(host, port)
    if version is not None:
        return Finding(name="port", status="ok", text=f"AgentVM {version} is running on {host}:{port}")
    return Finding(name="port", status="fail", text=str(problem), remedy="Choose another one: --port 8081")


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
