"""Build — values as a `ServerConfig`, and a `ServerConfig` as values. Pure.

`limits.silence_seconds` and `limits.max_tokens` are the `defaults` of the file: what a turn gets if nobody says otherwise.
"""

from collections.abc import Mapping
from dataclasses import fields
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal

from agentvm.config.catalogue import PRICES, Value
from agentvm.config.file import refuse
from agentvm.config.layers import Given, Layer, Values, merge
from agentvm.config.server import OtelConfig, ProviderConfig, ServerConfig, TitlesBy
from agentvm.config.together import PROVIDERS, conflicts, entries_of
from agentvm.drivers.registry import DRIVERS
from agentvm.model.account import Allowance, Plan
from agentvm.model.limits import Compaction, Limits
from agentvm.model.money import NANO, ModelRate, to_nano
from agentvm.model.retention import FOREVER, Retention
from agentvm.model.secret import Secret

MEMORY = ":memory:"

_LIMITS = {
    field.name: "limits." + "".join(part.capitalize() if number else part for number, part in enumerate(field.name.split("_")))
    for field in fields(Limits)
    if field.name not in ("max_tokens", "silence_seconds", "turn_cost", "compaction")
}


def build(values: Values, *, layers: tuple[Layer, ...] = ()) -> ServerConfig:
    """The config of values that are right one by one. `ConfigInvalid` when they do not go together."""
    refuse(conflicts(values))
    # Any: each is of the type that its setting declares.
    flat: dict[str, Any] = {key: found.value for key, found in values.items()}
    providers, keys, own_keys = _providers(flat)
    data_dir = flat["system.dataDir"]
    model_dir = flat.get("llm.modelDir")
    return ServerConfig(
        host=flat["system.host"],
        port=flat["system.port"],
        data_dir=None if data_dir == MEMORY else Path(data_dir),
        llm_provider=flat.get("llm.provider"),
        llm_model=flat.get("llm.model"),
        llm_api_key=flat.get("llm.apiKey"),
        llm_base_url=flat.get("llm.baseUrl"),
        provider_keys=keys,
        providers=providers,
        own_keys=own_keys,
        fallback=flat["llm.fallback"],
        model_dir=None if model_dir is None else Path(model_dir),
        allow_origins=flat["system.allowOrigins"],
        trusted_proxies=flat["system.trustedProxies"],
        grace=float(flat["system.shutdownSeconds"]),
        log_level=flat["system.logLevel"],
        log_file=flat["system.logFile"] == "on",
        log_file_bytes=flat["system.logFileBytes"],
        log_files=flat["system.logFiles"],
        auth=None if flat["system.auth"] == "auto" else flat["system.auth"],
        admin_key=flat.get("system.adminKey"),
        server_key=flat.get("system.serverKey"),
        oidc_issuer=flat.get("system.oidc.issuer"),
        oidc_audience=flat.get("system.oidc.audience"),
        oidc_jwks_url=flat.get("system.oidc.jwksUrl"),
        oidc_tenant_claim=flat["system.oidc.tenantClaim"],
        markup=flat["billing.markup"],
        prices={key.removeprefix(PRICES): rate for key, rate in flat.items() if isinstance(rate, ModelRate)},
        allow_unpriced={"on": True, "off": False, "auto": None}[flat["billing.allowUnpriced"]],
        plans=_plans(flat),
        titles=flat["sessions.titles"],
        otel=_otel(flat),
        retention=build_retention(values),
        limits=build_limits(values),
        layers=layers,
    )


def build_limits(values: Values) -> Limits:
    flat: dict[str, Any] = {key: found.value for key, found in values.items()}
    plain: dict[str, Any] = {name: flat[key] for name, key in _LIMITS.items()}
    return Limits(
        **{name: type(getattr(Limits(), name))(value) for name, value in plain.items()},
        turn_cost=to_nano(flat["limits.turnCost"]),
        max_tokens=flat["defaults.maxTokens"],
        silence_seconds=flat["defaults.timeout"] / 1000,
        compaction=Compaction(
            by=flat["compaction.by"],
            share=float(flat["compaction.share"]),
            keep=flat["compaction.keep"],
            max_tokens=flat["compaction.maxTokens"],
            model=flat.get("compaction.model"),
        ),
    )


def build_titles(values: Values) -> TitlesBy:
    by: TitlesBy = values["sessions.titles"].value  # type: ignore[assignment]  # Its declaration says so.
    return by


def _otel(flat: Mapping[str, Any]) -> OtelConfig:
    return OtelConfig(
        endpoint=flat.get("otel.endpoint"),
        headers=flat.get("otel.headers"),
        service_name=flat["otel.serviceName"],
        traces=flat["otel.traces"] == "on",
        metrics=flat["otel.metrics"] == "on",
        sample_ratio=float(flat["otel.sampleRatio"]),
        export_seconds=float(flat["otel.exportSeconds"]),
    )


def _flat_access(config: ServerConfig) -> dict[str, Value | None]:
    return {
        "system.allowOrigins": tuple(config.allow_origins),
        "system.trustedProxies": tuple(config.trusted_proxies),
        "system.auth": config.auth or "auto",
        "system.adminKey": config.admin_key,
        "system.serverKey": config.server_key,
        "system.oidc.issuer": config.oidc_issuer,
        "system.oidc.audience": config.oidc_audience,
        "system.oidc.jwksUrl": config.oidc_jwks_url,
        "system.oidc.tenantClaim": config.oidc_tenant_claim,
    }


def _flat_otel(otel: OtelConfig) -> dict[str, Value | None]:
    return {
        "otel.endpoint": otel.endpoint,
        "otel.headers": otel.headers,
        "otel.serviceName": otel.service_name,
        "otel.traces": "on" if otel.traces else "off",
        "otel.metrics": "on" if otel.metrics else "off",
        "otel.sampleRatio": otel.sample_ratio,
        "otel.exportSeconds": otel.export_seconds,
    }


def build_retention(values: Values) -> Retention:
    # Any: each is of the type that its setting declares.
    flat: dict[str, Any] = {key: found.value for key, found in values.items() if key.startswith("retention.")}
    return Retention(
        session_days=flat.get("retention.sessionDays"),
        archived_days=flat.get("retention.archivedDays"),
        rewound_days=flat["retention.rewoundDays"],
        message_days=flat.get("retention.messageDays"),
    )


def _providers(flat: Mapping[str, Any]) -> tuple[dict[str, ProviderConfig], dict[str, Secret], dict[str, bool]]:
    """Those with names of their own, the keys of drivers, and whether tenants may use their own keys where that is said.

    A driver of which only these two are said is not opened for it.
    """
    entries = entries_of(flat)
    said = {name: entry.pop("ownKeys") for name, entry in entries.items() if "ownKeys" in entry}
    unopened = {name: entry for name, entry in entries.items() if name in DRIVERS and entry.keys() <= {"apiKey"}}
    keys = {name: entry["apiKey"] for name, entry in unopened.items() if entry}
    made = {name: _provider(name, entry) for name, entry in entries.items() if name not in unopened}
    return made, keys, {name: switch == "on" for name, switch in said.items() if switch != "auto"}


def _plans(flat: Mapping[str, Any]) -> dict[str, Plan]:
    plans: dict[str, dict[str, Allowance]] = {}
    for key, value in flat.items():
        if isinstance(value, Allowance):
            _, name, member = key.split(".")
            plans.setdefault(name, {})[member] = value
    return {name: Plan(**members) for name, members in plans.items()}


def _provider(name: str, entry: Mapping[str, Any]) -> ProviderConfig:
    timeout = entry.get("timeout")
    return ProviderConfig(
        driver=entry.get("driver", name),
        model=entry.get("model"),
        api_key=entry.get("apiKey"),
        base_url=entry.get("baseUrl"),
        timeout=None if timeout is None else timeout / 1000,
        max_concurrent=entry.get("maxConcurrent"),
    )


def flatten(config: ServerConfig) -> dict[str, Value]:
    """The values of a config; what is not set is absent."""
    given: dict[str, Value | None] = {
        "llm.provider": config.llm_provider,
        "llm.model": config.llm_model,
        "llm.apiKey": config.llm_api_key,
        "llm.baseUrl": config.llm_base_url,
        "llm.modelDir": None if config.model_dir is None else str(config.model_dir),
        "llm.fallback": config.fallback,
        "system.host": config.host,
        "system.port": config.port,
        "system.dataDir": MEMORY if config.data_dir is None else str(config.data_dir),
        "system.logLevel": config.log_level,
        "system.logFile": "on" if config.log_file else "off",
        "system.logFileBytes": config.log_file_bytes,
        "system.logFiles": config.log_files,
        "system.shutdownSeconds": config.grace,
        **_flat_access(config),
        "billing.markup": config.markup,
        "billing.allowUnpriced": _switch(config.allow_unpriced),
        "sessions.titles": config.titles,
        **_flat_otel(config.otel),
        "compaction.by": config.limits.compaction.by,
        "compaction.share": config.limits.compaction.share,
        "compaction.keep": config.limits.compaction.keep,
        "compaction.maxTokens": config.limits.compaction.max_tokens,
        "compaction.model": config.limits.compaction.model,
        "retention.sessionDays": config.retention.session_days,
        "retention.archivedDays": config.retention.archived_days,
        "retention.rewoundDays": FOREVER if config.retention.rewound_days is None else config.retention.rewound_days,
        "retention.messageDays": config.retention.message_days,
        "defaults.maxTokens": config.limits.max_tokens,
        "defaults.timeout": round(config.limits.silence_seconds * 1000),
        "limits.turnCost": Decimal(config.limits.turn_cost) / NANO,
        **{key: getattr(config.limits, name) for name, key in _LIMITS.items()},
        **{f"{PRICES}{name}": rate for name, rate in config.prices.items()},
        **{f"{PROVIDERS}{driver}.apiKey": key for driver, key in config.provider_keys.items()},
    }
    given |= {f"plans.{name}.{of}": getattr(plan, of) for name, plan in config.plans.items() for of in ("limits", "users")}
    return {key: value for key, value in (given | _flat_providers(config)).items() if value is not None}


def _flat_providers(config: ServerConfig) -> dict[str, Value | None]:
    given: dict[str, Value | None] = {}
    for name, one in config.providers.items():
        given |= {f"{PROVIDERS}{name}.{member}": value for member, value in _flat_provider(one).items()}
    return given | {f"{PROVIDERS}{name}.ownKeys": _switch(allowed) for name, allowed in config.own_keys.items()}


def _flat_provider(one: ProviderConfig) -> dict[str, Value | None]:
    return {
        "driver": one.driver,
        "model": one.model,
        "apiKey": one.api_key,
        "baseUrl": one.base_url,
        "timeout": None if one.timeout is None else round(one.timeout * 1000),
        "maxConcurrent": one.max_concurrent,
    }


def _switch(value: bool | None) -> Literal["on", "off", "auto"]:
    return "auto" if value is None else "on" if value else "off"


def base_of(config: ServerConfig) -> tuple[Layer, ...]:
    """The layers a config was loaded from, and above them what a program has said otherwise."""
    known = {key: found.value for key, found in merge(config.layers).items()}
    own = {key: value for key, value in flatten(config).items() if not _same(known.get(key), value)}
    if not own:
        return config.layers
    return (*config.layers, Layer("code", {key: Given(value, "ServerConfig") for key, value in own.items()}))


def _same(one: Value | None, other: Value) -> bool:
    if isinstance(one, Secret) and isinstance(other, Secret):
        return one.reveal() == other.reveal()
    return one == other
