"""Effective values — what a setting comes to when nobody has set it, or when it is set to `auto`, and why. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass

from agentvm.config.build import build
from agentvm.config.catalogue import Setting, Value
from agentvm.config.layers import Found, Values
from agentvm.config.server import ServerConfig
from agentvm.drivers.registry import default_model
from agentvm.drivers.weights import default_model_dir
from agentvm.errors import ConfigInvalid

FOREVER = "not set: kept until somebody deletes it"

_NOT_SET = {
    "llm.baseUrl": "not set: the driver's own address is used",
    "compaction.model": "not set: the model that answers the session writes its summaries",
    "retention.sessionDays": FOREVER,
    "retention.archivedDays": FOREVER,
    "retention.messageDays": FOREVER,
    "otel.endpoint": "not set: nothing is sent to a collector",
    "system.oidc.issuer": "not set: no tokens of an identity provider are accepted",
    "system.adminKey": "not set: the first start with authentication creates a key",
    "system.serverKey": "not set: the key in the data directory is used",
}

_SOURCES = {
    "default": "the default",
    "file": "set in the configuration file",
    "environment": "set by an environment variable",
    "flag": "set by a flag of avm serve",
    "code": "set by the program that started the server",
    "override": "changed while the server ran",
    "tenant": "set by the tenant",
}


@dataclass(frozen=True, slots=True)
class Effective:
    """The value that the server works with, and one sentence that says where it comes from."""

    value: Value | None
    why: str


def derive(values: Values) -> Mapping[str, Effective]:
    """The settings whose value follows from others; all else is what `explain` makes of the value itself."""
    try:
        config = build(values)
        provider, model, which = _model(config)
    except ConfigInvalid:
        # Without a server, values are shown that do not go together; nothing follows from them.
        return {}
    derived = {
        "llm.modelDir": Effective(str(default_model_dir()), "not set: the user's cache directory"),
        "llm.provider": Effective(provider, which),
        "llm.model": model,
        **_access(config),
    }
    return {key: found for key, found in derived.items() if key not in values or values[key].value == "auto"}


def explain(setting: Setting, key: str, found: Found | None, derived: Mapping[str, Effective], *, of_tenant: bool) -> Effective:
    """The effective value of one setting. A tenant is not told how the server is run."""
    if (known := derived.get(key)) is not None:
        return Effective(known.value, "chosen by the server") if of_tenant else known
    if found is None:
        why = "not set" if "*" in setting.key else _NOT_SET.get(setting.key, "not set")
        return Effective(None, why)
    return Effective(found.value, "the server's value" if of_tenant and found.layer != "tenant" else _SOURCES[found.layer])


def _model(config: ServerConfig) -> tuple[str, Effective, str]:
    provider, _, named = config.default_model.partition("/")
    driver, entry = config.driver_of(provider), config.driver_settings(provider).model
    if named:
        model = Effective(named, "named with the provider")
    elif entry is not None:
        model = Effective(entry, f"the model of llm.providers.{provider}")
    else:
        model = Effective(default_model(driver), f"not set: the default model of the driver {driver}")
    return provider, model, _why_provider(config, provider)


def _why_provider(config: ServerConfig, provider: str) -> str:
    name = config.llm_model or ""
    if name.partition("/")[0] == provider:
        return "not set: llm.model names the provider"
    if name.endswith(".gguf"):
        return "not set: llm.model is a file with weights"
    if config.llm_api_key is not None:
        return "not set: a key (llm.apiKey) without a provider is one for anthropic"
    if config.llm_base_url is not None:
        return "not set: an address (llm.baseUrl) without a provider is one that speaks like openai"
    return "not set, and neither are a model, a key or an address: the embedded model answers"


def _access(config: ServerConfig) -> dict[str, Effective]:
    asked = "on" if config.authenticates else "off"
    reach = "other machines can reach" if config.authenticates else "only this machine can reach"
    return {
        "system.auth": Effective(asked, f"auto: {reach} system.host {config.host}"),
        "billing.allowUnpriced": Effective(
            "on" if config.allows_unpriced else "off", f"auto: the opposite of authentication, which is {asked}"
        ),
    }
