"""Layers — the sources of values, and their precedence. Pure.

    default < file < environment < flag < code < override, and for a tenant: < tenant

A value knows its layer, the place where it is written, and who wrote it when. Values of a provider go with it: where a layer of
higher precedence names another one, the model, key and address of lower layers are not used, because they are for the former.
Only a variable's key and address go along with a flag's provider. For a change at run time more counts, because a key has been
used by then: also the provider that a model names, and the one that a key or an address alone implies.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from agentvm.config.catalogue import DEFAULTS, Value, find, split
from agentvm.drivers.registry import DRIVERS

LayerName = Literal["default", "file", "environment", "flag", "code", "override", "tenant"]

PROVIDER = "llm.provider"
COLLECTOR = "otel.endpoint"
PROVIDER_KEYS = ("llm.model", "llm.apiKey", "llm.baseUrl")
"""The settings that belong to the default provider."""


@dataclass(frozen=True, slots=True)
class SettingValue:
    """A value, and the place where it is written. Changes at run time have `actor` and `at`."""

    value: Value = field(repr=False)
    place: str | None = None
    actor: str | None = None
    at: int | None = None


@dataclass(frozen=True, slots=True)
class Layer:
    """The values of one source."""

    name: LayerName
    values: Mapping[str, SettingValue] = field(default_factory=dict)
    ignored: tuple[tuple[str, str], ...] = ()
    """Values of shared variables that cannot be used: the place, and why."""


@dataclass(frozen=True, slots=True)
class ResolvedValue:
    """The value with the highest precedence, and its layer."""

    layer: LayerName
    source: SettingValue

    @property
    def value(self) -> Value:
        return self.source.value


Values = Mapping[str, ResolvedValue]

DEFAULT = Layer("default", {key: SettingValue(value) for key, value in DEFAULTS.items()})


def merge(layers: Iterable[Layer]) -> dict[str, ResolvedValue]:
    """Resolves layers that are ordered by precedence, the lowest first; the defaults are below them all."""
    values: dict[str, ResolvedValue] = {}
    for layer in (DEFAULT, *layers):
        if _names_another_provider(values, layer):
            for key in PROVIDER_KEYS:
                # Variables and flags are one command line: there the key is meant for the provider of the flag.
                if not (layer.name == "flag" and key != "llm.model" and key in values and values[key].layer == "environment"):
                    values.pop(key, None)
        if COLLECTOR in values and COLLECTOR in layer.values and values[COLLECTOR].value != layer.values[COLLECTOR].value:
            # They are for the collector that is named with them.
            values.pop("otel.headers", None)
        values.update({key: ResolvedValue(layer.name, source) for key, source in layer.values.items()})
    return values


def _names_another_provider(lower: Values, layer: Layer) -> bool:
    after = layer.values.get(PROVIDER)
    if layer.name != "override":
        before = lower.get(PROVIDER)
        return before is not None and after is not None and before.value != after.value
    new = {key: source.value for key, source in layer.values.items()}
    old = {key: resolved.value for key, resolved in lower.items()}
    if PROVIDER in old and after is None:
        # Then a model's name is all its own.
        return False
    names = {*DRIVERS, *(split(key)[2] for key in (*new, *old) if key.startswith("llm.providers."))}
    provider = _implied_provider(old, names)
    other = _implied_provider({key: new[key] for key in (PROVIDER, "llm.model") if key in new}, names)
    return provider is not None and other is not None and provider != other


def _implied_provider(values: Mapping[str, Value], names: Collection[str]) -> Value | None:
    """The provider that values mean by themselves; see `ServerConfig.default_model`."""
    prefix = str(values.get("llm.model", "")).partition("/")[0]
    if PROVIDER in values:
        return values[PROVIDER]
    if prefix in names:
        return prefix
    return "anthropic" if "llm.apiKey" in values else "openai" if "llm.baseUrl" in values else None


def overlay(system: Values, tenant: Layer) -> dict[str, ResolvedValue]:
    """The values for a tenant. One that it may only lower stays below the server's value, also when that is lowered later."""
    own: dict[str, SettingValue] = {}
    for key, source in tenant.values.items():
        setting, most = find(key), system.get(key)
        if setting is None or setting.declaration.tenant == "no":
            continue
        if setting.declaration.tenant == "lower" and most is not None and not source.value <= most.value:  # type: ignore[operator]  # Numbers.
            continue
        own[key] = source
    before, after = system.get(PROVIDER), own.get(PROVIDER)
    dropped = PROVIDER_KEYS if after is not None and (before is None or before.value != after.value) else ()
    remaining = {key: resolved for key, resolved in system.items() if key not in dropped}
    return {**remaining, **{key: ResolvedValue("tenant", source) for key, source in own.items()}}


def shadowed(layers: Iterable[Layer], override: Layer) -> dict[str, ResolvedValue]:
    """The values of files, variables and flags that an override hides."""
    hidden: dict[str, ResolvedValue] = {}
    for layer in layers:
        hidden.update(
            {key: ResolvedValue(layer.name, source) for key, source in layer.values.items() if key in override.values}
        )
    return hidden


def nest(values: Mapping[str, object]) -> dict[str, Any]:
    """Dotted keys as a tree."""
    tree: dict[str, Any] = {}
    for key in values:
        *path, last = split(key)
        node = tree
        for part in path:
            node = node.setdefault(part, {})
        node[last] = values[key]
    return tree
