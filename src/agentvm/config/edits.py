"""Edits — what somebody asks to change: a partial tree, dotted keys, or a mixture. Pure.

None takes an override back; for a group, all that are below it.
"""

from bisect import bisect_left
from collections.abc import Iterable, Mapping
from itertools import islice, takewhile

from agentvm.config.catalogue import SETTINGS, Setting, Unfit, Value, convert, find, is_group, quoted, unknown
from agentvm.config.layers import Values
from agentvm.errors import AccessDenied, InvalidInput, shorten
from agentvm.errors.access import AuthenticationOff
from agentvm.model.principal import ANONYMOUS

Edit = dict[str, Value | None]

MOST = 500
"""Keys of one change."""
PROBLEMS_MAX = 20
"""Told of one change: for each the nearest of all settings is looked for."""

_GIVING = ("system.adminKey", "system.oidc.", "system.trustedProxies")


def read_edit(changes: Mapping[str, object], known: Iterable[str]) -> Edit:
    """The keys and their new values. `known` are the keys that have an override now. `InvalidInput` names what is wrong."""
    edit: Edit = {}
    problems: list[str] = []
    given = list(islice(leaves(changes, known), MOST + 1))
    if len(given) > MOST:
        raise InvalidInput(f"One change has at most {MOST} settings; this one has more")
    for key, value in given:
        if len(problems) == PROBLEMS_MAX:
            break
        if key in edit:
            problems.append(f"{shorten(key)}: it is given twice")
            continue
        setting = find(key)
        if setting is None:
            problems.append(f"{shorten(key)}: {_misplaced(key, value)}")
            continue
        try:
            edit[key] = None if value is None else convert(setting, value)
        except Unfit as error:
            problems.append(f"{key}: it is {quoted(setting, value)}; {error}")
    if problems:
        raise InvalidInput("; ".join(problems), details={"problems": problems})
    return edit


def leaves(tree: Mapping[str, object], known: Iterable[str] = ()) -> Iterable[tuple[str, object]]:
    """Each setting of a tree under its dotted key. None for a group stands for each of the `known` keys below it."""
    return _flat(tree, "", sorted(known))


def _flat(tree: Mapping[str, object], prefix: str, known: list[str]) -> Iterable[tuple[str, object]]:
    for name, value in tree.items():
        key = prefix + name
        if find(key) is not None or not is_group(key):
            yield key, value
        elif isinstance(value, Mapping):
            yield from _flat(value, f"{key}.", known)
        elif value is None:
            yield from ((one, None) for one in _below(known, f"{key}."))
        else:
            yield key, value


def _below(known: list[str], prefix: str) -> Iterable[str]:
    """Of sorted keys those with the prefix, without a look at the others."""
    return takewhile(lambda one: one.startswith(prefix), islice(known, bisect_left(known, prefix), None))


def _misplaced(key: str, value: object) -> str:
    return "it holds settings; give one of those" if is_group(key) else unknown(key)


def check_server(edit: Edit) -> None:
    """What cannot be changed while the server runs, not even for its next start."""
    for key in edit:
        if _setting(key).about.applies == "boot":
            raise InvalidInput(
                f"{key} is needed before the stored settings can be read; set it in the file, a variable or a flag"
            )


def check_tenant(edit: Edit, system: Values) -> None:
    """What a tenant may set: some settings at all, and of those that protect the server only lower values."""
    for key, value in edit.items():
        setting = _setting(key)
        if setting.about.tenant == "no":
            raise AccessDenied(f"{key} is the operator's to set; of a tenant's own there are: {', '.join(own_keys())}")
        most = system.get(key)
        if setting.about.tenant == "lower" and value is not None and most is not None and value > most.value:  # type: ignore[operator]  # Numbers.
            raise InvalidInput(f"{key} can only be lowered: this server allows {most.value}")


def check_rights(raw: Mapping[str, object], actor: str) -> None:
    """With authentication off anybody may be asking: what would let them in once it is on is refused."""
    for key, value in raw.items():
        if actor == ANONYMOUS and gives_rights(key, value):
            raise AuthenticationOff(
                f"{key} says who may do what, and authentication is off: set it in the file, a variable or a flag, or start "
                "the server with --auth on first"
            )


def gives_rights(key: str, raw: object) -> bool:
    """Whether a value of the setting lets somebody in, or turns authentication off. None takes a value back."""
    return raw is not None and (key.startswith(_GIVING) or (key == "system.auth" and raw != "on"))


def own_keys() -> tuple[str, ...]:
    """What a tenant may have values of its own for."""
    return tuple(key for key, setting in SETTINGS.items() if setting.about.tenant != "no")


def _setting(key: str) -> Setting:
    found = find(key)
    if found is None:
        raise InvalidInput(f"{shorten(key)}: {unknown(key)}")
    return found
