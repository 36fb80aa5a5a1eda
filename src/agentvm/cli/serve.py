"""avm serve — runs the server until a signal.

The first SIGINT or SIGTERM lets running turns finish; the second ends the process at once. Acknowledged data is not lost.
"""

import os
import signal
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import anyio
import anyio.to_thread
import click

from agentvm.cli import program
from agentvm.cli.options import loop_options
from agentvm.cli.server_options import configure, server_options
from agentvm.config import ServerConfig
from agentvm.drivers import demo
from agentvm.drivers.model_catalog import CATALOG, DEFAULT_MODEL, pull_command
from agentvm.drivers.ollama import OLLAMA_URL, ollama_models
from agentvm.drivers.registry import default_model
from agentvm.drivers.weights import default_model_dir, weights_path
from agentvm.model.secret import Secret
from agentvm.model.usage import NO_USAGE
from agentvm.observability.console import configure_logs
from agentvm.version import VERSION

EXAMPLES = """\b
Examples:
  avm serve                                          with the embedded model, without an API key
  LLM_API_KEY=... avm serve --model anthropic        with a provider's model
  LLM_BASE_URL=http://127.0.0.1:11434/v1 avm serve --model openai/qwen3
  avm serve --port 0 --memory                        any free port, data in memory
"""


OLLAMA_SHOWN_MAX = 3
"""Models of Ollama that a start offers."""

FIRST_KEY = "operator.key"
"""File in the data directory with the first operator key, written when stdout is not a terminal."""


@click.command(epilog=EXAMPLES)
@server_options
@click.option("--memory", is_flag=True, help="Keep all data in memory; it is lost when the server stops.")
@click.option("--no-overrides", is_flag=True, help="Ignore settings changed at run time; they are kept.")
def serve(config: Path | None, settings: tuple[str, ...], memory: bool, no_overrides: bool, **flags: Any) -> None:
    """Run the server."""
    if memory and flags["data_dir"] is not None:
        raise click.UsageError("--memory cannot be combined with --data-dir.")
    loaded = configure(config=config, settings=settings, memory=memory, **flags)
    configure_logs(loaded.system.log_level, secrets=loaded.secrets)
    # Only the owner may read the files: they contain all conversations.
    os.umask(0o077)
    anyio.run(run_server, loaded, not no_overrides, backend_options=loop_options())


async def run_server(config: ServerConfig, overrides: bool = True) -> None:
    """Serves until the first signal; returns when all data is stored."""
    from agentvm.server.collector import freeze_loaded, relax_collector
    from agentvm.server.descriptors import raise_open_files_limit

    relax_collector()
    # Late: it loads the web framework, which `avm serve --help` does not need. The collector would take a tenth of it.
    from agentvm.server.local import start_server

    raise_open_files_limit()
    with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        async with start_server(config, overrides=overrides) as server:
            freeze_loaded()
            announce(server.config, server.url, server.ws_url)
            if demo.is_demo(default_name(server.config)):
                await anyio.to_thread.run_sync(offer_models, server.config)
            show_first_key(server.first_key, server.config.data_dir, to_terminal=sys.stdout.isatty())
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(_end_with, server.wait_leaving, tasks.cancel_scope)
                async for _ in signals:
                    tasks.cancel_scope.cancel()
                    break
            # The second signal ends the process at once.
            for number in (signal.SIGINT, signal.SIGTERM):
                signal.signal(number, signal.SIG_DFL)
            seconds = server.config.system.shutdown_seconds
            click.echo(f"Stopping; running turns have {seconds:g} s to finish. Press Ctrl-C again to stop at once.")


async def _end_with(wait: Callable[[], Awaitable[None]], scope: anyio.CancelScope) -> None:
    await wait()
    scope.cancel()


def announce(config: ServerConfig, url: str, ws_url: str) -> None:
    """Prints the address, model and data directory; warnings go to stderr."""
    click.echo(f"AgentVM {VERSION} listening on {url}")
    click.echo(f"WebSocket: {ws_url}")
    click.echo(f"Model: {describe_model(config)}")
    click.echo(f"Data: {'in memory' if config.data_dir is None else config.data_dir.expanduser().absolute()}")
    if config.authenticates:
        click.echo("Authentication: on; clients need an API key")
        if unpriced := describe_unpriced(config):
            warn(unpriced)
    else:
        warn("Authentication is OFF: every program on this machine can read every session. Turn it on with --auth on.")
    if "*" in config.system.allow_origins:
        warn("WARNING: every web page may use this server. Allow only origins you trust.")
    if missing := missing_weights(config):
        warn(f"The embedded model is not installed. Run: {missing}")


def offer_models(config: ServerConfig) -> None:
    """Prints how to get better answers than those of the demo model: by models that are installed or can be."""
    click.echo(demo.NOTICE)
    directory = config.model_dir or default_model_dir()
    for model in CATALOG.values():
        if demo.is_demo(model.name):
            continue
        if weights_path(directory, model.name) is None:
            click.echo(f"  {model.about}: {program()} model pull {model.name}  ({model.needs})")
        else:
            click.echo(f"  {model.about}: {program()} serve --model local/{model.name}  (installed)")
    for name in ollama_models()[:OLLAMA_SHOWN_MAX]:
        click.echo(f"  Ollama runs on this machine: LLM_BASE_URL={OLLAMA_URL}/v1 {program()} serve --model openai/{name}")


def show_first_key(key: Secret | None, data_dir: Path | None, *, to_terminal: bool) -> None:
    """Shows the first operator key once: only its hash is stored.

    Output that is not a terminal is often a shared log, so the key then goes to a file.
    """
    if key is None:
        return
    click.echo("")
    if to_terminal or data_dir is None or (path := write_first_key(key, data_dir)) is None:
        click.echo(f"The operator's key, shown once: {key.reveal()}")
        click.echo("Store it safely: it has every permission. Try it: AVM_KEY=<key> avm whoami")
    else:
        click.echo(f"The operator's key is in {path}")
        click.echo(f"Move it to a safe place: it has every permission. Try it: {program()} whoami --key-file {path}")
    click.echo("")


def write_first_key(key: Secret, data_dir: Path) -> Path | None:
    """Writes the key to a file that only the owner can read; None on failure."""
    path = data_dir.expanduser().absolute() / FIRST_KEY
    try:
        path.unlink(missing_ok=True)
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="ascii") as file:
            file.write(f"{key.reveal()}\n")
    except OSError as error:
        warn(f"Cannot write the operator's key to {path} ({error.strerror}); it is shown here instead.")
        return None
    return path


def describe_unpriced(config: ServerConfig) -> str | None:
    """A warning when the default model has no price, so that its messages are refused; else None."""
    provider, _, model = config.default_model.partition("/")
    driver = config.driver_of(provider)
    # Late: loading the price table takes a third of a second.
    from agentvm.tenants.price import FREE, Prices

    model = model or config.driver_settings(provider).model or ""
    if config.allows_unpriced or driver in FREE or not model:
        return None
    if Prices(config.billing.prices).cost(driver, model, NO_USAGE, time.time_ns() // 1_000_000, provider) is not None:
        return None
    return (
        f"{driver}/{model} has no price, so messages to it are refused. Set its price "
        f"(billing.prices.{driver}/{model}: {{input: 0, output: 0}}), or allow models without one (billing.allowUnpriced: on)."
    )


def describe_model(config: ServerConfig) -> str:
    """The default model with its provider's address and whether an API key is set."""
    provider, _, model = config.default_model.partition("/")
    driver, settings = config.driver_of(provider), config.driver_settings(provider)
    model = model or settings.model or default_model(driver) or ""
    name = f"{provider}/{model}" if model else provider
    if driver == "local":
        return f"{name} (embedded, no API key needed)"
    if driver == "scripted":
        return f"{provider} (echoes messages)"
    where = "" if settings.base_url is None else f" at {without_credentials(settings.base_url)}"
    key = "without an API key" if settings.api_key is None else "with an API key"
    return f"{name} ({key}{where})"


def without_credentials(url: str) -> str:
    """The URL without user, password, query and fragment."""
    parts = urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2], query="", fragment="").geturl()


def missing_weights(config: ServerConfig) -> str | None:
    """The command that installs the default model, if it is embedded and missing."""
    name = default_name(config)
    if name is None or weights_path(config.model_dir or default_model_dir(), name) is not None:
        return None
    return f"{program()} {pull_command(name)}"


def default_name(config: ServerConfig) -> str | None:
    """Returns the name of the default model if it is an embedded one."""
    provider, _, model = config.default_model.partition("/")
    name = model or config.driver_settings(provider).model or DEFAULT_MODEL
    return name if config.driver_of(provider) == "local" else None


def warn(text: str) -> None:
    click.secho(text, fg="yellow", bold=True, err=True)
