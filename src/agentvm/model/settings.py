"""Settings — the groups of settings, each setting declared once. To add one, add one field.

The names are those of the configuration file in snake case: `system.log_files` is `system.logFiles` there, and the variable
`AVM_SYSTEM__LOG_FILES`. `agentvm.config.server.ServerConfig` holds all groups; code that needs one group takes that group.
Settings of turns are in `agentvm.model.limits`, those of tools in `agentvm.model.tool_settings`, those of gateways
in `agentvm.model.gateway_settings`, retention periods in `agentvm.model.retention`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Annotated, Literal

from msgspec import Meta

from agentvm.model.account import Allowance
from agentvm.model.cluster_settings import ClusterSettings
from agentvm.model.gateway_settings import GatewaySettings
from agentvm.model.limits import Compaction, Defaults, Limits, MemorySettings
from agentvm.model.money import ModelRate
from agentvm.model.retention import Retention
from agentvm.model.secret import Secret
from agentvm.model.setting import (
    Amount,
    Count,
    Group,
    Milliseconds,
    OnOff,
    Port,
    Seconds,
    Switch,
    Text,
    setting,
)
from agentvm.model.tool_settings import ToolSettings

MEMORY = ":memory:"
"""The data directory of a server that keeps everything in memory."""

LogLevel = Literal["debug", "info", "warning", "error"]
TitleSource = Literal["model", "first-words", "off"]


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class ProviderSettings(Group):
    """One of several providers, under a name that the operator chooses."""

    driver: Annotated[
        Text | None, setting("Driver of this provider; optional for one that is named after its driver.", unset="its name")
    ] = None
    model: Annotated[
        Text | None, setting("Model of this provider, if an image names none.", unset="the driver's default model")
    ] = None
    api_key: Annotated[Secret | None, setting("API key of this provider.", unset="no key is sent")] = None
    base_url: Annotated[
        Text | None, setting("Address, if it is not the driver's default one.", url=True, unset="the driver's default address")
    ] = None
    timeout: Annotated[
        Milliseconds | None,
        setting("As `defaults.timeout`, for this provider and for all tenants.", unset="defaults.timeout is used"),
    ] = None
    own_keys: Annotated[
        Switch | None,
        setting("Whether tenants may use their own API keys here; `auto`: unless `baseUrl` is set.", unset="auto is used"),
    ] = None
    max_concurrent: Annotated[
        Count | None,
        setting(
            "Maximum number of concurrent calls of all tenants; further calls wait in turn.",
            unset="200, or what the embedded model can serve",
        ),
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class LlmSettings(Group):
    """Models and their providers."""

    provider: Annotated[
        Text | None,
        setting(
            "Provider that answers by default: one of `llm.providers`, or a driver.", tenant="any", variable="LLM_PROVIDER"
        ),
    ] = None
    model: Annotated[
        Text | None,
        setting(
            "Model that answers by default; may name the provider too: `openai/gpt-5.4-mini`.",
            tenant="any",
            variable="LLM_MODEL",
            flag="--model",
        ),
    ] = None
    api_key: Annotated[
        Secret | None, setting("API key of the default provider.", variable="LLM_API_KEY", unset="no key is sent")
    ] = None
    base_url: Annotated[
        Text | None,
        setting(
            "Address of the default provider, if it is not the driver's default one.",
            url=True,
            variable="LLM_BASE_URL",
            unset="the driver's default address",
        ),
    ] = None
    model_dir: Annotated[Text | None, setting("Directory of the embedded model's weights.", variable="AVM_MODEL_DIR")] = None
    providers: Mapping[str, ProviderSettings] = field(default_factory=dict)
    fallback: Annotated[
        tuple[Text, ...],
        setting("Providers to use, in this order, when one is unavailable: `<provider>` or `<provider>/<model>`."),
    ] = ()


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class OidcConfig(Group):
    """An identity provider whose tokens are accepted besides keys."""

    issuer: Annotated[
        Text | None,
        setting(
            "Issuer of tokens that are accepted besides keys.",
            "restart",
            variable="AVM_OIDC_ISSUER",
            unset="no tokens accepted",
        ),
    ] = None
    audience: Annotated[
        Text | None,
        setting(
            "Audience that tokens must have; required together with the issuer.",
            "restart",
            variable="AVM_OIDC_AUDIENCE",
            unset="no tokens accepted",
        ),
    ] = None
    jwks_url: Annotated[
        Text | None,
        setting(
            "Address of the issuer's keys.",
            "restart",
            url=True,
            variable="AVM_OIDC_JWKS_URL",
            unset="the address in the issuer's discovery document",
        ),
    ] = None
    tenant_claim: Annotated[
        Text, setting("Claim that holds the slug of the tenant.", "restart", variable="AVM_OIDC_TENANT_CLAIM")
    ] = "tenant"
    client_id: Annotated[
        Text | None,
        setting(
            "Name of this server at the issuer; its password is the secret `oidc.clientSecret` of the tenant `default`.",
            "restart",
            variable="AVM_OIDC_CLIENT_ID",
            unset="browsers sign in with keys only",
        ),
    ] = None
    name: Annotated[Text, setting("Name of the issuer on the sign-in page.", "restart", variable="AVM_OIDC_NAME")] = (
        "single sign-on"
    )
    session_hours: Annotated[
        Count,
        setting("Hours until people sign in at the issuer again.", "restart", variable="AVM_OIDC_SESSION_HOURS"),
    ] = 168


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class SystemSettings(Group):
    """The server itself: its address, data, log and access."""

    host: Annotated[
        Text,
        setting(
            "Address to listen on; any but a loopback address is open to the network.",
            "restart",
            variable="AVM_HOST",
            flag="--host",
        ),
    ] = "127.0.0.1"
    port: Annotated[
        Port, setting("Port to listen on; 0 takes any free one.", "restart", variable="AVM_PORT", flag="--port")
    ] = 8080
    data_dir: Annotated[
        Text,
        setting(
            "Data directory; `:memory:` keeps everything in memory.",
            "boot",
            variable="AVM_DATA_DIR",
            flag="--data-dir",
            metavar="PATH",
        ),
    ] = "~/.agentvm"
    database: Annotated[
        Secret | None,
        setting(
            "PostgreSQL database, as `postgresql://user:password@host/name`; needs `pip install 'agentvm[postgres]'`.",
            "boot",
            variable="AVM_DATABASE",
            unset="SQLite in the data directory",
        ),
    ] = None
    log_level: Annotated[
        LogLevel,
        setting("Minimum level of log entries.", variable="AVM_LOG_LEVEL", flag="--log-level"),
    ] = "info"
    log_file: Annotated[
        OnOff, setting("Whether the log is written to `logs/agentvm.jsonl` in the data directory, besides stderr.")
    ] = "on"
    log_file_bytes: Annotated[Amount, setting("Size at which a log file is rotated.")] = 10 * 1024**2
    log_files: Annotated[Count, setting("Number of log files that are kept; the oldest is deleted first.")] = 5
    public_url: Annotated[
        Text | None,
        setting(
            "Address at which browsers reach this server, for links to its pages.",
            "restart",
            url=True,
            variable="AVM_PUBLIC_URL",
            unset="`http://localhost` and the port",
        ),
    ] = None
    allow_origins: Annotated[
        tuple[Text, ...],
        setting(
            "Origins of web pages that may connect, besides this machine's and the server's own; `*` for all.",
            variable="AVM_ALLOW_ORIGINS",
            flag="--allow-origin",
            metavar="ORIGIN",
        ),
    ] = ()
    trusted_proxies: Annotated[
        tuple[Text, ...],
        setting(
            "Reverse proxies, by address or network, whose `X-Forwarded-*` and `Forwarded` headers are trusted.",
            "restart",
            variable="AVM_TRUSTED_PROXIES",
            flag="--trusted-proxy",
            metavar="ADDR|CIDR",
        ),
    ] = ()
    shutdown_seconds: Annotated[Seconds, setting("Time that running turns get to finish when the server is stopped.")] = 10.0
    auth: Annotated[
        Switch,
        setting(
            "Whether clients need a key; `auto`: unless only this machine can reach the server.",
            "restart",
            variable="AVM_AUTH",
            flag="--auth",
        ),
    ] = "auto"
    admin_key: Annotated[
        Secret | None,
        setting(
            "API key of the operator.",
            "restart",
            variable="AVM_ADMIN_KEY",
            unset="the first start with authentication creates a key",
        ),
    ] = None
    server_key: Annotated[
        Secret | None,
        setting(
            "Key that hashes API keys and encrypts secrets: 64 hexadecimal digits.",
            "boot",
            variable="AVM_SERVER_KEY",
            unset="the key in the data directory is used",
        ),
    ] = None
    oidc: OidcConfig = OidcConfig()


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class BillingSettings(Group):
    """Settings of billing."""

    markup: Annotated[Decimal, setting("Dollars charged per dollar of a provider's price.", variable="AVM_MARKUP")] = Decimal(
        "1.05"
    )
    allow_unpriced: Annotated[
        Switch,
        setting(
            "Whether models without a known price may be used; `auto`: when authentication is off.",
            variable="AVM_ALLOW_UNPRICED",
        ),
    ] = "auto"
    prices: Mapping[
        str,
        Annotated[
            ModelRate,
            setting("Custom price by `<driver>/<model>` or `<driver>`, in dollars per million tokens.", unset="no price"),
        ],
    ] = field(default_factory=dict)
    tiers: Mapping[
        str, Annotated[Decimal, setting("Price of running code by tier, in dollars per second.", unset="it is free")]
    ] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class SessionSettings(Group):
    """Sessions."""

    titles: Annotated[
        TitleSource,
        setting("Source of session titles: a billed model call, the first words of the session, or none.", tenant="any"),
    ] = "first-words"


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class OtelSettings(Group):
    """The OpenTelemetry collector that traces and metrics are sent to; nothing is sent without an endpoint."""

    endpoint: Annotated[
        Text | None,
        setting(
            "OpenTelemetry collector for traces and metrics; needs `pip install 'agentvm[otel]'`.",
            "restart",
            url=True,
            shared_variable="OTEL_EXPORTER_OTLP_ENDPOINT",
            unset="nothing is sent to a collector",
        ),
    ] = None
    headers: Annotated[
        Secret | None,
        setting(
            "Headers for the collector, as `name=value,name=value` with URL-encoded values.",
            "restart",
            shared_variable="OTEL_EXPORTER_OTLP_HEADERS",
            unset="no headers are sent",
        ),
    ] = None
    service_name: Annotated[
        Text, setting("Service name of this server in traces.", "restart", shared_variable="OTEL_SERVICE_NAME")
    ] = "agentvm"
    traces: Annotated[OnOff, setting("Whether turns are sent as traces.", "restart")] = "on"
    metrics: Annotated[OnOff, setting("Whether the metrics of `/metrics` are sent, and more.", "restart")] = "on"
    sample_ratio: Annotated[
        Annotated[float, Meta(ge=0, le=1)], setting("Share of turns that are sent as traces.", "restart")
    ] = 1.0
    export_seconds: Annotated[Annotated[float, Meta(ge=0.1, le=3_600)], setting("Interval between two exports.", "restart")] = (
        15.0
    )


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class PlanSettings(Group):
    """A plan: the quotas of tenants that have it."""

    limits: Annotated[
        Allowance | None,
        setting("Quotas of a tenant with this plan, by metric: `{tokens_per_day: 100000, containers: 50}`.", unset="no quotas"),
    ] = None
    users: Annotated[
        Allowance | None, setting("Quotas of each of its users, by metric, unless a user has their own.", unset="no quotas")
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Settings(Group):
    """Every group of settings."""

    llm: LlmSettings = field(default_factory=LlmSettings)
    system: SystemSettings = field(default_factory=SystemSettings)
    defaults: Defaults = field(default_factory=Defaults)
    limits: Limits = field(default_factory=Limits)
    billing: BillingSettings = field(default_factory=BillingSettings)
    sessions: SessionSettings = field(default_factory=SessionSettings)
    compaction: Compaction = field(default_factory=Compaction)
    memory: MemorySettings = field(default_factory=MemorySettings)
    otel: OtelSettings = field(default_factory=OtelSettings)
    cluster: ClusterSettings = field(default_factory=ClusterSettings)
    retention: Retention = field(default_factory=Retention)
    gateways: GatewaySettings = field(default_factory=GatewaySettings)
    tools: ToolSettings = field(default_factory=ToolSettings)
    plans: Mapping[str, PlanSettings] = field(default_factory=dict)
