"""Layers — where values come from, and which of them counts. Pure.

    default < file < environment < flag < code < override, and for a tenant: < tenant

A value knows its layer, the place it was given at, and who gave it when. What is said of a provider goes with it: where a
stronger layer names another one, the weaker layers' model, key and address are not used, because they are for the former.
Only a variable's key and address go along with a flag's provider. A change at run time is held to more, because a key has been
used by then: it also counts whom a model names, and whom a key or an address alone has meant.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from agentvm.config.catalogue import DEFAULTS, Value, find, shown, split
from agentvm.drivers.registry import DRIVERS

LayerName = Literal["default", "file", "environment", "flag", "code", "override", "tenant"]

PROVIDER = "llm.provider"
COLLECTOR = "otel.endpoint"
ITS_OWN = ("llm.model", "llm.apiKey", "llm.baseUrl")


@dataclass(frozen=True, slots=True)
class Given:
    """A value, and where it was given. `actor` and `at` are known of changes at run time. An address may carry credentials."""

    value: Value = field(repr=False)
    place: str | None = None
    actor: str | None = None
    at: int | None = None


@dataclass(frozen=True, slots=True)
class Layer:
    """What one source says."""

    name: LayerName
    given: Mapping[str, Given] = field(default_factory=dict)
    ignored: tuple[tuple[str, str], ...] = ()
    """What it says that is of no use here: the place, and why. For variables of other programs, which are no error of ours."""


@dataclass(frozen=True, slots=True)
class Found:
    """The value that counts, and the layer it is from."""

    layer: LayerName
    given: Given

    @property
    def value(self) -> Value:
        return self.given.value


Values = Mapping[str, Found]

DEFAULT = Layer("default", {key: Given(value) for key, value in DEFAULTS.items()})


def merge(layers: Iterable[Layer]) -> dict[str, Found]:
    """What counts of layers that are given from the weakest on; the defaults are below them all."""
    found: dict[str, Found] = {}
    for layer in (DEFAULT, *layers):
        if _is_another(found, layer):
            for key in ITS_OWN:
                # Variables and flags are one command line: there the key is meant for whomever the flag names.
                if not (layer.name == "flag" and key != "llm.model" and key in found and found[key].layer == "environment"):
                    found.pop(key, None)
        if COLLECTOR in found and COLLECTOR in layer.given and found[COLLECTOR].value != layer.given[COLLECTOR].value:
            # They are for the collector that is named with them.
            found.pop("otel.headers", None)
        found.update({key: Found(layer.name, given) for key, given in layer.given.items()})
    return found


def _is_another(found: Values, layer: Layer) -> bool:
    """Whether a layer names another provider than those below it."""
    after = layer.given.get(PROVIDER)
    if layer.name != "override":
        before = found.get(PROVIDER)
        return before is not None and after is not None and before.value != after.value
    given = {key: one.value for key, one in layer.given.items()}
    known = {key: one.value for key, one in found.items()}
    if PROVIDER in known and after is None:
        # Then a model's name is all its own.
        return False
    names = {*DRIVERS, *(split(key)[2] for key in (*given, *known) if key.startswith("llm.providers."))}
    one, other = _named(known, names), _named({key: given[key] for key in (PROVIDER, "llm.model") if key in given}, names)
    return one is not None and other is not None and one != other


def _named(values: Mapping[str, Value], names: Collection[str]) -> Value | None:
    """Whom values mean by themselves; see `ServerConfig.default_model`."""
    prefix = str(values.get("llm.model", "")).partition("/")[0]
    if PROVIDER in values:
        return values[PROVIDER]
    if prefix in names:
        return prefix
    return "anthropic" if "llm.apiKey" in values else "openai" if "llm.baseUrl" in values else None


def overlay(system: Values, tenant: Layer) -> dict[str, Found]:
    """What counts for a tenant. What it may only lower stays below the server's own value, also when that is lowered later."""
    own: dict[str, Given] = {}
    for key, given in tenant.given.items():
        setting, most = find(key), system.get(key)
        if setting is None or setting.about.tenant == "no":
            continue
        if setting.about.tenant == "lower" and most is not None and not given.value <= most.value:  # type: ignore[operator]  # Numbers.
            continue
        own[key] = given
    before, after = system.get(PROVIDER), own.get(PROVIDER)
    dropped = ITS_OWN if after is not None and (before is None or before.value != after.value) else ()
    kept = {key: found for key, found in system.items() if key not in dropped}
    return {**kept, **{key: Found("tenant", given) for key, given in own.items()}}


def shadowed(layers: Iterable[Layer], override: Layer) -> dict[str, Found]:
    """What an override hides that somebody wrote into a file, a variable or a flag."""
    found: dict[str, Found] = {}
    for layer in layers:
        found.update({key: Found(layer.name, given) for key, given in layer.given.items() if key in override.given})
    return found


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


def show(values: Values) -> dict[str, Any]:
    """The tree that counts, for eyes."""
    return nest({key: shown(setting, found.value) for key, found in values.items() if (setting := find(key)) is not None})
