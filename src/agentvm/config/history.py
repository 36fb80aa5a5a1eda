"""History — what the changes of one scope come to: the overrides of now, of then, and what lies between. Pure.

Values are as they are stored: JSON, and a secret as `{"sealed": <base64>}`, which is opened only where it is used.
"""

import binascii
from base64 import b64decode, b64encode
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from agentvm.config.catalogue import MASK, Setting, Unfit, Value, convert, find, plain, shown
from agentvm.config.edits import gives_rights
from agentvm.config.layers import Given
from agentvm.errors import StoreFailed
from agentvm.log import get_logger
from agentvm.model.ids import TenantId
from agentvm.model.principal import ANONYMOUS
from agentvm.model.secret import Secret
from agentvm.storage.settings import Change

logger = get_logger(__name__)

SEALED = "sealed"


class Seals(Protocol):
    """Who seals what is secret. What is sealed for a scope and a name is opened for no other."""

    def seal(self, scope: str, name: str, value: Secret) -> bytes: ...

    def unseal(self, scope: str, name: str, sealed: bytes) -> Secret: ...


@dataclass(frozen=True, slots=True)
class Entry:
    """An override as it is stored, and the change that made it."""

    raw: object
    revision: int
    at: int
    actor: str


State = dict[str, Entry]


def replay(changes: Iterable[Change]) -> State:
    """The overrides after these changes, which are all from the first on."""
    state: State = {}
    for change in changes:
        for key, raw in change.changes.items():
            if raw is None:
                state.pop(key, None)
            else:
                state[key] = Entry(raw, change.revision, change.at, change.actor)
    return state


def in_force(state: State) -> State:
    """The overrides without those that give rights and are nobody's: anybody could make them while authentication was off."""
    kept: State = {}
    for key, entry in state.items():
        if entry.actor == ANONYMOUS and gives_rights(key, entry.raw):
            logger.warning("setting_ignored", setting=key, revision=entry.revision, reason="made while authentication was off")
        else:
            kept[key] = entry
    return kept


def between(before: State, after: State) -> dict[str, tuple[object, object]]:
    """What differs: the stored values before and after, None for none."""
    found = {}
    for key in sorted({*before, *after}):
        old, new = before.get(key), after.get(key)
        pair = (None if old is None else old.raw, None if new is None else new.raw)
        if pair[0] != pair[1]:
            found[key] = pair
    return found


def show_raw(key: str, raw: object) -> object:
    """A stored value for eyes."""
    setting = find(key)
    if raw is None:
        return None
    if setting is None or setting.about.secret or (isinstance(raw, Mapping) and SEALED in raw):
        # Also of a setting that this release does not know: it may have been a secret.
        return MASK
    try:
        return shown(setting, convert(setting, raw, text=True))
    except Unfit:
        return MASK


def encode(tenant_id: TenantId | None, key: str, value: Value | None, seals: Seals) -> object:
    setting = find(key)
    if isinstance(value, str) and setting is not None and shown(setting, value) != value:
        # An address that carries something that is not for eyes.
        value = Secret(value)
    if isinstance(value, Secret):
        return {SEALED: b64encode(seals.seal(tenant_id or "", _name(key), value)).decode()}
    return None if value is None else plain(value)


def decode(tenant_id: TenantId | None, state: State, seals: Seals) -> dict[str, Given]:
    """The overrides as values. What this release does not know is passed over, and logged."""
    given: dict[str, Given] = {}
    for key, entry in state.items():
        setting = find(key)
        if setting is None or setting.about.applies == "boot":
            logger.warning("override_ignored", setting=key, revision=entry.revision, reason="there is no such setting")
            continue
        try:
            value = _value(tenant_id, setting, key, entry.raw, seals)
        except Unfit as error:
            logger.warning("override_ignored", setting=key, revision=entry.revision, reason=str(error))
            continue
        given[key] = Given(value, f"change {entry.revision}", entry.actor, entry.at)
    return given


def _value(tenant_id: TenantId | None, setting: Setting, key: str, raw: object, seals: Seals) -> Value:
    if setting.about.secret:
        return _unsealed(tenant_id, key, raw, seals)
    if setting.about.kind == "url" and isinstance(raw, Mapping):
        raw = _unsealed(tenant_id, key, raw, seals).reveal()
    return convert(setting, raw, text=True)


def _unsealed(tenant_id: TenantId | None, key: str, raw: object, seals: Seals) -> Secret:
    try:
        if not isinstance(raw, Mapping):
            raise TypeError
        sealed = b64decode(raw[SEALED], validate=True)
    except (KeyError, TypeError, ValueError, binascii.Error):
        raise StoreFailed(f"The stored value of {key} is damaged. Start with --no-overrides and set it again") from None
    return seals.unseal(tenant_id or "", _name(key), sealed)


def _name(key: str) -> str:
    """No tenant's own secret can have a name with a colon."""
    return f"config:{key}"
