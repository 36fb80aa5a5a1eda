"""Config — every setting with its default, and how the environment fills it.

Which model answers by default: `LLM_PROVIDER` names the driver if it is set; else `--model` / `LLM_MODEL` may (`openai/gpt-…`);
else a key (`LLM_API_KEY`) means anthropic, a bare `LLM_BASE_URL` means openai; else the embedded model.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Literal

from agentvm.drivers.base import DriverSettings
from agentvm.drivers.registry import DRIVERS, KEY_VARIABLES
from agentvm.errors import ConfigInvalid, shorten
from agentvm.model.address import is_loopback
from agentvm.model.limits import Limits
from agentvm.model.money import Rate
from agentvm.model.secret import Secret

DEFAULT_PORT = 8080
DEFAULT_DATA_DIR = Path("~/.agentvm")


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerConfig:
    """What a server can be told. `data_dir=None` keeps everything in memory."""

    host: str = "127.0.0.1"
    port: int = DEFAULT_PORT
    data_dir: Path | None = DEFAULT_DATA_DIR
    llm_provider: str | None = None
    llm_model: str | None = None
    llm_api_key: Secret | None = None
    llm_base_url: str | None = None
    provider_keys: Mapping[str, Secret] = field(default_factory=dict)
    """Keys by driver, for those that `llm_api_key` does not serve."""
    model_dir: Path | None = None
    """Where the embedded model's weights are; None for the user's cache directory."""
    allow_origins: tuple[str, ...] = ()
    """Web pages of these origins may open a socket, besides those of this machine and of the server's own host; `*` for all."""
    grace: float = 10.0
    """Seconds that running turns get to finish at shutdown."""
    log_level: str = "info"
    auth: Literal["on", "off"] | None = None
    """Whether peers must say who they are. None: unless only this machine can reach the server."""
    admin_key: Secret | None = None
    """The operator's key; None lets the first start make one."""
    server_key: Secret | None = None
    """What keys are hashed and secrets are sealed with; None for the one in the data directory."""
    oidc_issuer: str | None = None
    """Tokens of this identity provider are accepted besides keys."""
    oidc_audience: str | None = None
    oidc_jwks_url: str | None = None
    """Where its keys are, if it does not say so itself."""
    oidc_tenant_claim: str = "tenant"
    markup: Decimal = Decimal("1.05")
    """What is charged for a dollar of a provider's tokens."""
    prices: Mapping[str, Rate] = field(default_factory=dict)
    """Prices of your own, by `<driver>/<model>` or `<driver>`; they go before the table."""
    allow_unpriced: bool | None = None
    """Whether a model may be used whose price nobody knows. None: when nobody has to say who they are."""
    limits: Limits = field(default_factory=Limits)

    def __post_init__(self) -> None:
        # A newcomer passes a string; what it means is plain.
        if self.data_dir is not None:
            object.__setattr__(self, "data_dir", Path(self.data_dir))
        if self.model_dir is not None:
            object.__setattr__(self, "model_dir", Path(self.model_dir))
        if self.auth == "off" and not is_loopback(self.host):
            raise ConfigInvalid(
                f"--auth off is only for a server that other machines cannot reach, and {shorten(self.host)!r} can be: "
                "listen on 127.0.0.1, or leave authentication on"
            )
        if (self.oidc_issuer is None) != (self.oidc_audience is None):
            raise ConfigInvalid("AVM_OIDC_ISSUER and AVM_OIDC_AUDIENCE go together: a token is for somebody, or for nobody")
        if not self.markup.is_finite() or self.markup < 0:
            raise ConfigInvalid(f"AVM_MARKUP is {self.markup}; it must be a number like 1.05")

    @property
    def authenticates(self) -> bool:
        return self.auth == "on" or (self.auth is None and not is_loopback(self.host))

    @property
    def allows_unpriced(self) -> bool:
        return not self.authenticates if self.allow_unpriced is None else self.allow_unpriced

    @property
    def default_model(self) -> str:
        """`<driver>/<model>` or `<driver>`."""
        model = self.llm_model or ""
        prefix = model.partition("/")[0]
        if self.llm_provider is not None:
            if self.llm_provider not in DRIVERS:
                raise ConfigInvalid(f"LLM_PROVIDER is {self.llm_provider!r}; known providers: {', '.join(DRIVERS)}")
            driver = self.llm_provider
        elif prefix in DRIVERS:
            return model
        elif model.endswith(".gguf"):
            driver = "local"
        elif self.llm_api_key is not None:
            driver = "anthropic"
        elif self.llm_base_url is not None:
            driver = "openai"
        elif model:
            known = ", ".join(DRIVERS)
            if "/" in model:
                raise ConfigInvalid(f"Model {model!r}: {shorten(prefix)!r} is no driver; known drivers: {known}")
            raise ConfigInvalid(f"Model {model!r} does not say who serves it; write <driver>/{model} with one of: {known}")
        else:
            driver = "local"
        if model.startswith(f"{driver}/") or model == driver:
            return model
        return f"{driver}/{model}" if model else driver

    def driver_settings(self, driver: str) -> DriverSettings:
        chosen, _, model = self.default_model.partition("/")
        return DriverSettings(
            model=(model or None) if chosen == driver else None,
            # A provider's own key is for that provider's own address, never for another.
            api_key=self.llm_api_key or (None if self.llm_base_url else self.provider_keys.get(driver)),
            base_url=self.llm_base_url,
            timeout=self.limits.turn_seconds,
            model_dir=self.model_dir,
        )


def from_environment(environ: Mapping[str, str] = os.environ) -> ServerConfig:
    """Settings as the environment gives them; flags are laid over them by the CLI."""
    port = environ.get("AVM_PORT") or str(DEFAULT_PORT)
    if not (port.isascii() and port.isdigit() and len(port) <= 5 and int(port) < 65536):
        raise ConfigInvalid(f"AVM_PORT is {shorten(port)!r}; it must be a number from 0 to 65535")
    data_dir = environ.get("AVM_DATA_DIR")
    auth = _switch(environ, "AVM_AUTH")
    model_dir = environ.get("AVM_MODEL_DIR")
    origins = environ.get("AVM_ALLOW_ORIGINS") or ""
    return ServerConfig(
        host=environ.get("AVM_HOST") or "127.0.0.1",
        port=int(port),
        data_dir=Path(data_dir) if data_dir else DEFAULT_DATA_DIR,
        llm_provider=environ.get("LLM_PROVIDER") or None,
        llm_model=environ.get("LLM_MODEL") or None,
        llm_api_key=_secret(environ, "LLM_API_KEY"),
        llm_base_url=environ.get("LLM_BASE_URL") or None,
        provider_keys={name: Secret(environ[variable]) for name, variable in KEY_VARIABLES.items() if environ.get(variable)},
        model_dir=Path(model_dir) if model_dir else None,
        allow_origins=tuple(origin.strip() for origin in origins.split(",") if origin.strip()),
        log_level=environ.get("AVM_LOG_LEVEL") or "info",
        auth=None if auth is None else "on" if auth else "off",
        admin_key=_secret(environ, "AVM_ADMIN_KEY"),
        server_key=_secret(environ, "AVM_SERVER_KEY"),
        oidc_issuer=environ.get("AVM_OIDC_ISSUER") or None,
        oidc_audience=environ.get("AVM_OIDC_AUDIENCE") or None,
        oidc_jwks_url=environ.get("AVM_OIDC_JWKS_URL") or None,
        oidc_tenant_claim=environ.get("AVM_OIDC_TENANT_CLAIM") or "tenant",
        markup=_decimal(environ, "AVM_MARKUP", "1.05"),
        allow_unpriced=_switch(environ, "AVM_ALLOW_UNPRICED"),
    )


def _secret(environ: Mapping[str, str], name: str) -> Secret | None:
    value = environ.get(name)
    return Secret(value) if value else None


def _decimal(environ: Mapping[str, str], name: str, default: str) -> Decimal:
    value = environ.get(name) or default
    try:
        return Decimal(value)
    except InvalidOperation:
        raise ConfigInvalid(f"{name} is {shorten(value)!r}; it must be a number like {default}") from None


def _switch(environ: Mapping[str, str], name: str) -> bool | None:
    value = environ.get(name) or None
    if value is None:
        return None
    if value not in ("on", "off"):
        raise ConfigInvalid(f"{name} is {shorten(value)!r}; it must be on or off")
    return value == "on"
