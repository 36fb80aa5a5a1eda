"""People — changes to tenants and users that take rights away or give them, so that whoever is connected feels it at once.

Reading them, and adding new ones, needs no more than the store.
"""

from agentvm.errors import Conflict
from agentvm.model.account import Tenant, User
from agentvm.model.ids import DEFAULT_TENANT, Clock, ContainerId, TenantId, UserId, check_container_id
from agentvm.tenants.authentication import AccountStore, Authentication, Named


class People:
    """Writes to the store, then tells the authentication whose rights changed."""

    def __init__(self, store: AccountStore, access: Authentication, *, clock: Clock) -> None:
        self._store, self._access, self._clock = store, access, clock

    async def update_tenant(self, tenant: Tenant) -> bool:
        """As `Directory.update_tenant`; one that is suspended loses its sockets."""
        if tenant.status != "active":
            _spare_default(tenant.tenant_id)
        found = await self._store.directory.update_tenant(tenant)
        if found and tenant.status != "active":
            self._access.end(of_tenant(tenant.tenant_id), "suspended")
        return found

    async def delete_tenant(self, tenant_id: TenantId) -> bool:
        _spare_default(tenant_id)
        found = await self._store.directory.delete_tenant(tenant_id, self._clock())
        if found:
            self._access.end(of_tenant(tenant_id))
        return found

    async def update_user(self, user: User) -> bool:
        """As `UserStore.update`; who is suspended or has another role is let in anew, if at all."""
        users = self._store.accounts(user.tenant_id).users
        before = await users.get(user.user_id)
        found = await users.update(user)
        if found and (before is None or (before.role, before.status) != (user.role, user.status)):
            self._access.end(of_user(user.tenant_id, user.user_id), "revoked" if user.status == "active" else "suspended")
        return found

    async def delete_user(self, tenant_id: TenantId, user_id: UserId) -> bool:
        """With their keys. Who comes with a token of the identity provider is entered anew: suspend them instead."""
        found = await self._store.accounts(tenant_id).users.delete(user_id, self._clock())
        if found:
            self._access.end(of_user(tenant_id, user_id))
        return found

    async def bind(self, tenant_id: TenantId, user_id: UserId, container_id: ContainerId) -> bool:
        """From their next request or connection on."""
        found = await self._store.accounts(tenant_id).users.bind(user_id, check_container_id(container_id))
        self._access.forget(of_user(tenant_id, user_id))
        return found

    async def unbind(self, tenant_id: TenantId, user_id: UserId, container_id: ContainerId) -> bool:
        """At once: their sockets are closed."""
        found = await self._store.accounts(tenant_id).users.unbind(user_id, container_id)
        if found:
            self._access.end(of_user(tenant_id, user_id))
        return found


def of_tenant(tenant_id: TenantId) -> Named:
    return lambda principal: principal.tenant_id == tenant_id


def of_user(tenant_id: TenantId, user_id: UserId) -> Named:
    return lambda principal: (principal.tenant_id, principal.user_id) == (tenant_id, user_id)


def _spare_default(tenant_id: TenantId) -> None:
    if tenant_id == DEFAULT_TENANT:
        raise Conflict("The tenant default holds the operator's keys; it can neither be suspended nor deleted")
