"""Load — the layers that a server starts with: its file, the environment, its flags.

The file is the one that is named (`--config`, `AVM_CONFIG`), else `config.yaml` in the data directory if it exists. A setting
has a variable by rule, `AVM_LIMITS__TURN_SECONDS` for `limits.turnSeconds`, and the usual ones a short name besides. An empty
variable counts as unset. A few variables are shared with other programs (`OTEL_EXPORTER_OTLP_ENDPOINT`): every other source
takes precedence over them, even the file, and an invalid one is ignored with a warning, because it may not be meant for this
server.
"""

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from agentvm.config.build import build, conflicts
from agentvm.config.catalogue import SETTINGS, InvalidValue, Value, convert, describe_error, find, key_of, split, unknown
from agentvm.config.conflicts import collector_faults
from agentvm.config.file import Problem, read_file, refuse
from agentvm.config.layers import COLLECTOR, Layer, SettingValue, merge
from agentvm.config.server import ServerConfig
from agentvm.drivers.registry import KEY_VARIABLES, needs_key
from agentvm.model.secret import Secret
from agentvm.model.settings import MEMORY, OtelSettings

FILE = "config.yaml"
DATA_DIR, DATABASE_URL = "system.dataDir", "system.database"

VARIABLES: dict[str, str] = {
    **{setting.declaration.variable: key for key, setting in SETTINGS.items() if setting.declaration.variable is not None},
    **{variable: f"llm.providers.{driver}.apiKey" for driver, variable in KEY_VARIABLES.items()},
}
"""The settings by the short names of their variables."""

SHARED_VARIABLES: dict[str, str] = {
    setting.declaration.shared_variable: key
    for key, setting in SETTINGS.items()
    if setting.declaration.shared_variable is not None
}
"""The settings by the variables that other programs read too."""

_BY_RULE = re.compile(r"AVM_[A-Z0-9]+__[A-Z0-9_]+")


def variable_of(key: str) -> str | None:
    """The variable of a setting by rule; None for a name that no variable can spell: of a price, or of `my-provider`."""
    parts = [re.sub(r"([A-Z])", r"_\1", part).upper() for part in key.split(".")]
    name = "AVM_" + "__".join(parts)
    return name if _BY_RULE.fullmatch(name) and _key_of(name) == key else None


def environment_layer(environ: Mapping[str, str]) -> tuple[Layer, list[Problem]]:
    """The values of variables, and their errors."""
    named = [(variable, key) for variable, key in VARIABLES.items() if environ.get(variable)]
    named += [
        (variable, _key_of(variable)) for variable in sorted(environ) if _BY_RULE.fullmatch(variable) and environ[variable]
    ]
    return _layer_of(named, environ)


def shared_layer(environ: Mapping[str, str]) -> Layer:
    """The values of shared variables; invalid ones are ignored."""
    layer, problems = _layer_of([(name, key) for name, key in SHARED_VARIABLES.items() if environ.get(name)], environ)
    problems += [
        Problem(str(source.place), key, text)
        for key, source in layer.values.items()
        for text in _collector_problems(key, source.value, environ)
    ]
    invalid = {problem.key for problem in problems}
    valid = {key: source for key, source in layer.values.items() if key not in invalid}
    return Layer("environment", valid, tuple((problem.place, problem.text) for problem in problems))


def _collector_problems(key: str, value: Value, environ: Mapping[str, str]) -> Iterator[str]:
    if isinstance(value, Secret):
        yield from (text for _, text in collector_faults(OtelSettings(headers=value)))
    if key != COLLECTOR:
        return
    yield from (text for _, text in collector_faults(OtelSettings(endpoint=str(value))))
    if environ.get("OTEL_SDK_DISABLED", "").lower() == "true":
        yield "OTEL_SDK_DISABLED is true"
    if environ.get("OTEL_EXPORTER_OTLP_PROTOCOL", "").lower() == "grpc":
        yield "OTEL_EXPORTER_OTLP_PROTOCOL is grpc, and only http/protobuf is supported; name such a port in otel.endpoint"


def _layer_of(named: Sequence[tuple[str, str]], environ: Mapping[str, str]) -> tuple[Layer, list[Problem]]:
    values: dict[str, SettingValue] = {}
    problems: list[Problem] = []
    for variable, key in named:
        setting = find(key)
        if setting is None:
            problems.append(Problem(variable, "", unknown(key)))
            continue
        try:
            value = convert(setting, environ[variable], text=True)
        except InvalidValue as error:
            problems.append(Problem(variable, key, describe_error(setting, environ[variable], error)))
            continue
        if key in values:
            problems.append(Problem(variable, key, f"it is also set by {values[key].place}; unset one of them"))
        values[key] = SettingValue(value, variable)
    return Layer("environment", values), problems


def _key_of(variable: str) -> str:
    return key_of(variable.removeprefix("AVM_").lower().split("__"))


def flag_layer(flags: Mapping[str, tuple[str, Value]], settings: Mapping[str, str]) -> tuple[Layer, list[Problem]]:
    """The values of flags, by key with the flag's name, and of `--set key=value`, and their errors."""
    values = {key: SettingValue(value, flag) for key, (flag, value) in flags.items()}
    problems: list[Problem] = []
    for key, text in settings.items():
        setting, place = find(key), f"--set {key}"
        if setting is None:
            problems.append(Problem("--set", key, unknown(key)))
        elif setting.is_secret:
            instead = setting.declaration.variable or variable_of(key) or "the configuration file"
            problems.append(Problem("--set", key, f"everybody on a machine can list flags; use {instead}"))
        else:
            try:
                values[key] = SettingValue(convert(setting, text, text=True), place)
            except InvalidValue as error:
                problems.append(Problem("--set", key, describe_error(setting, text, error)))
    return Layer("flag", values), problems


def file_of(config: Path | None, environ: Mapping[str, str], others: tuple[Layer, ...]) -> tuple[Path | None, bool]:
    """The file to read, if there is one, and whether it was named."""
    if config is not None:
        return config, True
    if named := environ.get("AVM_CONFIG"):
        return Path(named), True
    data_dir = str(merge(others)[DATA_DIR].value)
    if data_dir == MEMORY:
        return None, False
    try:
        path = Path(data_dir).expanduser() / FILE
        return (path, False) if path.exists() else (None, False)
    except (OSError, RuntimeError):
        # The data directory itself cannot be used; opening it reports why.
        return None, False


def layers_of(
    config: Path | None, environ: Mapping[str, str], flags: Layer | None = None
) -> tuple[tuple[Layer, ...], list[Problem]]:
    """Every layer from the file up, and their errors."""
    below = _below_file(environ)
    variables, problems = environment_layer(environ)
    others = (variables,) if flags is None else (variables, flags)
    path, named = file_of(config, environ, others)
    if path is None:
        return (*below, *others), problems
    file, file_problems = read_file(path, environ)
    if not named and DATA_DIR in file.values:
        place = str(file.values[DATA_DIR].place)
        text = "this file was found in the data directory, so it cannot name it; use --config"
        file_problems.append(Problem(place, DATA_DIR, text))
    return (*below, file, *others), [*file_problems, *problems]


def _below_file(environ: Mapping[str, str]) -> tuple[Layer, ...]:
    layer = shared_layer(environ)
    return (layer,) if layer.values or layer.ignored else ()


def load(
    config: Path | None = None,
    *,
    environ: Mapping[str, str] = os.environ,
    flags: Mapping[str, tuple[str, Value]] | None = None,
    settings: Mapping[str, str] | None = None,
) -> ServerConfig:
    """The config that a server would start with. `ConfigInvalid` names every error."""
    layer, flag_problems = flag_layer(flags or {}, settings or {})
    layers, problems = layers_of(config, environ, layer)
    problems += flag_problems
    refuse([*problems, *(check_conflicts(layers, problems) if problems else ())])
    return build(merge(layers), layers=layers)


def from_environment(environ: Mapping[str, str] = os.environ) -> ServerConfig:
    """The config of the environment alone."""
    layer, problems = environment_layer(environ)
    refuse(problems)
    layers = (*_below_file(environ), layer)
    return build(merge(layers), layers=layers)


def check_conflicts(layers: tuple[Layer, ...], problems: Sequence[Problem] = ()) -> list[Problem]:
    """The reasons why valid values cannot be used together, besides the `problems` of invalid ones.

    If there are none of either, also the missing keys of providers that would not open without one.
    """
    values = merge(layers)
    parts = [split(problem.key) for problem in problems]
    unread = [part[2] for part in parts if part[:2] == ("llm", "providers") and len(part) > 2]
    invalid = {problem.key for problem in problems}
    further = [
        problem
        for problem in conflicts(values, unread)
        if not any(key == problem.key or key.startswith(f"{problem.key}.") for key in invalid)
    ]
    return further if further or problems else list(_missing_keys(build(values)))


def _missing_keys(config: ServerConfig) -> Iterator[Problem]:
    for name, (driver, settings) in config.driver_settings_by_provider.items():
        if needs_key(driver, settings) and settings.api_key is None:
            variable = "" if name != driver else f" ({KEY_VARIABLES[driver]})"
            yield Problem("", f"llm.providers.{name}.apiKey", f"{name} is used and needs a key; set it here{variable}")
