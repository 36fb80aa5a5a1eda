"""Edits — requested changes: a partial tree, dotted keys, or a mixture. Pure.

None removes an override; for a group, all that are below it.
"""

from bisect import bisect_left
from collections.abc import Iterable, Mapping
from itertools import islice, takewhile

from agentvm.config.catalogue import SETTINGS, InvalidValue, Value, convert, describe_error, find, is_group, shown, unknown
from agentvm.config.layers import Values
from agentvm.errors import AccessDenied, InvalidInput, shorten
from agentvm.errors.access import AuthenticationOff
from agentvm.model.principal import ANONYMOUS
from agentvm.model.setting import Setting

Edit = dict[str, Value | None]

EDIT_KEYS_MAX = 500
"""Settings in one change."""
PROBLEMS_MAX = 20
"""Errors that are reported of one change: each costs a search for the most similar key."""

_ACCESS_KEYS = ("system.adminKey", "system.oidc.", "system.trustedProxies")
"""Settings that give access."""


def read_edit(changes: Mapping[str, object], overridden: Iterable[str]) -> Edit:
    """The keys and their new values. `overridden` are the keys that have an override now. `InvalidInput` names the errors."""
    edit: Edit = {}
    problems: list[str] = []
    entries = list(islice(leaves(changes, overridden), EDIT_KEYS_MAX + 1))
    if len(entries) > EDIT_KEYS_MAX:
        raise InvalidInput(f"One change has at most {EDIT_KEYS_MAX} settings; this one has more")
    for key, value in entries:
        if len(problems) == PROBLEMS_MAX:
            break
        if key in edit:
            problems.append(f"{shorten(key)}: it is set twice")
            continue
        setting = find(key)
        if setting is None:
            problems.append(f"{shorten(key)}: {_misplaced(key)}")
            continue
        try:
            edit[key] = None if value is None else convert(setting, value)
        except InvalidValue as error:
            problems.append(f"{key}: {describe_error(setting, value, error)}")
    if problems:
        raise InvalidInput("; ".join(problems), details={"problems": problems})
    return edit


def leaves(tree: Mapping[str, object], overridden: Iterable[str] = ()) -> Iterable[tuple[str, object]]:
    """Each setting of a tree under its dotted key. None for a group stands for each of the `overridden` keys below it."""
    return _flat(tree, "", sorted(overridden))


def changed_leaves(tree: Mapping[str, object], values: Values) -> dict[str, object]:
    """The settings of an edited tree that differ from the effective values. Unknown ones are kept, to be refused.

    At most one more than a change may have.
    """

    def differs(key: str, value: object) -> bool:
        setting, resolved = find(key), values.get(key)
        return setting is None or resolved is None or shown(setting, resolved.value) != value

    return dict(islice(((key, value) for key, value in leaves(tree) if differs(key, value)), EDIT_KEYS_MAX + 1))


def _flat(tree: Mapping[str, object], prefix: str, overridden: list[str]) -> Iterable[tuple[str, object]]:
    for name, value in tree.items():
        key = prefix + name
        if find(key) is not None or not is_group(key):
            yield key, value
        elif isinstance(value, Mapping):
            yield from _flat(value, f"{key}.", overridden)
        elif value is None:
            yield from ((below, None) for below in _below(overridden, f"{key}."))
        else:
            yield key, value


def _below(keys: list[str], prefix: str) -> Iterable[str]:
    """The keys with a prefix, of sorted ones, without a look at the others."""
    return takewhile(lambda key: key.startswith(prefix), islice(keys, bisect_left(keys, prefix), None))


def _misplaced(key: str) -> str:
    return "it is a group of settings; name one of them" if is_group(key) else unknown(key)


def check_server(edit: Edit) -> None:
    """`InvalidInput` for a setting that cannot be changed at run time, not even for the next start."""
    for key in edit:
        if _setting(key).declaration.applies == "boot":
            raise InvalidInput(
                f"{key} is needed before the stored settings can be read; set it in the file, a variable or a flag"
            )


def check_tenant(edit: Edit, system: Values) -> None:
    """Refuses values that a tenant may not set: other settings than its own, and higher values of those that protect the
    server."""
    for key, value in edit.items():
        tenant = _setting(key).declaration.tenant
        if tenant == "no":
            raise AccessDenied(f"{key} can be set by the operator only; a tenant can set: {', '.join(own_keys())}")
        most = system.get(key)
        if tenant == "lower" and value is not None and most is not None and value > most.value:  # type: ignore[operator]  # Numbers.
            raise InvalidInput(f"{key} can only be lowered: this server allows {most.value}")


def check_rights(raw: Mapping[str, object], actor: str) -> None:
    """Refuses settings that give access later while authentication is off, because any client may be asking."""
    for key, value in raw.items():
        if actor == ANONYMOUS and grants_access(key, value):
            raise AuthenticationOff(
                f"{key} controls access, and authentication is off: set it in the file, a variable or a flag, or start "
                "the server with --auth on first"
            )


def grants_access(key: str, raw: object) -> bool:
    """Whether a value of the setting grants access, or turns authentication off. None removes a value."""
    return raw is not None and (key.startswith(_ACCESS_KEYS) or (key == "system.auth" and raw != "on"))


def own_keys() -> tuple[str, ...]:
    """The settings that a tenant may have its own values for."""
    return tuple(key for key, setting in SETTINGS.items() if setting.declaration.tenant != "no")


def _setting(key: str) -> Setting:
    setting = find(key)
    if setting is None:
        raise InvalidInput(f"{shorten(key)}: {unknown(key)}")
    return setting
