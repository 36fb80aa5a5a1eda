"""People — suspends, deletes, binds and unbinds tenants and users, so that connected clients feel it at once.

Reading accounts and adding new ones needs only the store. Turns of suspended or deleted accounts are stopped, and
`StatusCheckingMeter` admits no model call for them when their turns are resumed.
"""

from collections.abc import Awaitable, Callable

from agentvm.errors import Conflict, Refused
from agentvm.model.account import Tenant, User
from agentvm.model.ids import DEFAULT_TENANT, Clock, ContainerId, TenantId, UserId, check_container_id
from agentvm.model.ledger import Planned
from agentvm.sharing.cache import Cache
from agentvm.storage.sql.store import Store
from agentvm.tenants.authentication import Authentication, Named, Why
from agentvm.tenants.metering import MeteredHold, Metering

STATUS_CACHE_MS = 5_000
STATUS_CACHE_MAX = 10_000

Stop = Callable[[TenantId, frozenset[ContainerId] | None], Awaitable[None]]
"""Ends the running and the queued turns in these containers of a tenant; None for all containers."""

Whom = tuple[TenantId, UserId | None]


async def _nothing_runs(tenant_id: TenantId, containers: frozenset[ContainerId] | None) -> None:
    pass


def _nothing_is_erased() -> None:
    pass


class AccountStatusCache:
    """Whether a tenant and its user are active, as far as was known within the last five seconds."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store, self._clock = store, clock
        self._known: Cache[Whom, bool] = Cache(STATUS_CACHE_MAX, age_ms=STATUS_CACHE_MS)
        self._changes = 0

    async def check(self, tenant_id: TenantId, user_id: UserId | None) -> None:
        """`Refused` when one of them is suspended or deleted."""
        whom, now = (tenant_id, user_id), self._clock()
        active = self._known.get(whom, now)
        if active is None:
            changes = self._changes
            active = await self._is_active(tenant_id, user_id)
            # A status that changed during the read is used this once and not cached.
            if changes == self._changes:
                self._known.put(whom, active, now)
        if not active:
            raise Refused("The tenant or the user is suspended or deleted")

    def forget(self) -> None:
        self._changes += 1
        self._known.clear()

    async def _is_active(self, tenant_id: TenantId, user_id: UserId | None) -> bool:
        tenant = await self._store.directory.get_tenant(tenant_id)
        # Turns are resumed before a new database has the default tenant, which requests without a key belong to.
        if tenant_id != DEFAULT_TENANT and (tenant is None or tenant.status != "active"):
            return False
        user = None if user_id is None else await self._store.accounts(tenant_id).users.get(user_id)
        return user_id is None or (user is not None and user.status == "active")


class StatusCheckingMeter:
    """A meter that admits no call for accounts that are not active; see `agentvm.runtime.billing.Meter`."""

    def __init__(self, meter: Metering, standing: AccountStatusCache) -> None:
        self._meter, self._standing = meter, standing

    async def admit(self, planned: Planned, *, force: bool = False) -> MeteredHold:
        """Admits a call. With `force` it was already made, and is counted in any case."""
        if not force:
            await self._standing.check(planned.tenant_id, planned.user_id)
        return await self._meter.admit(planned, force=force)


class People:
    """Writes to the store, then reports the ended rights to the authentication and stops the turns.

    `stop` is set by the runtime, which exists later; so is `erase`, which is called after a deletion.
    """

    def __init__(self, store: Store, access: Authentication, *, clock: Clock) -> None:
        self._store, self._access, self._clock = store, access, clock
        self.standing = AccountStatusCache(store, clock)
        self.stop: Stop = _nothing_runs
        self.erase: Callable[[], None] = _nothing_is_erased

    async def change_tenant(self, tenant_id: TenantId, modify: Callable[[Tenant], Tenant]) -> tuple[Tenant, Tenant] | None:
        """Changes as `Directory.change_tenant` does; a suspended tenant loses its sockets."""

        def spared(tenant: Tenant) -> Tenant:
            after = modify(tenant)
            if after.status != "active":
                _spare_default(tenant_id)
            return after

        changed = await self._store.directory.change_tenant(tenant_id, spared)
        is_suspended = changed is not None and changed[1].status != "active"
        if is_suspended:
            self._access.end(tenant_id, of_tenant(tenant_id), "suspended")
        self.standing.forget()
        if is_suspended:
            await self.stop(tenant_id, None)
        return changed

    async def delete_tenant(self, tenant_id: TenantId) -> bool:
        _spare_default(tenant_id)
        deleted = await self._store.directory.delete_tenant(tenant_id, self._clock())
        if deleted:
            self.erase()
            self._access.end(tenant_id, of_tenant(tenant_id))
            self.standing.forget()
            await self.stop(tenant_id, None)
        return deleted

    async def change_user(
        self, tenant_id: TenantId, user_id: UserId, modify: Callable[[User], User], *, keeps_owner: bool = False
    ) -> User | None:
        """Changes as `UserStore.change` does; a user who is suspended or has another role must authenticate again."""
        users = self._store.accounts(tenant_id).users
        changed = await users.change(user_id, modify, keeps_owner=keeps_owner)
        if changed is None:
            return None
        before, after = changed
        if (before.role, before.status) != (after.role, after.status):
            why: Why = "revoked" if after.status == "active" else "suspended"
            self._access.end(tenant_id, of_user(tenant_id, user_id), why)
            self.standing.forget()
            if after.status != "active":
                await self.stop(tenant_id, frozenset(await users.only_member_of(user_id)))
        return after

    async def delete_user(
        self,
        tenant_id: TenantId,
        user_id: UserId,
        *,
        check: Callable[[User], None] = lambda user: None,
        keeps_owner: bool = False,
    ) -> bool:
        """Deletes the user, their keys and their own containers, as `UserStore.delete` does.

        A user with a token of the identity provider is added again, without any data: suspend them instead.
        """
        users = self._store.accounts(tenant_id).users
        own_containers = frozenset(await users.only_member_of(user_id))
        deleted = await users.delete(user_id, self._clock(), check=check, keeps_owner=keeps_owner)
        if deleted:
            self.erase()
            self._access.end(tenant_id, of_user(tenant_id, user_id))
            self.standing.forget()
            await self.stop(tenant_id, own_containers)
        return deleted

    async def bind(self, tenant_id: TenantId, user_id: UserId, container_id: ContainerId) -> bool:
        """Binds the user; holds from their next request or connection on."""
        users = self._store.accounts(tenant_id).users
        already = check_container_id(container_id) in await users.bound(user_id)
        bound = await users.bind(user_id, container_id)
        if bound and not already:
            self._access.forget(tenant_id, of_user(tenant_id, user_id))
        return bound

    async def unbind(self, tenant_id: TenantId, user_id: UserId, container_id: ContainerId) -> bool:
        """At once: their sockets are closed."""
        unbound = await self._store.accounts(tenant_id).users.unbind(user_id, container_id)
        if unbound:
            self.unbound(tenant_id, user_id)
        return unbound

    def unbound(self, tenant_id: TenantId, user_id: UserId) -> None:
        """A container of theirs is not theirs any more: their sockets are closed."""
        self._access.end(tenant_id, of_user(tenant_id, user_id))


def of_tenant(tenant_id: TenantId) -> Named:
    return lambda principal: principal.tenant_id == tenant_id


def of_user(tenant_id: TenantId, user_id: UserId) -> Named:
    return lambda principal: (principal.tenant_id, principal.user_id) == (tenant_id, user_id)


def _spare_default(tenant_id: TenantId) -> None:
    if tenant_id == DEFAULT_TENANT:
        raise Conflict("The tenant default holds the operator's keys; it can neither be suspended nor deleted")
