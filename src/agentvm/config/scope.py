"""Settings scope — the settings of the server or of one tenant, as an administrator of that scope sees and changes them."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice

import msgspec

from agentvm.config import history
from agentvm.config.catalogue import find, is_group, unknown
from agentvm.config.centre import ConfigCentre
from agentvm.config.edits import EDIT_KEYS_MAX, changed_leaves
from agentvm.config.effective import derive
from agentvm.config.schema import config_schema
from agentvm.config.view import concerns_tenants, keys_of, tree, view_setting, views
from agentvm.errors import NotFound, shorten
from agentvm.model.ids import TenantId
from agentvm.model.setting import ChangeRequest, ChangeResult
from agentvm.protocol.records import SettingView
from agentvm.storage.settings import Change

NAMED_KEYS_MAX = 20
"""Settings that `describe` names."""


@dataclass(frozen=True, slots=True)
class SettingsScope:
    """`tenant_id` is None for the settings of the server. A tenant sees only the settings that it may have values for."""

    centre: ConfigCentre
    tenant_id: TenantId | None

    @property
    def of_tenant(self) -> bool:
        return self.tenant_id is not None

    @property
    def revision(self) -> int:
        return self.centre.revision(self.tenant_id)

    @property
    def pending(self) -> tuple[str, ...]:
        """Settings that differ from those that the server was started with."""
        return () if self.of_tenant else self.centre.pending

    def tree(self) -> dict[str, object]:
        """Returns the effective values as the tree of a file, without secrets."""
        values = self.centre.values(self.tenant_id)
        return tree(values, keys_of(values, of_tenant=self.of_tenant))

    def views(self) -> tuple[SettingView, ...]:
        """Returns every setting, explained."""
        values = self.centre.values(self.tenant_id)
        return tuple(
            views(
                values,
                lambda key: self.centre.layers(self.tenant_id, key),
                of_tenant=self.of_tenant,
                pending=self.pending,
            )
        )

    def explain(self, keys: Sequence[str]) -> tuple[SettingView, ...]:
        """Returns these settings, explained."""
        values, pending = self.centre.values(self.tenant_id), self.pending
        derived = derive(values)
        return tuple(
            view_setting(
                key,
                values.get(key),
                self.centre.layers(self.tenant_id, key),
                derived,
                of_tenant=self.of_tenant,
                pending=key in pending,
            )
            for key in keys
        )

    def has(self, key: str) -> bool:
        """Returns whether the key is that of a setting that this scope sees."""
        return find(key) is not None and (not self.of_tenant or concerns_tenants(key))

    def group(self, key: str) -> tuple[dict[str, object], tuple[SettingView, ...]]:
        """Returns the settings below a key, as a tree and explained. `NotFound` if it is not the key of a group."""
        values = self.centre.values(self.tenant_id)
        below = [name for name in keys_of(values, of_tenant=self.of_tenant) if name.startswith(f"{key}.")]
        if not is_group(key) or (self.of_tenant and not below):
            why = "only the operator may see it" if find(key) is not None or is_group(key) else unknown(key)
            raise NotFound(f"{shorten(key)}: {why}")
        return tree(values, below), self.explain(below)

    def check_key(self, key: str) -> None:
        """Raises `NotFound` for a key that is neither of a setting nor of a group."""
        if find(key) is None and not is_group(key):
            raise NotFound(f"{shorten(key)}: {unknown(key)}")

    def edited(self, config: Mapping[str, object]) -> dict[str, object]:
        """Returns the changes in an edited tree of effective values."""
        return changed_leaves(config, self.centre.values(self.tenant_id))

    async def change(self, changes: Mapping[str, object], request: ChangeRequest) -> ChangeResult:
        return _shown(await self.centre.change(self.tenant_id, changes, request))

    async def rollback(self, to: int, request: ChangeRequest) -> ChangeResult:
        return _shown(await self.centre.rollback(self.tenant_id, to, request))

    async def history(self, *, before: int | None, limit: int) -> list[Change]:
        """Returns the changes, newest first, with values for display."""
        changes = await self.centre.store.settings(self.tenant_id).list(before=before, limit=limit)
        return [
            msgspec.structs.replace(
                change, changes={key: history.show_raw(key, raw) for key, raw in sorted(change.changes.items())}
            )
            for change in changes
        ]

    async def diff(self, since: int, to: int) -> Mapping[str, tuple[object, object]]:
        """Returns the values before and after of each setting that differs between two revisions."""
        before = await self.centre.state_at(self.tenant_id, since)
        return _pairs(history.between(before, await self.centre.state_at(self.tenant_id, to)))

    def describe(self, keys: Iterable[str]) -> str:
        """Names the scope and the settings for the audit log. An unknown key may be a secret in the wrong place."""
        names = sorted({key if find(key) is not None or is_group(key) else "unknown" for key in islice(keys, EDIT_KEYS_MAX)})
        where = self.tenant_id or "server"
        return f"{where}: {', '.join(names[:NAMED_KEYS_MAX])}" if names else where

    def schema(self) -> dict[str, object]:
        """Returns the JSON Schema of a configuration file."""
        return config_schema()


def _shown(result: ChangeResult) -> ChangeResult:
    return replace(result, changed=_pairs(result.changed))


def _pairs(changed: Mapping[str, tuple[object, object]]) -> dict[str, tuple[object, object]]:
    return {
        key: (history.show_raw(key, before), history.show_raw(key, after)) for key, (before, after) in sorted(changed.items())
    }
