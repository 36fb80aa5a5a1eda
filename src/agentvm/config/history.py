"""History — the overrides that follow from the stored changes of one scope, at any revision. Pure.

Values are as they are stored: JSON, and a secret as `{"sealed": <base64>}`, which is unsealed only where it is used.
"""

import binascii
from base64 import b64decode, b64encode
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from agentvm.config.catalogue import MASK, InvalidValue, Value, convert, find, plain, shown
from agentvm.config.edits import grants_access
from agentvm.config.layers import SettingValue
from agentvm.errors import StoreFailed
from agentvm.log import get_logger
from agentvm.model.ids import TenantId
from agentvm.model.principal import ANONYMOUS
from agentvm.model.secret import Secret
from agentvm.model.setting import Setting
from agentvm.storage.settings import Change

logger = get_logger(__name__)

SEALED = "sealed"


class Sealer(Protocol):
    """Encrypts secrets. A secret that is sealed for a scope and a name can be unsealed for no other."""

    def seal(self, scope: str, name: str, value: Secret) -> bytes: ...

    def unseal(self, scope: str, name: str, sealed: bytes) -> Secret: ...


@dataclass(frozen=True, slots=True)
class Override:
    """A stored value, and the change that set it."""

    raw: object
    revision: int
    at: int
    actor: str


State = dict[str, Override]
"""The overrides of one scope by key."""


def replay(changes: Iterable[Change]) -> State:
    """The overrides after these changes, which begin with the first."""
    state: State = {}
    for change in changes:
        for key, raw in change.changes.items():
            if raw is None:
                state.pop(key, None)
            else:
                state[key] = Override(raw, change.revision, change.at, change.actor)
    return state


def in_force(state: State) -> State:
    """The overrides without those that give access and were set anonymously, while authentication was off."""
    values: State = {}
    for key, entry in state.items():
        if entry.actor == ANONYMOUS and grants_access(key, entry.raw):
            logger.warning("setting_ignored", setting=key, revision=entry.revision, reason="set while authentication was off")
        else:
            values[key] = entry
    return values


def between(before: State, after: State) -> dict[str, tuple[object, object]]:
    """The differences: the stored values before and after, None for none."""
    differences = {}
    for key in sorted({*before, *after}):
        old, new = before.get(key), after.get(key)
        pair = (None if old is None else old.raw, None if new is None else new.raw)
        if pair[0] != pair[1]:
            differences[key] = pair
    return differences


def show_raw(key: str, raw: object) -> object:
    """A stored value for display."""
    setting = find(key)
    if raw is None:
        return None
    if setting is None or setting.is_secret or (isinstance(raw, Mapping) and SEALED in raw):
        # Also for a setting that this release does not know: it may have been a secret.
        return MASK
    try:
        return shown(setting, convert(setting, raw, text=True))
    except InvalidValue:
        return MASK


def encode(tenant_id: TenantId | None, key: str, value: Value | None, sealer: Sealer) -> object:
    """A value as it is stored."""
    setting = find(key)
    if isinstance(value, str) and setting is not None and shown(setting, value) != value:
        # An address that carries credentials.
        value = Secret(value)
    if isinstance(value, Secret):
        return {SEALED: b64encode(sealer.seal(tenant_id or "", _name(key), value)).decode()}
    return None if value is None else plain(value)


def decode(tenant_id: TenantId | None, state: State, sealer: Sealer) -> dict[str, SettingValue]:
    """The overrides as values. A setting that this release does not know is ignored, and logged."""
    values: dict[str, SettingValue] = {}
    for key, entry in state.items():
        setting = find(key)
        if setting is None or setting.declaration.applies == "boot":
            logger.warning("override_ignored", setting=key, revision=entry.revision, reason="there is no such setting")
            continue
        try:
            value = _value(tenant_id, setting, key, entry.raw, sealer)
        except InvalidValue as error:
            logger.warning("override_ignored", setting=key, revision=entry.revision, reason=str(error))
            continue
        values[key] = SettingValue(value, f"change {entry.revision}", entry.actor, entry.at)
    return values


def _value(tenant_id: TenantId | None, setting: Setting, key: str, raw: object, sealer: Sealer) -> Value:
    if setting.is_secret:
        return _unsealed(tenant_id, key, raw, sealer)
    if setting.declaration.url and isinstance(raw, Mapping):
        raw = _unsealed(tenant_id, key, raw, sealer).reveal()
    return convert(setting, raw, text=True)


def _unsealed(tenant_id: TenantId | None, key: str, raw: object, sealer: Sealer) -> Secret:
    try:
        if not isinstance(raw, Mapping):
            raise TypeError
        sealed = b64decode(raw[SEALED], validate=True)
    except (KeyError, TypeError, ValueError, binascii.Error):
        raise StoreFailed(f"The stored value of {key} is damaged. Start with --no-overrides and set it again") from None
    return sealer.unseal(tenant_id or "", _name(key), sealed)


def _name(key: str) -> str:
    """The name that a setting is sealed for. No tenant's own secret can have a name with a colon."""
    return f"config:{key}"
