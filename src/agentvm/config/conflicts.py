"""Conflicts — reasons why values that are valid one by one cannot be used together, by key. Pure."""

from collections.abc import Collection, Iterator
from urllib.parse import urlsplit

from agentvm.cluster.nats_wire import parse_addresses
from agentvm.config.layers import Values
from agentvm.drivers.registry import DRIVERS
from agentvm.errors import shorten
from agentvm.model.address import is_loopback, parse_network
from agentvm.model.cluster_settings import ClusterSettings
from agentvm.model.headers import parse_headers
from agentvm.model.public_address import AddressRules, is_public, parse_host
from agentvm.model.settings import (
    MEMORY,
    LlmSettings,
    OidcConfig,
    OtelSettings,
    ProviderSettings,
    Settings,
    SystemSettings,
)
from agentvm.model.tier import TIERS
from agentvm.model.tier_settings import RemoteSettings
from agentvm.model.tool_settings import ToolSettings

Fault = tuple[str, str]
"""A key and an error message."""


def faults_of(settings: Settings, unread: Collection[str] = ()) -> Iterator[Fault]:
    """Every fault. `unread` are providers whose own settings are invalid, so that references to them are not reported
    again."""
    names = tuple(dict.fromkeys((*provider_names(settings.llm), *unread)))
    for name, provider in settings.llm.providers.items():
        yield from _provider(name, provider)
    yield from server_faults(settings)
    yield from choice_faults(settings.llm, names)
    yield from fallback_faults(settings.llm, names)


def server_faults(settings: Settings) -> Iterator[Fault]:
    """The faults of everything but models and their providers."""
    yield from _access(settings.system)
    yield from _database(settings.system)
    if settings.cluster.enabled == "on":
        yield from _cluster(settings.system, settings.cluster)
    elif settings.cluster.nats is not None:
        yield "cluster.nats", "it is between the nodes of a cluster: set AVM_CLUSTER=on as well"
    yield from _tokens(settings.system.oidc)
    yield from _origins(settings.system.allow_origins)
    yield from _proxies(settings.system.trusted_proxies)
    yield from collector_faults(settings.otel)
    yield from _tools(settings.tools)
    for name, price in settings.billing.tiers.items():
        if name not in TIERS:
            yield f"billing.tiers.{name}", f"there is no such tier; there are {', '.join(TIERS)}"
        elif not price.is_finite() or price < 0:
            yield f"billing.tiers.{name}", f"it is {price}; it must be a number like 0.00002"


def _cluster(system: SystemSettings, cluster: ClusterSettings) -> Iterator[Fault]:
    if cluster.nats is not None:
        try:
            parse_addresses(cluster.nats.reveal())
        except ValueError as error:
            yield "cluster.nats", str(error)
    if system.database is None:
        yield "cluster.enabled", "the nodes of a cluster share a PostgreSQL database: name it with AVM_DATABASE"
    if system.server_key is None:
        yield "cluster.enabled", "all nodes need the same server key: give it with AVM_SERVER_KEY (openssl rand -hex 32)"


def _tools(tools: ToolSettings) -> Iterator[Fault]:
    for entry in tools.network.allow:
        try:
            AddressRules.parse([entry])
        except ValueError as error:
            yield "tools.network.allow", str(error)
    if tools.search.engine is None and (tools.search.url or tools.search.api_key):
        yield "tools.search.engine", "it is missing; without it nothing is searched"
    elif tools.search.engine not in (None, "searxng") and tools.search.api_key is None:
        yield "tools.search.apiKey", f"{tools.search.engine} needs a key"
    elif tools.search.engine == "searxng" and tools.search.url is None:
        yield "tools.search.url", "searxng needs its address"
    if tools.embedder.url is not None and tools.embedder.model is None:
        yield "tools.embedder.model", "it is missing; the embedder needs it"
    elif tools.embedder.model is not None and (tools.embedder.url is None) != tools.embedder.model.startswith("local/"):
        yield "tools.embedder.url", "it is missing, or the model is on this machine: local/ and its name, and no address"
    yield from _remote(tools.remote)
    if tools.mcp_servers:
        # Few servers have some; the others need not read the grammar of tools to start.
        from agentvm.tools.mcp.settings import server_faults as mcp_server_faults  # noqa: PLC0415

        yield from mcp_server_faults(tools.mcp_servers)


def _remote(remote: RemoteSettings) -> Iterator[Fault]:
    if remote.url is None:
        if remote.key is not None:
            yield "tools.remote.url", "it is missing; the tier remote needs it"
        return
    try:
        parts = urlsplit(remote.url)
        host, wrong = parts.hostname or "", parts.scheme not in ("http", "https") or bool(parts.username)
    except ValueError:
        host, wrong = "", True
    if wrong or not host:
        yield "tools.remote.url", "it is not an address such as https://worker.example"
    elif parts.scheme == "http" and not _is_private(host):
        yield "tools.remote.url", "the key would be sent unprotected; use https, or a private address"


def _is_private(name: str) -> bool:
    host = parse_host(name)
    return name == "localhost" or (host is not None and host.address is not None and not is_public(host.address))


def provider_names(llm: LlmSettings) -> tuple[str, ...]:
    """The names that a model's name may begin with."""
    return tuple(dict.fromkeys((*llm.providers, *DRIVERS)))


def place_of(values: Values, key: str) -> str:
    """The place of a value; of a group, that of its first. A change at run time has no place."""
    resolved = values.get(key) or next((value for name, value in values.items() if name.startswith(f"{key}.")), None)
    return "" if resolved is None or resolved.layer in ("override", "tenant") else resolved.source.place or ""


def _provider(name: str, provider: ProviderSettings) -> Iterator[Fault]:
    key, drivers = f"llm.providers.{name}", ", ".join(DRIVERS)
    driver = provider.driver or (name if name in DRIVERS else None)
    if driver is None:
        yield key, f"it has no driver; set {key}.driver as well, to one of: {drivers}"
    elif driver not in DRIVERS:
        yield f"{key}.driver", f"it is {shorten(driver)!r}; it must be one of: {drivers}"
    elif name in DRIVERS and driver != name:
        yield f"{key}.driver", "the provider is named after another driver than its own; give it another name"


def _database(system: SystemSettings) -> Iterator[Fault]:
    if system.database is None:
        return
    if not system.database.reveal().startswith(("postgresql://", "postgres://")):
        yield "system.database", "it must be like postgresql://user:password@host/name"
    elif system.database.reveal().partition("?")[0].count("@") > 1:
        # The rest of the password would be taken for a part of the host, and be shown.
        yield "system.database", "in a password write @ as %40"
    if system.data_dir == MEMORY and system.server_key is None:
        yield "system.serverKey", "without a data directory it must be set: stored data can only be read with this key"


def _access(system: SystemSettings) -> Iterator[Fault]:
    if system.auth != "off":
        return
    if not is_loopback(system.host):
        yield (
            "system.auth",
            f"off is only for a server that other machines cannot reach, and {shorten(system.host)!r} can be: "
            "listen on 127.0.0.1, or leave authentication on",
        )
    elif system.trusted_proxies:
        yield (
            "system.auth",
            "off is only for a server that other machines cannot reach, and they reach one behind a proxy "
            "(system.trustedProxies): leave authentication on",
        )


def _tokens(oidc: OidcConfig) -> Iterator[Fault]:
    if (oidc.issuer is None) != (oidc.audience is None):
        key = "system.oidc.issuer" if oidc.audience is None else "system.oidc.audience"
        yield key, "system.oidc.issuer and system.oidc.audience go together; set both or none"


def _origins(origins: Collection[str]) -> Iterator[Fault]:
    """A browser sends scheme, host and port, and nothing behind them: any other text would never match."""
    for origin in origins:
        parts = urlsplit(origin)
        if origin != "*" and (not parts.netloc or origin != f"{parts.scheme}://{parts.netloc}"):
            yield (
                "system.allowOrigins",
                f"{shorten(origin)!r} is not an origin; write for example https://chat.example.org, or *",
            )


def _proxies(proxies: Collection[str]) -> Iterator[Fault]:
    for proxy in proxies:
        if parse_network(proxy) is None:
            yield (
                "system.trustedProxies",
                f"{shorten(proxy)!r} is neither an address nor a network; write for example 127.0.0.1 or 10.0.0.0/8",
            )


def collector_faults(otel: OtelSettings) -> Iterator[Fault]:
    """The faults of a collector's address and headers. Neither is quoted: they may carry credentials."""
    if otel.endpoint is not None and not _is_collector(otel.endpoint):
        yield "otel.endpoint", "it must be an address like http://localhost:4318, to which /v1/traces is added"
    try:
        parse_headers("" if otel.headers is None else otel.headers.reveal())
    except ValueError as error:
        yield "otel.headers", f"{error}; write for example authorization=Bearer%20..."


def _is_collector(endpoint: str) -> bool:
    try:
        parts = urlsplit(endpoint)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and not parts.query and not parts.fragment
    except ValueError:
        return False


def choice_faults(llm: LlmSettings, names: Collection[str]) -> Iterator[Fault]:
    """The faults of the default model; `ServerConfig.default_model` says how it is chosen."""
    model, providers = llm.model or "", ", ".join(names)
    prefix = model.partition("/")[0]
    if llm.provider is not None:
        if llm.provider not in names:
            yield "llm.provider", f"it is {shorten(llm.provider)!r}; known providers: {providers}"
        return
    implied = prefix in names or model.endswith(".gguf") or llm.api_key is not None or llm.base_url is not None
    if model and not implied:
        if "/" in model:
            yield (
                "llm.model",
                f"it is {shorten(model)!r}, and {shorten(prefix)!r} is not a provider; known providers: {providers}",
            )
        else:
            yield (
                "llm.model",
                f"{shorten(model)!r} does not name its provider; write <provider>/{shorten(model)} with one of: {providers}",
            )


def fallback_faults(llm: LlmSettings, names: Collection[str]) -> Iterator[Fault]:
    for name in dict.fromkeys(entry.partition("/")[0] for entry in llm.fallback):
        if name not in names:
            yield "llm.fallback", f"it names {shorten(name)!r}; known providers: {', '.join(names)}"
