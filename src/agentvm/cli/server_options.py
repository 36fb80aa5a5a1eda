"""Server options — the flags that configure a server, as the settings declare them."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from agentvm.model.setting import Setting, declared_settings
from agentvm.model.settings import MEMORY, Settings

if TYPE_CHECKING:
    from agentvm.config import ServerConfig
    from agentvm.config.catalogue import Value

C = TypeVar("C", bound=Callable[..., Any])

FLAGS = {setting.name: setting for setting in declared_settings(Settings) if setting.declaration.flag is not None}
"""The settings that have a flag, by the name of its parameter."""


def flag_help(setting: Setting) -> str:
    """The help of a flag: the setting's sentence, its variable and its default."""
    sentence = setting.doc.removesuffix(".").replace("`", "") + ("; repeatable" if setting.is_list else "")
    default = f"; default: {setting.default}" if setting.default else ""
    return f"{sentence} ({setting.declaration.variable}{default})."


def flag_option(name: str) -> Callable[[C], C]:
    """The option of a setting, by the name of its field."""
    setting = FLAGS[name]
    kind: click.ParamType[Any] | None = None
    if setting.declaration.metavar == "PATH":
        kind = click.Path()
    elif setting.options:
        kind = click.Choice(setting.options)
    elif setting.kind in (int, float):
        kind = (click.IntRange if setting.kind is int else click.FloatRange)(*setting.bounds)
    metavar = None if kind is not None else setting.declaration.metavar
    return click.option(
        str(setting.declaration.flag), name, type=kind, multiple=setting.is_list, metavar=metavar, help=flag_help(setting)
    )


data_dir_option = flag_option("data_dir")
config_option = click.option(
    "--config",
    type=click.Path(path_type=Path),
    help="Configuration file (AVM_CONFIG; default: config.yaml in the data directory).",
)
set_option = click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="KEY=VALUE",
    help="Any setting except secrets: limits.steps=10; repeatable.",
)


def server_options(command: C) -> C:
    """Adds the flags that configure a server."""
    command = set_option(config_option(command))
    for name in reversed(FLAGS):
        command = flag_option(name)(command)
    return command


def configure(
    *, config: Path | None = None, settings: tuple[str, ...] = (), memory: bool = False, **values: "Value | None"
) -> "ServerConfig":
    """Loads the settings from file and environment; flags, by the names of their settings, take precedence over both."""
    # Late: a command that only asks a server needs no settings.
    from agentvm.config import load
    from agentvm.drivers.registry import DRIVERS

    flags = {
        FLAGS[name].key: (str(FLAGS[name].declaration.flag), value)
        for name, value in values.items()
        if value is not None and value != ()
    }
    if memory:
        flags[FLAGS["data_dir"].key] = ("--memory", MEMORY)
    if (provider := str(values.get("model")).partition("/")[0]) in DRIVERS:
        # A flag that names a driver takes precedence over LLM_PROVIDER.
        flags["llm.provider"] = ("--model", provider)
    return load(config, flags=flags, settings=parse_settings(settings))


def parse_settings(pairs: tuple[str, ...]) -> dict[str, str]:
    """The pairs of `--set key=value`, each key once."""
    values: dict[str, str] = {}
    for pair in pairs:
        key, sign, value = pair.partition("=")
        if not sign or not value:
            # The value is not printed: it may be a secret.
            raise click.UsageError(f"--set {key} must be like --set limits.steps=10")
        if key in values:
            raise click.UsageError(f"--set {key} is specified twice")
        values[key] = value
    return values
