"""Effective values — the value that the server works with for every setting, its source, and the reason.

A value is set in a layer, or it is the default, or it is derived from other settings, or the setting is unset, with a sentence
about the effect.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from agentvm.config.build import build
from agentvm.config.catalogue import Value
from agentvm.config.layers import ResolvedValue, Values
from agentvm.config.server import ServerConfig
from agentvm.drivers.registry import default_model
from agentvm.drivers.weights import default_model_dir
from agentvm.errors import ConfigInvalid
from agentvm.model.setting import Setting
from agentvm.tiers.base import default_slots

DERIVED, UNSET = "derived", "unset"

_REASONS = {
    "default": "the default",
    "file": "set in the configuration file",
    "environment": "set by an environment variable",
    "flag": "set by a flag of avm serve",
    "code": "set by the program that started the server",
    "override": "changed while the server ran",
    "tenant": "set by the tenant",
}


@dataclass(frozen=True, slots=True)
class EffectiveValue:
    """The value that the server works with, where it is from, and why. `source` is a layer, `derived` or `unset`."""

    value: Value | None
    source: str
    why: str


def derive(values: Values) -> Mapping[str, EffectiveValue]:
    """The settings whose value follows from others."""
    try:
        config = build(values)
        provider, model = _default_model(config)
    except ConfigInvalid:
        # Conflicting values can be shown without a server; nothing follows from them.
        return {}
    derived = {
        "llm.modelDir": (str(default_model_dir()), "not set, so the user's cache directory"),
        "llm.provider": provider,
        "llm.model": model,
        "system.publicUrl": (config.address, "not set, so the port of this machine"),
        "cluster.name": (config.node_name, "not set, so the name of the machine"),
        "tools.slots": (default_slots(), "not set, so two for each core"),
        **_access(config),
        **{key: value for name in config.llm.providers for key, value in _provider(config, name)},
    }
    return {
        key: EffectiveValue(value, DERIVED, f"derived: {why}")
        for key, (value, why) in derived.items()
        if key not in values or values[key].value == "auto"
    }


def explain(
    setting: Setting, key: str, resolved: ResolvedValue | None, derived: Mapping[str, EffectiveValue], *, of_tenant: bool
) -> EffectiveValue:
    """The effective value of one setting. A tenant does not learn how the server is run."""
    if (value := derived.get(key)) is not None:
        return EffectiveValue(value.value, DERIVED, "chosen by the server") if of_tenant else value
    if resolved is None:
        effect = setting.declaration.unset
        return EffectiveValue(None, UNSET, "not set" if effect is None else f"not set: {effect}")
    if of_tenant and resolved.layer != "tenant":
        return EffectiveValue(resolved.value, "server", "the server's value")
    return EffectiveValue(resolved.value, resolved.layer, _REASONS[resolved.layer])


def _default_model(config: ServerConfig) -> tuple[tuple[str, str], tuple[str | None, str]]:
    """The provider and the model that answer by default, each with the reason."""
    provider, _, named = config.default_model.partition("/")
    why = _why_provider(config, provider)
    driver, model = config.driver_of(provider), config.driver_settings(provider).model
    if named:
        return (provider, why), (named, "named with the provider")
    if model is not None:
        return (provider, why), (model, f"the model of llm.providers.{provider}")
    because = f"llm.provider is {provider}" if config.llm.provider == provider else why
    return (provider, why), (default_model(driver), f"{because}; its default model")


def _provider(config: ServerConfig, name: str) -> Iterator[tuple[str, tuple[Value | None, str]]]:
    """The values that follow for a provider that the operator has configured."""
    prefix, driver = f"llm.providers.{name}", config.driver_of(name)
    yield f"{prefix}.driver", (driver, "not set, so its name")
    yield f"{prefix}.model", (default_model(driver), f"not set, so the default model of {driver}")
    yield f"{prefix}.timeout", (config.defaults.timeout, "not set, so defaults.timeout")
    yield f"{prefix}.ownKeys", ("on" if config.takes_own_keys(name) else "off", "auto: on unless baseUrl is set")


def _why_provider(config: ServerConfig, provider: str) -> str:
    name = config.llm.model or ""
    if name.partition("/")[0] == provider:
        return "llm.model names the provider"
    if name.endswith(".gguf"):
        return "llm.model is a file with weights"
    if config.llm.api_key is not None:
        return "llm.apiKey is set without a provider, so it is a key for anthropic"
    if config.llm.base_url is not None:
        return "llm.baseUrl is set without a provider, so the address is used as openai's"
    return "no provider, model, key or address is configured, so the embedded model answers"


def _access(config: ServerConfig) -> dict[str, tuple[str | None, str]]:
    auth = "on" if config.authenticates else "off"
    reach = "other machines can reach" if config.authenticates else "only this machine can reach"
    return {
        "system.auth": (auth, f"auto, and {reach} system.host {config.system.host}"),
        "billing.allowUnpriced": (
            "on" if config.allows_unpriced else "off",
            f"auto, the opposite of authentication, which is {auth}",
        ),
    }
