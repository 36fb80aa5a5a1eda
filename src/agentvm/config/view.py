"""View — settings for eyes: the value that counts, where it is from, what else was said, and what may be done about it.

A tenant sees what concerns it. What the server says is `server` to it: which file, variable or person is not its business.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence

from agentvm.config.catalogue import SETTINGS, Setting, expects, find, shown
from agentvm.config.effective import Effective, derive, explain
from agentvm.config.layers import Found, Values, nest
from agentvm.config.load import VARIABLES, variable_of
from agentvm.model.base import Record


class SourceView(Record):
    """What one layer says."""

    layer: str
    value: object
    place: str | None = None
    actor: str | None = None
    at: int | None = None


class SettingView(Record):
    """One setting. `value` is absent when nobody has set one and there is no default; `layers` are from the weakest on.

    `effective` is the value that the server works with, also when it follows from other settings; `why` says where it is from.
    """

    key: str
    value: object = None
    effective: object = None
    why: str = ""
    layer: str | None = None
    place: str | None = None
    actor: str | None = None
    at: int | None = None
    default: object = None
    type: str
    doc: str
    applies: str
    tenant: str
    secret: bool = False
    variable: str | None = None
    restart_pending: bool = False
    layers: tuple[SourceView, ...] = ()


def concerns_tenants(key: str) -> bool:
    setting = find(key)
    return setting is not None and setting.about.tenant != "no"


def view_setting(
    key: str,
    found: Found | None,
    sources: Sequence[Found],
    derived: Mapping[str, Effective],
    *,
    of_tenant: bool,
    pending: bool = False,
) -> SettingView:
    setting = find(key)
    if setting is None:
        raise KeyError(key)
    said = [_source(setting, one, of_tenant=of_tenant) for one in sources]
    if of_tenant:
        # Of all that the server says, the last is what it means.
        servers = [one for one in said if one.layer == "server"]
        said = [*servers[-1:], *(one for one in said if one.layer != "server")]
    counts = None if found is None else _source(setting, found, of_tenant=of_tenant)
    effective = explain(setting, key, found, derived, of_tenant=of_tenant)
    return SettingView(
        key=key,
        effective=shown(setting, effective.value),
        why=effective.why,
        value=None if counts is None else counts.value,
        layer=None if counts is None else counts.layer,
        place=None if counts is None else counts.place,
        actor=None if counts is None else counts.actor,
        at=None if counts is None else counts.at,
        default=shown(setting, setting.default),
        type=expects(setting),
        doc=setting.doc,
        applies=setting.about.applies,
        tenant=setting.about.tenant,
        secret=setting.about.secret,
        variable=None if of_tenant else variable(key),
        restart_pending=pending,
        layers=tuple(said),
    )


def _source(setting: Setting, found: Found, *, of_tenant: bool) -> SourceView:
    value = shown(setting, found.value)
    if of_tenant and found.layer != "tenant":
        return SourceView(layer="server", value=value)
    given = found.given
    return SourceView(layer=found.layer, value=value, place=given.place, actor=given.actor, at=given.at)


def variable(key: str) -> str | None:
    """The variable that sets it: its short one, or the one by rule. A price has none."""
    return next((name for name, one in VARIABLES.items() if one == key), None) or variable_of(key)


def keys_of(values: Values, *, of_tenant: bool) -> list[str]:
    """Every setting that there is, in the order of the declarations, with the operator's own names in their places."""
    order = list(SETTINGS)

    def place(key: str) -> int:
        setting = find(key)
        return len(order) if setting is None else order.index(setting.key)

    known = {*values, *(key for key in SETTINGS if "*" not in key)}
    return sorted((key for key in known if not of_tenant or concerns_tenants(key)), key=lambda key: (place(key), key))


def tree(values: Values, keys: Iterable[str]) -> dict[str, object]:
    """What counts, as the tree of a file."""
    found: dict[str, object] = {}
    for key in keys:
        setting = find(key)
        if setting is not None and key in values:
            found[key] = shown(setting, values[key].value)
    return nest(found)


def views(
    values: Values, sources: Callable[[str], Sequence[Found]], *, of_tenant: bool, pending: Sequence[str] = ()
) -> list[SettingView]:
    """Every setting, as `keys_of` has them."""
    derived = derive(values)
    return [
        view_setting(key, values.get(key), sources(key), derived, of_tenant=of_tenant, pending=key in pending)
        for key in keys_of(values, of_tenant=of_tenant)
    ]
