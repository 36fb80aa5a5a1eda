"""Access — authentication, and the keys it knows: makes, renews and ends them.

A key is shown once, to whom asked for it; nobody can read it again.
"""

from collections.abc import Iterable

from msgspec.structs import replace

from agentvm.errors import ConfigInvalid, Conflict, ContainerForbidden, InvalidInput, NotFound, PermissionDenied
from agentvm.log import get_logger
from agentvm.model.account import ApiKey, Role, Tenant
from agentvm.model.ids import DEFAULT_TENANT, KeyId, TenantId, UserId
from agentvm.model.principal import EVERYTHING, MEMBER, PERMISSIONS, Principal
from agentvm.model.secret import Secret
from agentvm.tenants import keys
from agentvm.tenants.authentication import Authentication, of_key
from agentvm.tenants.rights import (
    check_name,
    check_over,
    check_patterns,
    check_permissions,
    check_reach,
    earlier,
    lower,
    usual,
)

logger = get_logger(__name__)

MAX_GRACE_SECONDS = 30 * 24 * 3600

FROM_ENVIRONMENT = "AVM_ADMIN_KEY"
"""Who made the key that the operator gave: there is one at a time."""
FROM_BOOTSTRAP = "first start"
FROM_DATA_DIR = "data directory"

_OPERATORS = {"system:admin", "keys:admin"}


class Access(Authentication):
    """The keys of all tenants. Whether somebody may ask for it is decided by the caller; what they may give away, here."""

    async def issue(
        self,
        tenant_id: TenantId,
        *,
        name: str,
        granter: Principal,
        created_by: str | None = None,
        user_id: UserId | None = None,
        permissions: Iterable[str] | None = None,
        containers: Iterable[str] | None = None,
        expires_at: int | None = None,
    ) -> tuple[ApiKey, Secret]:
        """A new key: its record, and what is shown once.

        Nobody grants what they have not: permissions, containers, more time than their own credentials have, or another
        tenant unless they operate the server. A user who does not administer the tenant makes keys for themselves only.
        Without `permissions` it may what the user's role does, as far as the granter may, or what a member may.
        """
        now = self._clock()
        if expires_at is not None and expires_at <= now:
            raise InvalidInput("expiresAt is in the past")
        template = ApiKey(
            key_id=KeyId(""),
            tenant_id=tenant_id,
            name=check_name(name),
            user_id=user_id,
            permissions=await self._usual(tenant_id, user_id, granter) if permissions is None else tuple(permissions),
            containers=check_patterns(containers),
            expires_at=expires_at,
            created_by=created_by or granter.actor,
            created_at=now,
        )
        return await self._make(template, granter)

    async def _usual(self, tenant_id: TenantId, user_id: UserId | None, granter: Principal) -> tuple[str, ...]:
        """What a new key has if nothing is said."""
        own = granter.tenant_id == tenant_id or granter.may("system:admin")
        user = await self._store.accounts(tenant_id).users.get(user_id) if own and user_id is not None else None
        return tuple(MEMBER if user is None else usual(user.role, granter))

    async def rotate(
        self, tenant_id: TenantId, key_id: KeyId, grace_seconds: int, *, granter: Principal
    ) -> tuple[ApiKey, Secret]:
        """A new key with the same rights and the same end; the old one ends after the grace, without any at once.

        Who rotates a key learns one with its rights, so it takes the same as issuing it.
        """
        if not 0 <= grace_seconds <= MAX_GRACE_SECONDS:
            raise InvalidInput(f"graceSeconds must be 0 to {MAX_GRACE_SECONDS}, not {grace_seconds}")
        now = self._clock()
        old = await self._store.accounts(tenant_id).keys.get(key_id)
        if old is None or old.revoked_at is not None or (old.expires_at is not None and old.expires_at <= now):
            raise NotFound("There is no such key in force")
        template = replace(old, created_by=granter.actor, created_at=now, last_used_at=None)
        made = await self._make(template, granter)
        if grace_seconds == 0:
            await self.revoke(tenant_id, key_id)
        else:
            ends = now + grace_seconds * 1000
            await self._store.accounts(tenant_id).keys.expire(key_id, ends)
            self.end_later(tenant_id, key_id, ends)
        return made

    async def revoke(self, tenant_id: TenantId, key_id: KeyId) -> bool:
        """Ends it at once, with its sockets; False when there is no such key. The operator's last one stays: `Conflict`."""
        await self._spare_last(tenant_id, key_id)
        found = await self._store.accounts(tenant_id).keys.revoke(key_id, self._clock())
        if found:
            self.end(tenant_id, of_key(key_id))
        return found

    async def _spare_last(self, tenant_id: TenantId, key_id: KeyId) -> None:
        """Who revokes the last key that may do everything has locked out everybody, themselves first."""
        if tenant_id == DEFAULT_TENANT and await self._operators() == [key_id]:
            raise Conflict("This is the operator's last key; make another before you revoke it: avm key create")

    async def _operators(self) -> list[KeyId]:
        """The keys in force that can make others and may do everything to all tenants."""
        now = self._clock()
        return [
            key.key_id
            for key in await self._store.accounts(DEFAULT_TENANT).keys.list()
            if _OPERATORS <= set(key.permissions)
            and (key.user_id, key.containers, key.revoked_at) == (None, None, None)
            and (key.expires_at is None or key.expires_at > now)
        ]

    async def bootstrap(self, admin_key: Secret | None) -> Secret | None:
        """Sees to it that the tenant `default` and a key of the operator exist.

        A key that the operator gave is installed, whatever else there is. Otherwise a server without a key of the operator that
        is in force gets one, which is returned to be shown once: keys of others do not let the operator in.
        """
        await self.ensure_default_tenant()
        if admin_key is not None:
            await self._install(admin_key)
            return None
        return None if await self._operators() else await self.make_operator("first key", FROM_BOOTSTRAP)

    async def make_operator(self, name: str, created_by: str) -> Secret:
        """A further key of the operator, for whoever holds the data directory anyway."""
        await self.ensure_default_tenant()
        key_id, text = keys.make_key(self._random_bits)
        await self._add_operator(key_id, text, check_name(name), created_by)
        return text

    async def take_back(self, first: Secret) -> None:
        """A first key that nobody was shown, because the server did not come up: the next start makes another."""
        key = keys.parse_key(first.reveal())
        if key is not None:
            await self._store.accounts(DEFAULT_TENANT).keys.revoke(key.key_id, self._clock())

    async def _make(self, template: ApiKey, granter: Principal) -> tuple[ApiKey, Secret]:
        tenant_id = template.tenant_id
        foreign = granter.tenant_id != tenant_id and not granter.may("system:admin")
        if foreign or await self._store.directory.get_tenant(tenant_id) is None:
            raise NotFound("There is no such tenant")
        role = await self.check_manages(granter, template)
        permissions = check_permissions(template.permissions, granter)
        check_reach(await self._reach(template, granter), granter)
        key_id, text = keys.make_key(self._random_bits)
        expires_at = earlier(template.expires_at, granter.expires_at)
        made = replace(template, key_id=key_id, role=role, permissions=permissions, expires_at=expires_at)
        await self._store.accounts(tenant_id).keys.add(made, keys.digest(self._pepper, text))
        return made, text

    async def check_manages(self, granter: Principal, key: ApiKey) -> Role | None:
        """Refuses a principal who may not issue, rotate or revoke such a key; the role that it would have otherwise.

        Keys of a user are for that user, and for those whose own rights cover the user's role: else whoever makes a key of an
        owner would be an owner.
        """
        own = granter.user_id is not None and (granter.tenant_id, granter.user_id) == (key.tenant_id, key.user_id)
        if not own and granter.user_id is not None and not granter.may("tenants:admin"):
            # A key without a user, or another's, would escape the limits of who made it.
            raise PermissionDenied("tenants:admin")
        user = None if key.user_id is None else await self._store.accounts(key.tenant_id).users.get(key.user_id)
        if user is None:
            return None
        if own:
            return lower(granter.role or "viewer", user.role)
        check_over(granter, user.role)
        return user.role

    async def covers(self, granter: Principal, key: ApiKey) -> bool:
        """Whether the key reaches nothing that the principal does not reach; one of a user who is gone reaches nothing."""
        try:
            check_reach(await self._reach(key, granter), granter)
        except ContainerForbidden:
            return False
        except NotFound:
            return True
        return True

    async def _reach(self, key: ApiKey, granter: Principal) -> tuple[str, ...] | None:
        """What the key will reach: of a user's, at first what the user has.

        What a key for somebody else names counts as well, because they may be bound to it later.
        """
        if key.user_id is None:
            return key.containers
        user = await self._store.accounts(key.tenant_id).users.get(key.user_id)
        if user is None:
            raise NotFound("There is no such user")
        own = (granter.tenant_id, granter.user_id) == (key.tenant_id, key.user_id)
        return await self.bound(user, key.containers) if own or key.containers is None else key.containers

    async def ensure_default_tenant(self) -> None:
        """Who comes without authentication belongs to it, so it is there in any case."""
        if await self._store.directory.get_tenant(DEFAULT_TENANT) is None:
            now = self._clock()
            tenant = Tenant(tenant_id=DEFAULT_TENANT, slug="default", name="Default", created_at=now, updated_at=now)
            await self._store.directory.add_tenant(tenant)

    async def _install(self, text: Secret) -> None:
        key = keys.parse_key(text.reveal())
        if key is None:
            raise ConfigInvalid("AVM_ADMIN_KEY is not a key, or has a typo. Make one with: avm key new")
        found = await self._store.directory.find_key(key.key_id)
        if found is None:
            await self._add_operator(key.key_id, text, "operator", FROM_ENVIRONMENT)
        else:
            self._check_operator(*found, text)
        for other in await self._store.accounts(DEFAULT_TENANT).keys.list():
            # Who changes AVM_ADMIN_KEY, perhaps because it leaked, must not have to think of the old one.
            if other.created_by == FROM_ENVIRONMENT and other.key_id != key.key_id and other.revoked_at is None:
                logger.warning("former_admin_key_revoked", key_id=other.key_id)
                await self.revoke(DEFAULT_TENANT, other.key_id)

    def _check_operator(self, key: ApiKey, stored: bytes, text: Secret) -> None:
        if not keys.matches(self._pepper, text, stored):
            raise ConfigInvalid(
                "AVM_ADMIN_KEY was installed under another server key. Start with the server key of then "
                "(AVM_SERVER_KEY, or the file in the data directory), or make a new admin key with: avm key new"
            )
        if key.revoked_at is not None or not EVERYTHING <= set(key.permissions) or key.user_id is not None:
            raise ConfigInvalid("AVM_ADMIN_KEY was revoked, or is not an operator's key. Make another with: avm key new")

    async def _add_operator(self, key_id: KeyId, text: Secret, name: str, created_by: str) -> None:
        key = ApiKey(
            key_id=key_id,
            tenant_id=DEFAULT_TENANT,
            name=name,
            permissions=PERMISSIONS,
            created_by=created_by,
            created_at=self._clock(),
        )
        await self._store.accounts(DEFAULT_TENANT).keys.add(key, keys.digest(self._pepper, text))
        logger.info("operator_key_added", key_id=key_id, created_by=created_by)
