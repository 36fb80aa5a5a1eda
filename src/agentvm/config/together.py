"""Together — what keeps values that are right one by one from being used together: all of it, each with its place. Pure."""

from collections.abc import Collection, Iterator, Mapping
from typing import Any
from urllib.parse import urlsplit

from agentvm.config.catalogue import split
from agentvm.config.file import Problem
from agentvm.config.layers import Values
from agentvm.drivers.registry import DRIVERS
from agentvm.errors import shorten
from agentvm.model.address import is_loopback, parse_network
from agentvm.model.headers import parse_headers
from agentvm.model.secret import Secret

PROVIDERS = "llm.providers."

Fault = tuple[str, str]
"""The setting, and what is wrong with it."""


def conflicts(values: Values, *, besides: Collection[str] = ()) -> list[Problem]:
    """`besides` are names of providers of which nothing could be read: whoever names them is not to blame."""
    flat: dict[str, Any] = {key: found.value for key, found in values.items()}
    entries = entries_of(flat)
    names = (*dict.fromkeys((*entries, *besides, *DRIVERS)),)
    faults = [
        *(fault for name, entry in entries.items() for fault in of_provider(name, entry)),
        *of_access(flat["system.auth"], flat["system.host"], flat["system.trustedProxies"]),
        *of_tokens(flat.get("system.oidc.issuer"), flat.get("system.oidc.audience")),
        *of_origins(flat["system.allowOrigins"]),
        *of_proxies(flat["system.trustedProxies"]),
        *of_collector(flat.get("otel.endpoint")),
        *of_headers(headers.reveal() if isinstance(headers := flat.get("otel.headers"), Secret) else None),
        *of_choice(flat, names),
        *of_fallback(flat["llm.fallback"], names),
    ]
    return [Problem(_place(values, key), key, text) for key, text in faults]


def _place(values: Values, key: str) -> str:
    """Where it was said; of a group, where its first was. Nowhere for what is changed at run time: that has no line."""
    found = values.get(key) or next((one for name, one in values.items() if name.startswith(f"{key}.")), None)
    return "" if found is None or found.layer in ("override", "tenant") else found.given.place or ""


def entries_of(flat: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """What is said of each provider."""
    entries: dict[str, dict[str, Any]] = {}
    for key, value in flat.items():
        if key.startswith(PROVIDERS):
            _, _, name, member = split(key)
            entries.setdefault(name, {})[member] = value
    return entries


def of_provider(name: str, entry: Mapping[str, Any]) -> Iterator[Fault]:
    known, driver = ", ".join(DRIVERS), entry.get("driver", name if name in DRIVERS else None)
    if driver is None:
        yield (
            f"{PROVIDERS}{name}",
            f"it does not say who speaks to it; set {PROVIDERS}{name}.driver as well, to one of: {known}",
        )
    elif driver not in DRIVERS:
        yield f"{PROVIDERS}{name}.driver", f"it is {shorten(driver)!r}; it must be one of: {known}"
    elif name in DRIVERS and driver != name:
        yield f"{PROVIDERS}{name}.driver", "the provider is named after another driver than its own; give it another name"


def of_access(auth: str | None, host: str, proxies: Collection[str] = ()) -> Iterator[Fault]:
    if auth == "off" and not is_loopback(host):
        yield (
            "system.auth",
            f"off is only for a server that other machines cannot reach, and {shorten(host)!r} can be: "
            "listen on 127.0.0.1, or leave authentication on",
        )
    elif auth == "off" and proxies:
        yield (
            "system.auth",
            "off is only for a server that other machines cannot reach, and they reach one behind a proxy "
            "(system.trustedProxies): leave authentication on",
        )


def of_tokens(issuer: str | None, audience: str | None) -> Iterator[Fault]:
    if (issuer is None) != (audience is None):
        key = "system.oidc.issuer" if audience is None else "system.oidc.audience"
        yield key, "system.oidc.issuer and system.oidc.audience go together: a token is for somebody, or for nobody"


def of_origins(origins: Collection[str]) -> Iterator[Fault]:
    """A browser sends scheme, host and port, and nothing behind them: whatever else is given would never match."""
    for origin in origins:
        parts = urlsplit(origin)
        if origin != "*" and (not parts.netloc or origin != f"{parts.scheme}://{parts.netloc}"):
            yield "system.allowOrigins", f"{shorten(origin)!r} is no origin; write for example https://chat.example.org, or *"


def of_proxies(proxies: Collection[str]) -> Iterator[Fault]:
    for proxy in proxies:
        if parse_network(proxy) is None:
            yield (
                "system.trustedProxies",
                f"{shorten(proxy)!r} is neither an address nor a network; write for example 127.0.0.1 or 10.0.0.0/8",
            )


def of_collector(endpoint: str | None) -> Iterator[Fault]:
    """Not shown: it may carry credentials."""
    if endpoint is None:
        return
    try:
        parts = urlsplit(endpoint)
        good = parts.scheme in ("http", "https") and bool(parts.hostname) and not parts.query and not parts.fragment
    except ValueError:
        good = False
    if not good:
        yield "otel.endpoint", "it must be an address like http://localhost:4318, to which /v1/traces is added"


def of_headers(text: str | None) -> Iterator[Fault]:
    try:
        parse_headers(text or "")
    except ValueError as error:
        yield "otel.headers", f"{error}; write for example authorization=Bearer%20..."


def of_choice(flat: Mapping[str, Any], names: Collection[str]) -> Iterator[Fault]:
    """See `ServerConfig.default_model` for who answers by default."""
    provider, model = flat.get("llm.provider"), flat.get("llm.model") or ""
    known, prefix = ", ".join(names), model.partition("/")[0]
    if provider is not None:
        if provider not in names:
            yield "llm.provider", f"it is {shorten(provider)!r}; known providers: {known}"
        return
    told = (
        prefix in names or model.endswith(".gguf") or flat.get("llm.apiKey") is not None or flat.get("llm.baseUrl") is not None
    )
    if model and not told:
        if "/" in model:
            yield "llm.model", f"it is {shorten(model)!r}, and {shorten(prefix)!r} is no provider; known providers: {known}"
        else:
            yield (
                "llm.model",
                f"{shorten(model)!r} does not say who serves it; write <provider>/{shorten(model)} with one of: {known}",
            )


def of_fallback(fallback: Collection[str], names: Collection[str]) -> Iterator[Fault]:
    for name in dict.fromkeys(one.partition("/")[0] for one in fallback):
        if name not in names:
            yield "llm.fallback", f"it names {shorten(name)!r}; known providers: {', '.join(names)}"
