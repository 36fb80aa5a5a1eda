"""Config centre — the effective settings of a running server and of its tenants, and changes at run time.

Theory of operation. The base layers are fixed at the start: file, variables and flags. Above them lie the overrides, which
follow from the stored changes; above those, each tenant's own values. A change is checked as a whole, together with all
settings that it does not touch; then it is applied, then stored. A change that cannot be applied is not stored, and one that
cannot be stored is reverted. Changes are made one at a time. The settings of a turn (`settings_of`, `default_of`) are looked
up, not computed.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, TypeVarTuple

import anyio

from agentvm.config import history
from agentvm.config.build import assemble, build
from agentvm.config.catalogue import find
from agentvm.config.edits import Edit, check_rights, check_server, check_tenant, read_edit
from agentvm.config.history import Sealer, State
from agentvm.config.layers import Layer, ResolvedValue, Values, merge, overlay, shadowed
from agentvm.config.server import ServerConfig
from agentvm.errors import AgentVMError, ConfigInvalid, DriverNotFound, InvalidInput, PreconditionFailed, StoreFailed, shorten
from agentvm.log import get_logger
from agentvm.model.ids import Clock, TenantId
from agentvm.model.setting import ChangeRequest, ChangeResult
from agentvm.model.settings import Settings
from agentvm.storage.settings import Change
from agentvm.storage.sql.store import Store

logger = get_logger(__name__)

Configs = TypeVarTuple("Configs")


class Follower(Protocol):
    """Applies changed settings to a running server."""

    async def attempt(self, config: ServerConfig) -> None:
        """Raises the error that applying the config would raise; changes nothing."""

    async def follow(self, before: ServerConfig, after: ServerConfig) -> None:
        """Applies all changes, or none and raises."""


ModelCheck = Callable[[TenantId, str], Awaitable[str | None]]
"""Returns why a tenant cannot use a model, and the remedy; None when it can."""

NO_OVERRIDES = "start with --no-overrides to ignore changes made at run time"


@dataclass(slots=True)
class _Scope:
    """The overrides of the server, or of a tenant."""

    revision: int
    state: State
    layer: Layer


class ConfigCentre:
    """The settings of one server."""

    def __init__(self, base: Sequence[Layer], store: Store, sealer: Sealer, clock: Clock, *, ignore: bool = False) -> None:
        """`ignore` leaves the server's own overrides aside until the next change."""
        self._base = tuple(base)
        self.store, self._sealer, self._clock = store, sealer, clock
        self._ignore = ignore
        self._scopes: dict[TenantId | None, _Scope] = {}
        self._lock = anyio.Lock()
        self._follower: Follower | None = None
        self._model_check: ModelCheck | None = None
        self._start: Values = {}
        self._system: Values = {}
        self._tenants: dict[TenantId, Settings] = {}
        self._defaults: dict[TenantId, str] = {}
        self.config = ServerConfig()
        """The settings that the server runs with: those that need a restart are as they were at its start."""

    async def load(self) -> None:
        """Reads the stored changes; to be awaited once, before all else."""
        by_scope: dict[TenantId | None, list[Change]] = {None: []}
        for tenant_id, change in await self.store.read_settings():
            by_scope.setdefault(tenant_id, []).append(change)
        for tenant_id, changes in by_scope.items():
            state = history.in_force(history.replay(changes))
            revision = changes[-1].revision if changes else 0
            if tenant_id is None and self._ignore:
                self._scopes[None] = _Scope(revision, state, Layer("override"))
            else:
                self._scopes[tenant_id] = _Scope(revision, state, self._opened(tenant_id, state))
        layers = self._layers()
        try:
            self._start = self._system = merge(layers)
            self.config = build(self._start, layers=layers)
        except ConfigInvalid as error:
            raise self.blamed(error) from None
        self._look_up()
        for key, hidden in self.shadowed.items():
            remedy = f"avm config explain {key}"
            logger.warning("setting_overridden", setting=key, layer=hidden.layer, place=hidden.source.place, remedy=remedy)
        for place, why in (ignored for layer in self._base for ignored in layer.ignored):
            logger.warning("variable_ignored", variable=place, reason=why)

    def blamed(self, error: ConfigInvalid) -> ConfigInvalid:
        """The error that keeps the server from starting, with the remedy if a change at run time may be to blame."""
        return ConfigInvalid(f"{error}; {NO_OVERRIDES}") if self.overridden else error

    def bind(self, follower: Follower, model_check: ModelCheck | None = None) -> None:
        """From now on changes are applied to the follower, and a tenant's choice of a model is checked."""
        self._follower, self._model_check = follower, model_check

    def settings_of(self, tenant_id: TenantId | None) -> Settings:
        """The effective settings of a tenant; with None those of the server."""
        return self.config if tenant_id is None else self._tenants.get(tenant_id, self.config)

    def default_of(self, tenant_id: TenantId) -> str | None:
        """The model that answers for a tenant by default; None for the server's default."""
        return self._defaults.get(tenant_id)

    @property
    def overridden(self) -> bool:
        return bool(self._scopes[None].layer.values)

    @property
    def shadowed(self) -> dict[str, ResolvedValue]:
        """The values of files, variables and flags that overrides hide."""
        return shadowed(self._base, self._scopes[None].layer)

    @property
    def pending(self) -> tuple[str, ...]:
        """The changed settings that take effect with the next start."""
        return tuple(key for key in sorted({*self._system, *self._start}) if self._needs_restart(key, self._system))

    def revision(self, tenant_id: TenantId | None) -> int:
        return self._scope(tenant_id).revision

    def values(self, tenant_id: TenantId | None) -> Values:
        """The resolved values of the server, or of a tenant."""
        return self._system if tenant_id is None else overlay(self._system, self._scope(tenant_id).layer)

    def layers(self, tenant_id: TenantId | None, key: str) -> list[ResolvedValue]:
        """The values of a key in all layers, ordered by precedence, lowest first."""
        layers = (*self._layers(), *((self._scope(tenant_id).layer,) if tenant_id is not None else ()))
        default = merge(()).get(key)
        values = [ResolvedValue(layer.name, layer.values[key]) for layer in layers if key in layer.values]
        return values if default is None else [default, *values]

    async def change(self, tenant_id: TenantId | None, changes: Mapping[str, object], request: ChangeRequest) -> ChangeResult:
        """Changes the settings of a partial tree or of dotted keys; None removes an override."""
        async with self._lock:
            scope = self._scope(tenant_id)
            edit = read_edit(changes, scope.state)
            self._check(tenant_id, edit)
            new = {key: value for key, value in edit.items() if not self._has(tenant_id, key, value)}
            raw = {key: history.encode(tenant_id, key, value, self._sealer) for key, value in new.items()}
            return await self._commit(tenant_id, raw, request)

    async def rollback(self, tenant_id: TenantId | None, to: int, request: ChangeRequest) -> ChangeResult:
        """Restores the overrides of a revision by one more change."""
        async with self._lock:
            scope = self._scope(tenant_id)
            state = await self.state_at(tenant_id, to)
            raw = {key: pair[1] for key, pair in history.between(scope.state, state).items()}
            values = history.decode(tenant_id, {key: state[key] for key in raw if key in state}, self._sealer)
            self._check(tenant_id, {key: value.value for key, value in values.items()})
            note = request.note or f"back to revision {to}"
            return await self._commit(tenant_id, raw, replace(request, note=note))

    async def catch_up(self, tenant_id: TenantId | None) -> None:
        """Applies changes that another node has stored; raises the error that prevents it."""
        async with self._lock:
            scope = self._scope(tenant_id)
            changes = await self.store.settings(tenant_id).read()
            if not changes or changes[-1].revision <= scope.revision:
                return
            state = history.in_force(history.replay(changes))
            new = _Scope(changes[-1].revision, state, self._layer(tenant_id, state))
            with anyio.CancelScope(shield=True):
                await self._switch(tenant_id, new, None)
            logger.info("settings_followed", tenant_id=tenant_id, revision=new.revision)

    async def state_at(self, tenant_id: TenantId | None, revision: int) -> State:
        """The overrides after a revision; 0 is before the first."""
        last = self._scope(tenant_id).revision
        if not 0 <= revision <= last:
            raise InvalidInput(f"There is no revision {revision}; the last one is {last}")
        return history.replay(await self.store.settings(tenant_id).read(until=revision))

    def forget(self, tenant_id: TenantId) -> None:
        """Drops the settings of a deleted tenant."""
        self._scopes.pop(tenant_id, None)
        self._tenants.pop(tenant_id, None)
        self._defaults.pop(tenant_id, None)

    def _has(self, tenant_id: TenantId | None, key: str, value: object) -> bool:
        """Whether the override has that value already. One that cannot be unsealed any more is replaced."""
        state = self._scope(tenant_id).state
        try:
            current = history.decode(tenant_id, {key: state[key]} if key in state else {}, self._sealer).get(key)
        except (ConfigInvalid, StoreFailed):
            return False
        return (None if current is None else current.value) == value and (value is not None or key not in state)

    def _opened(self, tenant_id: TenantId | None, state: State) -> Layer:
        try:
            return self._layer(tenant_id, state)
        except (ConfigInvalid, StoreFailed) as error:
            raise ConfigInvalid(f"{error}; {NO_OVERRIDES}") from None

    def _check(self, tenant_id: TenantId | None, edit: Edit) -> None:
        if tenant_id is None:
            check_server(edit)
        else:
            check_tenant(edit, self._system)

    async def _commit(self, tenant_id: TenantId | None, raw: Mapping[str, object], request: ChangeRequest) -> ChangeResult:
        scope = self._scope(tenant_id)
        if request.revision is not None and request.revision != scope.revision:
            raise PreconditionFailed(
                f"The settings were changed in the meantime: they are at revision {scope.revision}, not {request.revision}; "
                "read them and try again",
                details={"revision": scope.revision},
            )
        check_rights(raw, request.actor)
        change = Change(
            revision=scope.revision + 1,
            at=self._clock(),
            actor=request.actor,
            request_id=request.request_id,
            note=request.note,
            changes=dict(raw),
        )
        state = {key: entry for key, entry in scope.state.items() if key not in raw} | history.replay([change])
        new = _Scope(change.revision, state, self._layer(tenant_id, state))
        changed = history.between(scope.state, state)
        if tenant_id is not None and any(key.startswith("llm.") for key in raw):
            await self._check_choice(tenant_id, new)
        if not raw or request.dry_run:
            config = self._try(tenant_id, new)
            if tenant_id is None and self._follower is not None:
                await self._attempt(self._follower.attempt, config)
            return self._outcome(tenant_id, scope.revision, changed, new)
        # A change that was begun is finished, even if the client goes away.
        with anyio.CancelScope(shield=True):
            await self._switch(tenant_id, new, change)
        logger.info("settings_changed", tenant_id=tenant_id, revision=change.revision, keys=sorted(raw), actor=change.actor)
        return self._outcome(tenant_id, change.revision, changed, new)

    async def _check_choice(self, tenant_id: TenantId, new: _Scope) -> None:
        """`InvalidInput` for a model that the tenant cannot use: each of its chats would fail."""
        try:
            chosen = _default(self.config, overlay(self._system, new.layer))
        except ConfigInvalid as error:
            raise InvalidInput(str(error)) from None
        if chosen is not None and self._model_check is not None and (why := await self._model_check(tenant_id, chosen)):
            raise InvalidInput(why)

    async def _switch(self, tenant_id: TenantId | None, new: _Scope, change: Change | None) -> None:
        """Applies the settings and stores the change, unless it is stored already."""
        before, config = self.config, self._try(tenant_id, new)
        follower = self._follower if tenant_id is None else None
        if follower is not None:
            await self._attempt(follower.follow, before, config)
        try:
            if change is not None:
                await self.store.settings(tenant_id).append(change)
        except AgentVMError:
            if follower is not None:
                await follower.follow(config, before)
            raise
        self._scopes[tenant_id] = new
        if tenant_id is None:
            self._system, self.config = merge(self._layers()), config
            self._look_up()
        else:
            self._look_up_tenant(tenant_id)

    async def _attempt(self, step: Callable[[*Configs], Awaitable[None]], *configs: *Configs) -> None:
        """An error that the new settings cause is the client's, not the server's."""
        try:
            await step(*configs)
        except (ConfigInvalid, DriverNotFound) as error:
            raise InvalidInput(str(error)) from None

    def _try(self, tenant_id: TenantId | None, new: _Scope) -> ServerConfig:
        """The config that the server would run with. `InvalidInput` when it is invalid."""
        try:
            if tenant_id is not None:
                _default(self.config, overlay(self._system, new.layer))
                return self.config
            layers = (*self._base, new.layer)
            system = merge(layers)
            # Checked as it would be after a restart, and as it is until then.
            build(system, layers=layers)
            config = build(self._running(system), layers=layers)
        except ConfigInvalid as error:
            raise InvalidInput(str(error)) from None
        return config

    def _running(self, system: Values) -> dict[str, ResolvedValue]:
        """The values that a running server has: live ones of now, others of its start."""
        live = {key: resolved for key, resolved in system.items() if _applies(key) == "live"}
        return live | {key: resolved for key, resolved in self._start.items() if _applies(key) != "live"}

    def _outcome(
        self, tenant_id: TenantId | None, revision: int, changed: Mapping[str, tuple[object, object]], new: _Scope
    ) -> ChangeResult:
        if tenant_id is not None:
            return ChangeResult(revision=revision, changed=changed, live=tuple(changed), restart=())
        system = merge((*self._base, new.layer))
        restart = tuple(key for key in changed if self._needs_restart(key, system))
        live = tuple(key for key in changed if _applies(key) == "live")
        return ChangeResult(revision=revision, changed=changed, live=live, restart=restart)

    def _needs_restart(self, key: str, system: Values) -> bool:
        before, after = self._start.get(key), system.get(key)
        changed = (None if before is None else before.value) != (None if after is None else after.value)
        return _applies(key) == "restart" and changed

    def _layers(self) -> tuple[Layer, ...]:
        return (*self._base, self._scopes[None].layer)

    def _layer(self, tenant_id: TenantId | None, state: State) -> Layer:
        return Layer("override" if tenant_id is None else "tenant", history.decode(tenant_id, state, self._sealer))

    def _scope(self, tenant_id: TenantId | None) -> _Scope:
        return self._scopes.get(tenant_id) or _Scope(0, {}, Layer("tenant"))

    def _look_up(self) -> None:
        self._tenants, self._defaults = {}, {}
        for tenant_id in self._scopes:
            if tenant_id is not None:
                self._look_up_tenant(tenant_id)

    def _look_up_tenant(self, tenant_id: TenantId) -> None:
        values = overlay(self._running(self._system), self._scope(tenant_id).layer)
        self._tenants[tenant_id] = assemble(values)
        self._defaults.pop(tenant_id, None)
        try:
            default = _default(self.config, values)
        except ConfigInvalid as error:
            # The operator has removed the model that the tenant had chosen: the server's default answers.
            logger.warning("default_of_tenant_gone", tenant_id=tenant_id, error=str(error))
            return
        if default is not None:
            self._defaults[tenant_id] = default


def _default(config: ServerConfig, values: Values) -> str | None:
    """The model of a tenant that has chosen one."""
    chosen = {key for key, resolved in values.items() if resolved.layer == "tenant" and key.startswith("llm.")}
    if not chosen:
        return None

    def text(key: str) -> str | None:
        return str(values[key].value) if key in values else None

    model = text("llm.model")
    if model is not None and "llm.model" in chosen and "llm.provider" not in chosen:
        # As an image's model: before a slash is its provider. Without one it is a model of the default provider.
        prefix, slash, _ = model.partition("/")
        if prefix in config.names:
            return model
        if slash:
            here = config.default_model.partition("/")[0]
            raise ConfigInvalid(
                f"llm.model is {shorten(model)!r}, and {shorten(prefix)!r} is not a provider; known providers: "
                f"{', '.join(config.names)}. For a model of {here} write {here}/{shorten(model)}"
            )
    return replace(config, llm=replace(config.llm, provider=text("llm.provider"), model=model)).default_model


def _applies(key: str) -> str | None:
    setting = find(key)
    return None if setting is None else setting.declaration.applies
