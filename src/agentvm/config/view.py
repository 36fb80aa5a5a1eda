"""View — settings for display: the effective value, its source, the values of all layers, and who may change it when.

A tenant sees the settings that it may have its own values for. Values of the server are of the layer `server` to it: it does
not learn which file, variable or person they are from.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence

from agentvm.config.catalogue import SETTINGS, expects, find, shown
from agentvm.config.effective import EffectiveValue, derive, explain
from agentvm.config.layers import ResolvedValue, Values, nest
from agentvm.config.load import VARIABLES, variable_of
from agentvm.model.setting import Setting
from agentvm.protocol.records import SettingView, SourceView


def concerns_tenants(key: str) -> bool:
    """Whether a tenant may have its own value."""
    setting = find(key)
    return setting is not None and setting.declaration.tenant != "no"


def view_setting(
    key: str,
    resolved: ResolvedValue | None,
    sources: Sequence[ResolvedValue],
    derived: Mapping[str, EffectiveValue],
    *,
    of_tenant: bool,
    pending: bool = False,
) -> SettingView:
    """The view of one setting. `KeyError` for an unknown key."""
    setting = find(key)
    if setting is None:
        raise KeyError(key)
    layers = [_source(setting, source, of_tenant=of_tenant) for source in sources]
    if of_tenant:
        # Of the server's layers a tenant sees the one with the highest precedence.
        servers = [layer for layer in layers if layer.layer == "server"]
        layers = [*servers[-1:], *(layer for layer in layers if layer.layer != "server")]
    current = None if resolved is None else _source(setting, resolved, of_tenant=of_tenant)
    effective = explain(setting, key, resolved, derived, of_tenant=of_tenant)
    return SettingView(
        key=key,
        effective=shown(setting, effective.value),
        source=effective.source,
        why=effective.why,
        value=None if current is None else current.value,
        layer=None if current is None else current.layer,
        place=None if current is None else current.place,
        actor=None if current is None else current.actor,
        at=None if current is None else current.at,
        default=shown(setting, setting.default),
        type=expects(setting),
        doc=setting.doc,
        applies=setting.declaration.applies,
        tenant=setting.declaration.tenant,
        secret=setting.is_secret,
        variable=None if of_tenant else variable(key),
        restart_pending=pending,
        layers=tuple(layers),
    )


def _source(setting: Setting, resolved: ResolvedValue, *, of_tenant: bool) -> SourceView:
    value = shown(setting, resolved.value)
    if of_tenant and resolved.layer != "tenant":
        return SourceView(layer="server", value=value)
    source = resolved.source
    return SourceView(layer=resolved.layer, value=value, place=source.place, actor=source.actor, at=source.at)


def variable(key: str) -> str | None:
    """The variable of a setting: its short one, or the one by rule. A price has none."""
    return next((name for name, setting in VARIABLES.items() if setting == key), None) or variable_of(key)


def keys_of(values: Values, *, of_tenant: bool) -> list[str]:
    """Every setting in the order of the declarations, with the operator's own names in their places."""
    order = {key: number for number, key in enumerate(SETTINGS)}

    def place(key: str) -> int:
        setting = find(key)
        return len(order) if setting is None else order[setting.key]

    keys = {*values, *(key for key in SETTINGS if "*" not in key)}
    return sorted((key for key in keys if not of_tenant or concerns_tenants(key)), key=lambda key: (place(key), key))


def tree(values: Values, keys: Iterable[str]) -> dict[str, object]:
    """The resolved values as the tree of a file."""
    settings = {key: setting for key in keys if key in values and (setting := find(key)) is not None}
    return nest({key: shown(setting, values[key].value) for key, setting in settings.items()})


def views(
    values: Values, sources: Callable[[str], Sequence[ResolvedValue]], *, of_tenant: bool, pending: Sequence[str] = ()
) -> list[SettingView]:
    """The views of all settings, in the order of `keys_of`."""
    derived = derive(values)
    return [
        view_setting(key, values.get(key), sources(key), derived, of_tenant=of_tenant, pending=key in pending)
        for key in keys_of(values, of_tenant=of_tenant)
    ]
