"""Options — the settings that commands share: flags, laid over what the environment says."""

from collections.abc import Callable
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal, TypeVar

import click

from agentvm.config import ServerConfig, from_environment
from agentvm.drivers.registry import DRIVERS

C = TypeVar("C", bound=Callable[..., Any])

MODEL_HELP = "Model that answers: <driver>/<model> or <driver> (LLM_MODEL)."

host_option = click.option("--host", help="Address to listen on (AVM_HOST; 127.0.0.1).")
port_option = click.option("--port", type=click.IntRange(0, 65535), help="Port; 0 for any free one (AVM_PORT; 8080).")
data_dir_option = click.option(
    "--data-dir", type=click.Path(path_type=Path), help="Where data is kept (AVM_DATA_DIR; ~/.agentvm)."
)
model_option = click.option("--model", help=MODEL_HELP)


def server_options(command: C) -> C:
    """The flags that say what a server would be."""
    for option in (model_option, data_dir_option, port_option, host_option):
        command = option(command)
    return command


def configure(
    *,
    host: str | None = None,
    port: int | None = None,
    data_dir: Path | None = None,
    model: str | None = None,
    auth: Literal["on", "off"] | None = None,
) -> ServerConfig:
    """What the environment says, with the flags that were given laid over it."""
    config = from_environment()
    if auth is not None:
        # Before the host: whether the two go together is checked when both are known.
        config = replace(config, auth=None)
    if host is not None:
        config = replace(config, host=host)
    if auth is not None:
        config = replace(config, auth=auth)
    if port is not None:
        config = replace(config, port=port)
    if data_dir is not None:
        config = replace(config, data_dir=data_dir)
    if model is not None:
        # A flag that names its driver outweighs a variable that names another.
        named = model.partition("/")[0] in DRIVERS
        config = replace(config, llm_model=model, llm_provider=None if named else config.llm_provider)
    return config


def loop_options() -> dict[str, Any]:
    """The event loop's, for anyio: uvloop where it is installed."""
    return {"use_uvloop": find_spec("uvloop") is not None}
