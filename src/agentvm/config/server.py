"""ServerConfig — the settings of a server, and the values that are derived from them.

The model that answers by default: `llm.provider` names its provider if it is set; else `--model` / `llm.model` may
(`openai/gpt-…`); else a key (`llm.apiKey`) means anthropic, a bare `llm.baseUrl` means openai; else the embedded model.
"""

import platform
from dataclasses import dataclass, field, replace
from pathlib import Path

from agentvm.config.conflicts import choice_faults, fallback_faults, provider_names, server_faults
from agentvm.config.layers import Layer
from agentvm.drivers.base import DriverSettings
from agentvm.drivers.registry import DRIVERS
from agentvm.errors import ConfigInvalid
from agentvm.model.account import Allowance, Plan
from agentvm.model.address import is_loopback
from agentvm.model.secret import Secret
from agentvm.model.setting import flatten
from agentvm.model.settings import MEMORY, LlmSettings, ProviderSettings, Settings, SystemSettings

DEFAULT_PORT = SystemSettings().port


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class ServerConfig(Settings):
    """The settings of a server. `system=SystemSettings(data_dir=MEMORY)` keeps everything in memory."""

    layers: tuple[Layer, ...] = field(default=(), compare=False, repr=False)
    """The layers that the values were loaded from, if they were."""

    def __post_init__(self) -> None:
        for key, text in server_faults(self):
            raise ConfigInvalid(f"{key}: {text}")
        if not self.billing.markup.is_finite() or self.billing.markup < 0:
            raise ConfigInvalid(f"billing.markup: it is {self.billing.markup}; it must be a number like 1.05")

    @property
    def data_dir(self) -> Path | None:
        """The data directory; None for a server that keeps everything in memory."""
        return None if self.system.data_dir == MEMORY else Path(self.system.data_dir)

    @property
    def is_durable(self) -> bool:
        """Whether the server keeps anything beyond its end."""
        return self.data_dir is not None or self.system.database is not None

    @property
    def model_dir(self) -> Path | None:
        """The directory of the embedded model's weights; None for the user's cache directory."""
        return None if self.llm.model_dir is None else Path(self.llm.model_dir)

    @property
    def address(self) -> str:
        """The address for links to the server, without a slash at the end."""
        return (self.system.public_url or f"http://localhost:{self.system.port}").rstrip("/")

    @property
    def node_name(self) -> str:
        """The name of this server among the nodes of a cluster."""
        return self.cluster.name or platform.node() or "node"

    @property
    def authenticates(self) -> bool:
        """Whether clients need a key: `auto` is on if other machines can reach the server, directly or through a proxy."""
        reachable = not is_loopback(self.system.host) or bool(self.system.trusted_proxies)
        return self.system.auth == "on" or (self.system.auth == "auto" and reachable)

    @property
    def allows_unpriced(self) -> bool:
        """Whether models without a known price may be used: `auto` is on without authentication."""
        return self.billing.allow_unpriced == "on" or (self.billing.allow_unpriced == "auto" and not self.authenticates)

    @property
    def plans_by_name(self) -> dict[str, Plan]:
        return {
            name: Plan(limits=plan.limits or Allowance(), users=plan.users or Allowance()) for name, plan in self.plans.items()
        }

    @property
    def secrets(self) -> tuple[Secret, ...]:
        """Every secret, for the log to leave out."""
        return tuple(value for _, value in flatten(self) if isinstance(value, Secret))

    @property
    def names(self) -> tuple[str, ...]:
        """The names that a model's name may begin with."""
        return provider_names(self.llm)

    @property
    def providers(self) -> dict[str, ProviderSettings]:
        """The providers to be opened. A driver that has only a key, or only `ownKeys`, is not among them."""
        return {name: provider for name, provider in self.llm.providers.items() if name not in DRIVERS or _is_opened(provider)}

    @property
    def default_model(self) -> str:
        """`<provider>/<model>` or `<provider>`; a driver is a provider of its own name."""
        model, llm = self.llm.model or "", self.llm
        for key, text in choice_faults(llm, self.names):
            raise ConfigInvalid(f"{key}: {text}")
        if llm.provider is not None:
            provider = llm.provider
        elif model.partition("/")[0] in self.names:
            return model
        elif model.endswith(".gguf"):
            provider = "local"
        elif llm.api_key is not None:
            provider = "anthropic"
        elif llm.base_url is not None:
            provider = "openai"
        else:
            provider = "local"
        if model.startswith(f"{provider}/") or model == provider:
            return model
        return f"{provider}/{model}" if model else provider

    def driver_of(self, provider: str) -> str:
        """The driver of a provider."""
        return self.llm.providers.get(provider, ProviderSettings()).driver or provider

    def driver_settings(self, name: str) -> DriverSettings:
        """The settings that a provider, or the driver of that name, is opened with."""
        chosen, _, model = self.default_model.partition("/")
        providers = self.providers
        entry = providers.get(name) or ProviderSettings()
        base_url, api_key = entry.base_url, entry.api_key
        if name == chosen or name not in providers:
            # The settings of the default provider take precedence over those of its entry.
            base_url, api_key = self.llm.base_url or base_url, self.llm.api_key or api_key
        if api_key is None and base_url is None and (driver := entry.driver or name) not in providers:
            # A driver's own key is for that driver's own address, never for another.
            api_key = self.llm.providers.get(driver, ProviderSettings()).api_key
        return DriverSettings(
            model=(model or entry.model) if chosen == name else entry.model,
            api_key=api_key,
            base_url=base_url,
            timeout=self.limits.turn_seconds,
            silence=None if entry.timeout is None else entry.timeout / 1000,
            max_calls=entry.max_concurrent,
            model_dir=self.model_dir,
        )

    def takes_own_keys(self, provider: str) -> bool:
        """Whether a tenant may use a key of its own with a provider.

        With `auto`: at a vendor's own address yes, where the key is one of the tenant's account; at an address of the
        operator's no, where any key would do and the operator bears the cost.
        """
        own_keys = self.llm.providers.get(provider, ProviderSettings()).own_keys
        if own_keys in ("on", "off"):
            return own_keys == "on"
        # The tenant's key for a provider named after its driver goes to the vendor, whatever address the server itself uses.
        return provider not in self.providers or provider in DRIVERS or self.driver_settings(provider).base_url is None

    def bystander_settings(self, name: str) -> DriverSettings:
        """The settings of a provider that is not the default one, whose key and address are not for it."""
        llm = LlmSettings(provider="local", model_dir=self.llm.model_dir, providers=self.llm.providers)
        return replace(self, llm=llm).driver_settings(name)

    @property
    def driver_settings_by_provider(self) -> dict[str, tuple[str, DriverSettings]]:
        """The providers to be opened, by name: driver and settings. The default one is first.

        The embedded model costs nothing until it is asked, so it is always on offer.
        """
        default = self.default_model.partition("/")[0]
        for key, text in fallback_faults(self.llm, self.names):
            raise ConfigInvalid(f"{key}: {text}")
        opened = {default: (self.driver_of(default), self.driver_settings(default))}
        fallbacks = (name.partition("/")[0] for name in self.llm.fallback)
        for name in dict.fromkeys((*self.providers, *fallbacks, "local")):
            if name != default:
                opened[name] = (self.driver_of(name), self.bystander_settings(name))
        return opened


def _is_opened(provider: ProviderSettings) -> bool:
    return replace(provider, api_key=None, own_keys=None) != ProviderSettings()
