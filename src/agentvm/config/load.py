"""Load — the layers that a server starts with: its file, the environment, its flags.

The file is the one that is named (`--config`, `AVM_CONFIG`), else `config.yaml` in the data directory if there is one.
Each setting has a variable by rule, `AVM_LIMITS__TURN_SECONDS` for `limits.turnSeconds`, and the usual ones a short name
besides. A variable that is empty counts as unset. What a few standard variables say, which are for other programs too
(`OTEL_EXPORTER_OTLP_ENDPOINT`), counts only where nothing else says it, not even the file; what cannot be used of them is left
aside with a warning, because whoever has set them may not know of this server.
"""

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from agentvm.config.build import MEMORY, build
from agentvm.config.catalogue import SETTINGS, Unfit, Value, convert, find, quoted, split, unknown
from agentvm.config.file import Problem, read_file, refuse
from agentvm.config.layers import COLLECTOR, Given, Layer, merge
from agentvm.config.server import ServerConfig
from agentvm.config.together import conflicts, of_collector, of_headers
from agentvm.drivers.registry import KEY_VARIABLES, needs_key
from agentvm.model.secret import Secret

FILE = "config.yaml"
DATA_DIR = "system.dataDir"

VARIABLES: dict[str, str] = {
    **{one.about.variable: key for key, one in SETTINGS.items() if one.about.variable is not None},
    **{variable: f"llm.providers.{driver}.apiKey" for driver, variable in KEY_VARIABLES.items()},
}
"""The short names, and the setting of each."""

STANDARD: dict[str, str] = {one.about.standard: key for key, one in SETTINGS.items() if one.about.standard is not None}
"""Variables that are not ours, and the setting of each."""

_BY_RULE = re.compile(r"AVM_[A-Z0-9]+__[A-Z0-9_]+")


def variable_of(key: str) -> str | None:
    """The variable of a setting by rule; None for a name that no variable can spell: of a price, or of `my-provider`."""
    parts = [re.sub(r"([A-Z])", r"_\1", part).upper() for part in key.split(".")]
    name = "AVM_" + "__".join(parts)
    return name if _BY_RULE.fullmatch(name) and _key_of(name) == key else None


def environment_layer(environ: Mapping[str, str]) -> tuple[Layer, list[Problem]]:
    named = [(variable, key) for variable, key in VARIABLES.items() if environ.get(variable)]
    named += [
        (variable, _key_of(variable)) for variable in sorted(environ) if _BY_RULE.fullmatch(variable) and environ[variable]
    ]
    return _layer_of(named, environ)


def standard_layer(environ: Mapping[str, str]) -> Layer:
    layer, problems = _layer_of([(variable, key) for variable, key in STANDARD.items() if environ.get(variable)], environ)
    problems += [
        Problem(str(given.place), key, why)
        for key, given in layer.given.items()
        for why in (*(_of_endpoint(str(given.value), environ) if key == COLLECTOR else ()), *_of_headers(given.value))
    ]
    wrong = {one.key for one in problems}
    good = {key: given for key, given in layer.given.items() if key not in wrong}
    return Layer("environment", good, tuple((one.place, one.text) for one in problems))


def _of_endpoint(endpoint: str, environ: Mapping[str, str]) -> Iterator[str]:
    yield from (why for _, why in of_collector(endpoint))
    if environ.get("OTEL_SDK_DISABLED", "").lower() == "true":
        yield "OTEL_SDK_DISABLED is true"
    if environ.get("OTEL_EXPORTER_OTLP_PROTOCOL", "").lower() == "grpc":
        yield "OTEL_EXPORTER_OTLP_PROTOCOL is grpc, and only http/protobuf is spoken here; name such a port in otel.endpoint"


def _of_headers(value: Value) -> Iterator[str]:
    return (why for _, why in of_headers(value.reveal() if isinstance(value, Secret) else None))


def _layer_of(named: Sequence[tuple[str, str]], environ: Mapping[str, str]) -> tuple[Layer, list[Problem]]:
    given: dict[str, Given] = {}
    problems: list[Problem] = []
    for variable, key in named:
        setting = find(key)
        if setting is None:
            problems.append(Problem(variable, "", unknown(key)))
            continue
        try:
            value = convert(setting, environ[variable], text=True)
        except Unfit as error:
            problems.append(Problem(variable, key, f"it is {quoted(setting, environ[variable])}; {error}"))
            continue
        if key in given:
            problems.append(Problem(variable, key, f"it is also set by {given[key].place}; unset one of them"))
        given[key] = Given(value, variable)
    return Layer("environment", given), problems


def _key_of(variable: str) -> str:
    parts = variable.removeprefix("AVM_").lower().split("__")
    if parts[:2] == ["llm", "providers"] and len(parts) > 2:
        # The name is the operator's own, so its underscores are.
        return ".".join(["llm", "providers", parts[2], *map(_camel, parts[3:])])
    if parts[0] == "plans" and len(parts) > 1:
        return ".".join(["plans", parts[1], *map(_camel, parts[2:])])
    return ".".join(map(_camel, parts))


def _camel(part: str) -> str:
    head, *tail = part.split("_")
    return head + "".join(one.capitalize() for one in tail)


def flag_layer(flags: Mapping[str, tuple[str, Value]], settings: Mapping[str, str]) -> tuple[Layer, list[Problem]]:
    """`flags` are keys with the flag's name and its value; `settings` what was given as `--set key=value`."""
    given = {key: Given(value, flag) for key, (flag, value) in flags.items()}
    problems: list[Problem] = []
    for key, text in settings.items():
        setting, place = find(key), f"--set {key}"
        if setting is None:
            problems.append(Problem("--set", key, unknown(key)))
        elif setting.about.secret:
            instead = setting.about.variable or variable_of(key) or "the configuration file"
            problems.append(Problem("--set", key, f"everybody on a machine can list flags; use {instead}"))
        else:
            try:
                given[key] = Given(convert(setting, text, text=True), place)
            except Unfit as error:
                problems.append(Problem("--set", key, f"it is {quoted(setting, text)}; {error}"))
    return Layer("flag", given), problems


def file_of(config: Path | None, environ: Mapping[str, str], others: tuple[Layer, ...]) -> tuple[Path | None, bool]:
    """The file to read, if there is one, and whether somebody named it."""
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
        # The data directory itself cannot be used; who opens it says why.
        return None, False


def layers_of(
    config: Path | None, environ: Mapping[str, str], flags: Layer | None = None
) -> tuple[tuple[Layer, ...], list[Problem]]:
    """Every layer from the file up, and what is wrong with them."""
    below = _below(environ)
    variables, problems = environment_layer(environ)
    others = (variables,) if flags is None else (variables, flags)
    path, named = file_of(config, environ, others)
    if path is None:
        return (*below, *others), problems
    file, wrong = read_file(path, environ)
    if not named and DATA_DIR in file.given:
        place = str(file.given[DATA_DIR].place)
        wrong.append(Problem(place, DATA_DIR, "this file was found in the data directory, so it cannot name it; use --config"))
    return (*below, file, *others), [*wrong, *problems]


def _below(environ: Mapping[str, str]) -> tuple[Layer, ...]:
    """What counts less than the file, if there is anything."""
    layer = standard_layer(environ)
    return (layer,) if layer.given or layer.ignored else ()


def load(
    config: Path | None = None,
    *,
    environ: Mapping[str, str] = os.environ,
    flags: Mapping[str, tuple[str, Value]] | None = None,
    settings: Mapping[str, str] | None = None,
) -> ServerConfig:
    """What a server would start with. `ConfigInvalid` names everything that is wrong."""
    given, wrong = flag_layer(flags or {}, settings or {})
    layers, problems = layers_of(config, environ, given)
    problems += wrong
    refuse([*problems, *(check_together(layers, problems) if problems else ())])
    return build(merge(layers), layers=layers)


def from_environment(environ: Mapping[str, str] = os.environ) -> ServerConfig:
    """Settings as the environment alone gives them."""
    layer, problems = environment_layer(environ)
    refuse(problems)
    layers = (*_below(environ), layer)
    return build(merge(layers), layers=layers)


def check_together(layers: tuple[Layer, ...], wrong: Sequence[Problem] = ()) -> list[Problem]:
    """What keeps values that are right one by one from being used together, also beside others that are `wrong`.

    Also a key that nobody has said, for the first of the server's providers that would not open without one.
    """
    values = merge(layers)
    parts = [split(one.key) for one in wrong]
    found = conflicts(values, besides=[part[2] for part in parts if part[:2] == ("llm", "providers") and len(part) > 2])
    excused = {one.key for one in wrong}
    found = [one for one in found if not any(key == one.key or key.startswith(f"{one.key}.") for key in excused)]
    return found if found or wrong else list(_missing_keys(build(values)))


def _missing_keys(config: ServerConfig) -> Iterator[Problem]:
    for name, (driver, settings) in config.wanted.items():
        if needs_key(driver, settings) and settings.api_key is None:
            variable = "" if name != driver else f" ({KEY_VARIABLES[driver]})"
            key = f"llm.providers.{name}.apiKey"
            yield Problem("", key, f"{name} is to be asked and needs a key; set it here{variable}")
