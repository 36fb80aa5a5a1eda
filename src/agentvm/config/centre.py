"""Centre — the settings of a running server: what counts, for whom, since when, and how it is changed.

Theory of operation. What the server was started with is fixed: its file, variables and flags. Above it lie the overrides,
which follow from the stored changes; above those, each tenant's own. A change is checked as a whole, together with
everything that it does not touch; then it is applied, then stored. What cannot be applied is not stored, and what cannot be
stored is taken back. Changes are made one at a time. What a turn asks for (`limits_of`, `default_of`) is looked up, not
worked out.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, TypeVarTuple

import anyio

from agentvm.config import history
from agentvm.config.build import build, build_limits, build_titles
from agentvm.config.catalogue import find
from agentvm.config.edits import Edit, check_rights, check_server, check_tenant, read_edit
from agentvm.config.history import Seals, State
from agentvm.config.layers import Found, Given, Layer, Values, merge, overlay, shadowed
from agentvm.config.server import ServerConfig, TitlesBy
from agentvm.errors import AgentVMError, ConfigInvalid, DriverNotFound, InvalidInput, PreconditionFailed, StoreFailed, shorten
from agentvm.log import get_logger
from agentvm.model.ids import Clock, TenantId
from agentvm.model.limits import Limits
from agentvm.model.secret import Secret
from agentvm.storage.base import Store
from agentvm.storage.settings import Change

logger = get_logger(__name__)

Configs = TypeVarTuple("Configs")


class Follower(Protocol):
    """Makes a running server follow its settings."""

    async def attempt(self, config: ServerConfig) -> None:
        """Raises what would keep it from following the config; changes nothing."""

    async def follow(self, before: ServerConfig, after: ServerConfig) -> None:
        """All or nothing: raises what keeps it from following."""


Unusable = Callable[[TenantId, str], Awaitable[str | None]]
"""What keeps a tenant from being answered by a model, and the remedy; None when nothing does."""

NO_OVERRIDES = "start with --no-overrides to go without what was changed at run time"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ordered:
    """Who asks for a change, and how."""

    actor: str
    request_id: str | None = None
    note: str | None = None
    revision: int | None = None
    """The one that they have seen: nothing is changed if there is a newer."""
    dry_run: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a change has done, or would do. Values are as they are stored."""

    revision: int
    changed: Mapping[str, tuple[object, object]]
    live: tuple[str, ...]
    restart: tuple[str, ...]


@dataclass(slots=True)
class _Scope:
    """The overrides of the server, or of a tenant."""

    revision: int
    state: State
    layer: Layer


class Centre:
    """One per server."""

    def __init__(self, base: Sequence[Layer], store: Store, seals: Seals, clock: Clock, *, ignore: bool = False) -> None:
        """`ignore` leaves the server's own overrides aside until the next change."""
        self._base = tuple(base)
        self._store, self._seals, self._clock = store, seals, clock
        self._ignore = ignore
        self._scopes: dict[TenantId | None, _Scope] = {}
        self._lock = anyio.Lock()
        self._follower: Follower | None = None
        self._unusable: Unusable | None = None
        self._start: Values = {}
        self._system: Values = {}
        self._limits: dict[TenantId | None, Limits] = {}
        self._defaults: dict[TenantId, str] = {}
        self.titles: dict[TenantId | None, TitlesBy] = {}
        """How sessions get their titles: of tenants that have said so, and of all others."""
        self.config = ServerConfig()
        """What the server runs with: settings that need a restart are as they were at its start."""

    async def load(self) -> None:
        """Reads the changes; to be awaited once, before anything is asked."""
        found: dict[TenantId | None, list[Change]] = {None: []}
        for tenant_id, change in await self._store.read_settings():
            found.setdefault(tenant_id, []).append(change)
        for tenant_id, changes in found.items():
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
            logger.warning("setting_overridden", setting=key, layer=hidden.layer, place=hidden.given.place, remedy=remedy)
        for place, why in (one for layer in self._base for one in layer.ignored):
            logger.warning("variable_ignored", variable=place, reason=why)

    def blamed(self, error: ConfigInvalid) -> ConfigInvalid:
        """What keeps the server from starting, with the remedy if a change at run time may be to blame."""
        return ConfigInvalid(f"{error}; {NO_OVERRIDES}") if self.overridden else error

    def bind(self, follower: Follower, unusable: Unusable | None = None) -> None:
        """From now on what runs follows the changes, and a tenant chooses among the models that it can have."""
        self._follower, self._unusable = follower, unusable

    def limits_of(self, tenant_id: TenantId | None) -> Limits:
        """What one turn of a tenant may use; None for what concerns the server."""
        return self._limits.get(tenant_id) or self._limits[None]

    def default_of(self, tenant_id: TenantId) -> str | None:
        """The model that answers for a tenant by default; None for the server's own."""
        return self._defaults.get(tenant_id)

    @property
    def overridden(self) -> bool:
        return bool(self._scopes[None].layer.given)

    @property
    def shadowed(self) -> dict[str, Found]:
        """What the overrides hide of a file, a variable or a flag."""
        return shadowed(self._base, self._scopes[None].layer)

    @property
    def pending(self) -> tuple[str, ...]:
        """What has another value since the start, and needs another start."""
        return tuple(key for key in sorted({*self._system, *self._start}) if self._needs_restart(key, self._system))

    def revision(self, tenant_id: TenantId | None) -> int:
        return self._scope(tenant_id).revision

    def values(self, tenant_id: TenantId | None) -> Values:
        """What counts for the server, or for a tenant."""
        return self._system if tenant_id is None else overlay(self._system, self._scope(tenant_id).layer)

    def layers(self, tenant_id: TenantId | None, key: str) -> list[Found]:
        """Every layer that has a value for a key, from the weakest on."""
        layers = (*self._layers(), *((self._scope(tenant_id).layer,) if tenant_id is not None else ()))
        weakest = merge(()).get(key)
        said = [Found(layer.name, layer.given[key]) for layer in layers if key in layer.given]
        return said if weakest is None else [weakest, *said]

    async def change(self, tenant_id: TenantId | None, changes: Mapping[str, object], ordered: Ordered) -> Outcome:
        """Takes a partial tree or dotted keys; None takes an override back."""
        async with self._lock:
            scope = self._scope(tenant_id)
            edit = read_edit(changes, scope.state)
            self._check(tenant_id, edit)
            fresh = {key: value for key, value in edit.items() if not self._has(tenant_id, key, value)}
            raw = {key: history.encode(tenant_id, key, value, self._seals) for key, value in fresh.items()}
            return await self._commit(tenant_id, raw, ordered)

    async def rollback(self, tenant_id: TenantId | None, to: int, ordered: Ordered) -> Outcome:
        """Makes the overrides what they were after a revision, by one more change."""
        async with self._lock:
            scope = self._scope(tenant_id)
            then = await self.state_at(tenant_id, to)
            raw = {key: pair[1] for key, pair in history.between(scope.state, then).items()}
            values = history.decode(tenant_id, {key: then[key] for key in raw if key in then}, self._seals)
            self._check(tenant_id, {key: given.value for key, given in values.items()})
            note = ordered.note or f"back to revision {to}"
            return await self._commit(tenant_id, raw, replace(ordered, note=note))

    async def state_at(self, tenant_id: TenantId | None, revision: int) -> State:
        """The overrides after a revision; 0 is before the first."""
        last = self._scope(tenant_id).revision
        if not 0 <= revision <= last:
            raise InvalidInput(f"There is no revision {revision}; the last one is {last}")
        return history.replay(await self._store.settings(tenant_id).read(until=revision))

    def forget(self, tenant_id: TenantId) -> None:
        """A tenant was deleted: nothing of it counts any more."""
        self._scopes.pop(tenant_id, None)
        self._limits.pop(tenant_id, None)
        self._defaults.pop(tenant_id, None)
        self.titles.pop(tenant_id, None)

    def _has(self, tenant_id: TenantId | None, key: str, value: object) -> bool:
        """Whether the override is that already. One that cannot be opened any more is replaced."""
        state = self._scope(tenant_id).state
        try:
            given = history.decode(tenant_id, {key: state[key]} if key in state else {}, self._seals).get(key)
        except (ConfigInvalid, StoreFailed):
            return False
        return _same(None if given is None else given.value, value) and (value is not None or key not in state)

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

    async def _commit(self, tenant_id: TenantId | None, raw: Mapping[str, object], ordered: Ordered) -> Outcome:
        scope = self._scope(tenant_id)
        if ordered.revision is not None and ordered.revision != scope.revision:
            raise PreconditionFailed(
                f"The settings were changed meanwhile: they are at revision {scope.revision}, not {ordered.revision}; "
                "look at them and try again",
                details={"revision": scope.revision},
            )
        check_rights(raw, ordered.actor)
        change = Change(
            revision=scope.revision + 1,
            at=self._clock(),
            actor=ordered.actor,
            request_id=ordered.request_id,
            note=ordered.note,
            changes=dict(raw),
        )
        state = {key: entry for key, entry in scope.state.items() if key not in raw} | history.replay([change])
        made = _Scope(change.revision, state, self._layer(tenant_id, state))
        changed = history.between(scope.state, state)
        if tenant_id is not None and any(key.startswith("llm.") for key in raw):
            await self._check_choice(tenant_id, made)
        if not raw or ordered.dry_run:
            config = self._try(tenant_id, made)
            if tenant_id is None and self._follower is not None:
                await self._attempt(self._follower.attempt, config)
            return self._outcome(tenant_id, scope.revision, changed, made)
        # Whoever asked may go away; what was begun is finished, or nobody knew what counts.
        with anyio.CancelScope(shield=True):
            await self._switch(tenant_id, made, change)
        logger.info("settings_changed", tenant_id=tenant_id, revision=change.revision, keys=sorted(raw), actor=change.actor)
        return self._outcome(tenant_id, change.revision, changed, made)

    async def _check_choice(self, tenant_id: TenantId, made: _Scope) -> None:
        """Each of its chats would fail otherwise, and nobody would know why."""
        try:
            chosen = _default(self.config, overlay(self._system, made.layer))
        except ConfigInvalid as error:
            raise InvalidInput(str(error)) from None
        if chosen is not None and self._unusable is not None and (why := await self._unusable(tenant_id, chosen)):
            raise InvalidInput(why)

    async def _switch(self, tenant_id: TenantId | None, made: _Scope, change: Change) -> None:
        before, config = self.config, self._try(tenant_id, made)
        follower = self._follower if tenant_id is None else None
        if follower is not None:
            await self._attempt(follower.follow, before, config)
        try:
            await self._store.settings(tenant_id).append(change)
        except AgentVMError:
            if follower is not None:
                await follower.follow(config, before)
            raise
        self._scopes[tenant_id] = made
        if tenant_id is None:
            self._system, self.config = merge(self._layers()), config
            self._look_up()
        else:
            self._look_up_tenant(tenant_id)

    async def _attempt(self, step: Callable[[*Configs], Awaitable[None]], *configs: *Configs) -> None:
        """What the new settings themselves make impossible is the asker's fault, not the server's."""
        try:
            await step(*configs)
        except (ConfigInvalid, DriverNotFound) as error:
            raise InvalidInput(str(error)) from None

    def _try(self, tenant_id: TenantId | None, made: _Scope) -> ServerConfig:
        """What the server would run with. `InvalidInput` when that cannot be."""
        try:
            if tenant_id is not None:
                _default(self.config, overlay(self._system, made.layer))
                return self.config
            layers = (*self._base, made.layer)
            system = merge(layers)
            # As it would be after a restart, and as it is until then.
            _ = build(system, layers=layers).wanted
            config = build(self._running(system), layers=layers)
            _ = config.wanted
        except ConfigInvalid as error:
            raise InvalidInput(str(error)) from None
        return config

    def _running(self, system: Values) -> dict[str, Found]:
        """The values that a running server follows."""
        live = {key: found for key, found in system.items() if _applies(key) == "live"}
        return live | {key: found for key, found in self._start.items() if _applies(key) != "live"}

    def _outcome(
        self, tenant_id: TenantId | None, revision: int, changed: Mapping[str, tuple[object, object]], made: _Scope
    ) -> Outcome:
        if tenant_id is not None:
            return Outcome(revision=revision, changed=changed, live=tuple(changed), restart=())
        system = merge((*self._base, made.layer))
        restart = tuple(key for key in changed if self._needs_restart(key, system))
        live = tuple(key for key in changed if _applies(key) == "live")
        return Outcome(revision=revision, changed=changed, live=live, restart=restart)

    def _needs_restart(self, key: str, system: Values) -> bool:
        before, after = self._start.get(key), system.get(key)
        same = _same(None if before is None else before.value, None if after is None else after.value)
        return _applies(key) == "restart" and not same

    def _layers(self) -> tuple[Layer, ...]:
        return (*self._base, self._scopes[None].layer)

    def _layer(self, tenant_id: TenantId | None, state: State) -> Layer:
        return Layer("override" if tenant_id is None else "tenant", history.decode(tenant_id, state, self._seals))

    def _scope(self, tenant_id: TenantId | None) -> _Scope:
        return self._scopes.get(tenant_id) or _Scope(0, {}, Layer("tenant"))

    def _look_up(self) -> None:
        self._limits = {None: build_limits(self._system)}
        self._defaults = {}
        self.titles = {None: build_titles(self._system)}
        for tenant_id in self._scopes:
            if tenant_id is not None:
                self._look_up_tenant(tenant_id)

    def _look_up_tenant(self, tenant_id: TenantId) -> None:
        values = overlay(self._system, self._scope(tenant_id).layer)
        self._limits[tenant_id] = build_limits(values)
        self.titles[tenant_id] = build_titles(values)
        self._defaults.pop(tenant_id, None)
        try:
            default = _default(self.config, values)
        except ConfigInvalid as error:
            # The operator has taken away what the tenant had chosen: the server's own model answers.
            logger.warning("default_of_tenant_gone", tenant_id=tenant_id, error=str(error))
            return
        if default is not None:
            self._defaults[tenant_id] = default


def _default(config: ServerConfig, values: Values) -> str | None:
    """The model of a tenant that has chosen one."""
    chosen = {key: found.given for key, found in values.items() if found.layer == "tenant" and key.startswith("llm.")}
    if not chosen:
        return None

    def text(key: str) -> str | None:
        found: Given | None = values[key].given if key in values else None
        return None if found is None else str(found.value)

    model = text("llm.model")
    if model is not None and "llm.model" in chosen and "llm.provider" not in chosen:
        # As an image's: before a slash is who answers. Without one it is a model of whoever answers here anyway.
        prefix, slash, _ = model.partition("/")
        if prefix in config.names:
            return model
        if slash:
            here = config.default_model.partition("/")[0]
            raise ConfigInvalid(
                f"llm.model is {shorten(model)!r}, and {shorten(prefix)!r} is no provider here; known providers: "
                f"{', '.join(config.names)}. For a model of {here} write {here}/{shorten(model)}"
            )
    return replace(config, llm_provider=text("llm.provider"), llm_model=model).default_model


def _applies(key: str) -> str | None:
    setting = find(key)
    return None if setting is None else setting.about.applies


def _same(one: object, other: object) -> bool:
    if isinstance(one, Secret) and isinstance(other, Secret):
        return one.reveal() == other.reveal()
    return one == other
