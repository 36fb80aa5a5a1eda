"""ServerConfig — what a server is told, in Python.

Which model answers by default: `llm.provider` names who answers if it is set; else `--model` / `llm.model` may
(`openai/gpt-…`); else a key (`llm.apiKey`) means anthropic, a bare `llm.baseUrl` means openai; else the embedded model.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from pathlib import Path
from typing import Literal

from agentvm.config.layers import Layer
from agentvm.config.together import (
    of_access,
    of_choice,
    of_collector,
    of_fallback,
    of_headers,
    of_origins,
    of_proxies,
    of_tokens,
)
from agentvm.drivers.base import DriverSettings
from agentvm.drivers.registry import DRIVERS
from agentvm.errors import ConfigInvalid
from agentvm.model.account import Plan
from agentvm.model.address import is_loopback
from agentvm.model.limits import Limits
from agentvm.model.money import ModelRate
from agentvm.model.retention import Retention
from agentvm.model.secret import Secret

TitlesBy = Literal["model", "first-words", "off"]

DEFAULT_PORT = 8080
DEFAULT_DATA_DIR = Path("~/.agentvm")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderConfig:
    """One of several providers, under a name of the operator's own."""

    driver: str
    model: str | None = None
    api_key: Secret | None = None
    base_url: str | None = field(default=None, repr=False)
    """Not shown: it may carry credentials."""
    timeout: float | None = None
    """Seconds that it may be silent; None for what the turn's own limits say."""
    max_concurrent: int | None = None
    """Model calls at a time, of all tenants together."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OtelConfig:
    """The OpenTelemetry collector that traces and metrics are sent to; nothing is sent without an endpoint."""

    endpoint: str | None = field(default=None, repr=False)
    """Not shown: it may carry credentials."""
    headers: Secret | None = None
    """As `name=value,name=value`, the values encoded as in a URL."""
    service_name: str = "agentvm"
    traces: bool = True
    metrics: bool = True
    sample_ratio: float = 1.0
    """The part of all turns that are sent as traces."""
    export_seconds: float = 15.0

    def __post_init__(self) -> None:
        faults = (*of_collector(self.endpoint), *of_headers(None if self.headers is None else self.headers.reveal()))
        for key, text in faults:
            raise ConfigInvalid(f"{key}: {text}")


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerConfig:
    """What a server can be told. `data_dir=None` keeps everything in memory."""

    host: str = "127.0.0.1"
    port: int = DEFAULT_PORT
    data_dir: Path | None = DEFAULT_DATA_DIR
    llm_provider: str | None = None
    llm_model: str | None = None
    llm_api_key: Secret | None = None
    llm_base_url: str | None = field(default=None, repr=False)
    provider_keys: Mapping[str, Secret] = field(default_factory=dict)
    """Keys by driver, for those that `llm_api_key` does not serve."""
    providers: Mapping[str, ProviderConfig] = field(default_factory=dict)
    """Providers by names of your own, for `llm_provider`, `fallback`, and images that name them."""
    own_keys: Mapping[str, bool] = field(default_factory=dict)
    """Whether tenants may use a key of their own, by provider; where it is not said, see `takes_own_keys`."""
    fallback: tuple[str, ...] = ()
    """Who is asked, in this order, when the default provider is out."""
    model_dir: Path | None = None
    """Where the embedded model's weights are; None for the user's cache directory."""
    allow_origins: tuple[str, ...] = ()
    """Web pages of these origins may open a socket, besides those of this machine and of the server's own host; `*` for all."""
    trusted_proxies: tuple[str, ...] = ()
    """Addresses or networks of proxies whose `X-Forwarded-For` and the like are believed."""
    grace: float = 10.0
    """Seconds that running turns get to finish at shutdown."""
    log_level: str = "info"
    log_file: bool = True
    """Whether the log is kept in files of the data directory."""
    log_file_bytes: int = 10 * 1024**2
    log_files: int = 5
    auth: Literal["on", "off"] | None = None
    """Whether peers must say who they are. None: unless only this machine can reach the server."""
    admin_key: Secret | None = None
    """The operator's key; None lets the first start make one."""
    server_key: Secret | None = None
    """What keys are hashed and secrets are sealed with; None for the one in the data directory."""
    oidc_issuer: str | None = None
    """Tokens of this identity provider are accepted besides keys."""
    oidc_audience: str | None = None
    oidc_jwks_url: str | None = field(default=None, repr=False)
    """Where its keys are, if it does not say so itself."""
    oidc_tenant_claim: str = "tenant"
    markup: Decimal = Decimal("1.05")
    """What is charged for a dollar of a provider's tokens."""
    prices: Mapping[str, ModelRate] = field(default_factory=dict)
    """Prices of your own, by `<driver>/<model>` or `<driver>`; they go before the table."""
    allow_unpriced: bool | None = None
    """Whether a model may be used whose price nobody knows. None: when nobody has to say who they are."""
    plans: Mapping[str, Plan] = field(default_factory=dict)
    """Plans of your own, or in the place of those that there are: see `agentvm.tenants.plans`."""
    titles: TitlesBy = "first-words"
    """How a session without a title gets one after its first exchange."""
    otel: OtelConfig = OtelConfig()
    retention: Retention = field(default_factory=Retention)
    """How long what was said is kept, unless a tenant says otherwise."""
    limits: Limits = field(default_factory=Limits)
    layers: tuple[Layer, ...] = field(default=(), compare=False, repr=False)
    """Where the values come from, if they were loaded."""

    def __post_init__(self) -> None:
        # A newcomer passes a string; what it means is plain.
        if self.data_dir is not None:
            object.__setattr__(self, "data_dir", Path(self.data_dir))
        if self.model_dir is not None:
            object.__setattr__(self, "model_dir", Path(self.model_dir))
        faults = (
            *of_access(self.auth, self.host, self.trusted_proxies),
            *of_tokens(self.oidc_issuer, self.oidc_audience),
            *of_origins(self.allow_origins),
            *of_proxies(self.trusted_proxies),
        )
        for key, text in faults:
            raise ConfigInvalid(f"{key}: {text}")
        if not self.markup.is_finite() or self.markup < 0:
            raise ConfigInvalid(f"billing.markup: it is {self.markup}; it must be a number like 1.05")

    @property
    def authenticates(self) -> bool:
        """`auto` is on as soon as other machines can reach the server, itself or through a proxy."""
        return self.auth == "on" or (self.auth is None and (not is_loopback(self.host) or bool(self.trusted_proxies)))

    @property
    def allows_unpriced(self) -> bool:
        return not self.authenticates if self.allow_unpriced is None else self.allow_unpriced

    @property
    def secrets(self) -> tuple[Secret | None, ...]:
        """What no entry of the log may show."""
        keys = (one.api_key for one in self.providers.values())
        own = (self.llm_api_key, self.admin_key, self.server_key, self.otel.headers)
        return (*own, *self.provider_keys.values(), *keys)

    @property
    def names(self) -> tuple[str, ...]:
        """Whom a model's name may begin with."""
        return (*self.providers, *(driver for driver in DRIVERS if driver not in self.providers))

    @property
    def default_model(self) -> str:
        """`<provider>/<model>` or `<provider>`; a driver is a provider of its own name."""
        model = self.llm_model or ""
        said = {
            "llm.provider": self.llm_provider,
            "llm.model": model,
            "llm.apiKey": self.llm_api_key,
            "llm.baseUrl": self.llm_base_url,
        }
        for key, text in of_choice(said, self.names):
            raise ConfigInvalid(f"{key}: {text}")
        if self.llm_provider is not None:
            provider = self.llm_provider
        elif model.partition("/")[0] in self.names:
            return model
        elif model.endswith(".gguf"):
            provider = "local"
        elif self.llm_api_key is not None:
            provider = "anthropic"
        elif self.llm_base_url is not None:
            provider = "openai"
        else:
            provider = "local"
        if model.startswith(f"{provider}/") or model == provider:
            return model
        return f"{provider}/{model}" if model else provider

    def driver_of(self, provider: str) -> str:
        """The driver that speaks to a provider."""
        return self.providers[provider].driver if provider in self.providers else provider

    def driver_settings(self, name: str) -> DriverSettings:
        """What a provider, or the driver of that name, is opened with."""
        chosen, _, model = self.default_model.partition("/")
        entry = self.providers.get(name) or ProviderConfig(driver=name)
        if name == chosen or name not in self.providers:
            # What is said of the default provider goes before what its entry says.
            base_url, api_key = self.llm_base_url or entry.base_url, self.llm_api_key or entry.api_key
        else:
            base_url, api_key = entry.base_url, entry.api_key
        return DriverSettings(
            model=(model or entry.model) if chosen == name else entry.model,
            # A provider's own key is for that provider's own address, never for another.
            api_key=api_key or (None if base_url else self.provider_keys.get(entry.driver)),
            base_url=base_url,
            timeout=self.limits.turn_seconds,
            silence=entry.timeout,
            max_calls=entry.max_concurrent,
            model_dir=self.model_dir,
        )

    def takes_own_keys(self, provider: str) -> bool:
        """Whether a tenant may use a key of its own with a provider.

        Unless it is said: at a vendor's own address yes, where the key is one of the tenant's account; at an address of the
        operator's no, where any key would do and the operator bears the cost.
        """
        said = self.own_keys.get(provider)
        if said is not None:
            return said
        # The tenant's key for a provider named after its driver goes to the vendor, whatever address the server itself uses.
        return provider not in self.providers or provider in DRIVERS or self.driver_settings(provider).base_url is None

    def bystander_settings(self, name: str) -> DriverSettings:
        """What a provider is opened with that is not the default one: the default one's key and address are not for it."""
        return replace(self, llm_api_key=None, llm_base_url=None, llm_model=None, llm_provider="local").driver_settings(name)

    @property
    def wanted(self) -> dict[str, tuple[str, DriverSettings]]:
        """The providers to be opened, by name: driver and settings. The default one is first.

        The embedded model costs nothing until it is asked, so it is always on offer.
        """
        default = self.default_model.partition("/")[0]
        for key, text in of_fallback(self.fallback, self.names):
            raise ConfigInvalid(f"{key}: {text}")
        found = {default: (self.driver_of(default), self.driver_settings(default))}
        standing_in = (name.partition("/")[0] for name in self.fallback)
        for name in dict.fromkeys((*self.providers, *standing_in, "local")):
            if name != default:
                found[name] = (self.driver_of(name), self.bystander_settings(name))
        return found
