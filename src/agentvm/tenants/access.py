"""Access — creates, rotates and revokes API keys.

A key is shown once, to its creator, and cannot be read again.
"""

from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from agentvm.errors import (
    ConfigInvalid,
    Conflict,
    ContainerForbidden,
    InvalidInput,
    NotFound,
    PermissionDenied,
    Unauthenticated,
    not_found,
)
from agentvm.log import get_logger
from agentvm.model.account import ApiKey, BrowserSession, Tenant, User, UserRole
from agentvm.model.ids import DEFAULT_TENANT, BrowserSessionId, KeyId, TenantId, UserId
from agentvm.model.principal import EVERYTHING, MEMBER, PERMISSIONS, Principal
from agentvm.model.secret import Secret
from agentvm.tenants import keys
from agentvm.tenants.authentication import Authentication, of_browser_session, of_key
from agentvm.tenants.rights import (
    DEFAULT_PERMISSIONS,
    check_covers_role,
    check_name,
    check_patterns,
    check_permissions,
    check_reach,
    default_permissions,
    earlier,
    lower_role,
)

logger = get_logger(__name__)

MAX_GRACE_SECONDS = 30 * 24 * 3600

FROM_ENVIRONMENT = "AVM_ADMIN_KEY"
"""`created_by` of the key that the operator configured; there is one at a time."""
FROM_BOOTSTRAP = "first start"
FROM_PROVIDER = "identity provider"
"""`created_by` of the keys of users who sign in with the identity provider."""
FROM_DATA_DIR = "data directory"

_OPERATORS = {"system:admin", "keys:admin"}


class Access(Authentication):
    """The keys of all tenants. The caller checks the permission to ask; this class checks which rights may be granted."""

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
        """Creates a key; returns its record, and the key to show once.

        A granter cannot grant more than it has: permissions, containers, a later expiry than its own credentials, or another
        tenant unless it operates the server. A user who does not administer the tenant creates keys for themselves only.
        Without `permissions` the key has those of the user's role as far as the granter has them, or those of a member.
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
        """Returns the default permissions of a new key."""
        own = granter.tenant_id == tenant_id or granter.may("system:admin")
        user = await self._store.accounts(tenant_id).users.get(user_id) if own and user_id is not None else None
        return tuple(MEMBER if user is None else default_permissions(user.role, granter))

    async def rotate(
        self, tenant_id: TenantId, key_id: KeyId, grace_seconds: int, *, granter: Principal
    ) -> tuple[ApiKey, Secret]:
        """Creates a key with the same rights and the same expiry; the old one expires after the grace period, or at once
        without one.

        The caller learns a key with the old key's rights, so rotating takes the same rights as issuing it.
        """
        if not 0 <= grace_seconds <= MAX_GRACE_SECONDS:
            raise InvalidInput(f"graceSeconds must be 0 to {MAX_GRACE_SECONDS}, not {grace_seconds}")
        now = self._clock()
        old = await self._store.accounts(tenant_id).keys.get(key_id)
        if old is None or not old.is_valid(now):
            raise not_found("Valid key", key_id)
        if key_id == granter.key_id:
            # Its holder has all of its rights already, including those that the user's role does not let them use.
            granter = replace(granter, permissions=granter.permissions | set(old.permissions))
        template = replace(old, created_by=granter.actor, created_at=now, last_used_at=None)
        key, digest, text = await self._prepare(template, granter)
        ends_at = None if grace_seconds == 0 else now + grace_seconds * 1000
        # In one commit: of two who rotate a key at once, one gets the new one.
        if not await self._store.accounts(tenant_id).keys.rotate(key_id, key, digest, now=now, ends_at=ends_at):
            raise not_found("Valid key", key_id)
        if ends_at is None:
            self.end(tenant_id, of_key(key_id))
        else:
            self.end_later(tenant_id, key_id, ends_at)
        return key, text

    async def revoke(self, tenant_id: TenantId, key_id: KeyId) -> bool:
        """Revokes the key and closes its sockets; False when there is no such key. `Conflict` for the operator's last key."""
        now = self._clock()

        def check(stored: Sequence[ApiKey]) -> None:
            if [key.key_id for key in stored if _is_operator(key, now)] == [key_id]:
                raise Conflict("This is the operator's last key; create another before you revoke it: avm key create")

        # Asked in the same commit: otherwise two operators could revoke each other's keys at once, and lock both out.
        spared = check if tenant_id == DEFAULT_TENANT else None
        revoked = await self._store.accounts(tenant_id).keys.revoke(key_id, now, check=spared)
        if revoked:
            self.end(tenant_id, of_key(key_id))
        return revoked

    async def sign_in(self, principal: Principal, user_agent: str) -> tuple[BrowserSession, Secret]:
        """Signs a browser in with a key; returns the session, and its cookie to be sent once."""
        if principal.key_id is None or principal.browser_session_id is not None:
            raise InvalidInput("Sign in with an API key")
        session, cookie, ended = await self.browser_sessions.add(principal, user_agent)
        for session_id in ended:
            self.end(principal.tenant_id, of_browser_session(session_id))
        return session, cookie

    async def vouch(self, user: User, provider: str, ends_at: int) -> Principal:
        """Returns a user that the identity provider vouches for, as the holder of a key that is not disclosed.

        The browser sessions of the user belong to that key. It ends when the provider has not vouched again by then.
        """
        now, stored = self._clock(), self._store.accounts(user.tenant_id).keys
        for key in await stored.list(user_id=user.user_id):
            is_vouched = (key.created_by, key.revoked_at, key.role) == (FROM_PROVIDER, None, user.role)
            if is_vouched and key.expires_at is not None and key.expires_at > now:
                await stored.extend(key.key_id, ends_at)
                self.forget(user.tenant_id, of_key(key.key_id))
                return await self._vouched(replace(key, expires_at=max(key.expires_at, ends_at)))
        key_id, text = keys.make_key(self._random_bits)
        key = ApiKey(
            key_id=key_id,
            tenant_id=user.tenant_id,
            name=provider,
            user_id=user.user_id,
            role=user.role,
            permissions=tuple(name for name in PERMISSIONS if name in DEFAULT_PERMISSIONS[user.role]),
            expires_at=ends_at,
            created_by=FROM_PROVIDER,
            created_at=now,
        )
        await stored.drop_ended(user.user_id, FROM_PROVIDER, now)
        await stored.add(key, keys.digest(self._pepper, text))
        return await self._vouched(key)

    async def _vouched(self, key: ApiKey) -> Principal:
        owner = await self._owner(key)
        if not isinstance(owner, Principal):
            raise Unauthenticated("The account is suspended", details={"reason": "suspended"})
        return owner

    async def sign_out(self, principal: Principal, session_id: BrowserSessionId) -> bool:
        """Ends one of the principal's own sessions and closes its sockets; False when there is no such session."""
        if not await self.browser_sessions.drop(principal, session_id):
            return False
        self.end(principal.tenant_id, of_browser_session(session_id))
        return True

    async def bootstrap(self, admin_key: Secret | None) -> Secret | None:
        """Ensures that the tenant `default` and an operator key exist.

        A configured admin key is always installed. Otherwise a server without a valid operator key gets one, which is returned
        to be shown once: keys of other users do not let the operator in.
        """
        await self.ensure_default_tenant()
        if admin_key is not None:
            await self._install(admin_key)
            return None
        now = self._clock()
        if any(_is_operator(key, now) for key in await self._store.accounts(DEFAULT_TENANT).keys.list()):
            return None
        return await self.make_operator("first key", FROM_BOOTSTRAP)

    async def make_operator(self, name: str, created_by: str) -> Secret:
        """Creates another operator key, for a caller that has the data directory anyway."""
        await self.ensure_default_tenant()
        key_id, text = keys.make_key(self._random_bits)
        await self._add_operator(key_id, text, check_name(name), created_by)
        return text

    async def revoke_unshown(self, first: Secret) -> None:
        """Revokes a first key that was never shown because the server did not start; the next start creates another."""
        key = keys.parse_key(first.reveal())
        if key is not None:
            await self._store.accounts(DEFAULT_TENANT).keys.revoke(key.key_id, self._clock())

    async def _make(self, template: ApiKey, granter: Principal) -> tuple[ApiKey, Secret]:
        key, digest, text = await self._prepare(template, granter)
        await self._store.accounts(key.tenant_id).keys.add(key, digest)
        return key, text

    async def _prepare(self, template: ApiKey, granter: Principal) -> tuple[ApiKey, bytes, Secret]:
        """Returns a key that the granter may create, with its digest and its text; it is not stored yet."""
        tenant_id = template.tenant_id
        foreign = granter.tenant_id != tenant_id and not granter.may("system:admin")
        if foreign or await self._store.directory.get_tenant(tenant_id) is None:
            raise not_found("Tenant", tenant_id)
        role = await self.check_manages(granter, template)
        permissions = check_permissions(template.permissions, granter)
        check_reach(await self._reach(template, granter), granter)
        key_id, text = keys.make_key(self._random_bits)
        expires_at = earlier(template.expires_at, granter.expires_at)
        key = replace(template, key_id=key_id, role=role, permissions=permissions, expires_at=expires_at)
        return key, keys.digest(self._pepper, text), text

    async def check_manages(self, granter: Principal, key: ApiKey) -> UserRole | None:
        """Refuses a principal that may not issue, rotate or revoke this key; otherwise returns the role that the key would
        have.

        A user's keys are managed by that user, and by principals whose own rights cover the user's role: otherwise the creator
        of an owner's key would become an owner.
        """
        own = _owns(granter, key)
        if not own and granter.user_id is not None and not granter.may("tenants:admin"):
            # A key without a user, or of another user, would escape the limits of its creator.
            raise PermissionDenied("tenants:admin")
        user = None if key.user_id is None else await self._store.accounts(key.tenant_id).users.get(key.user_id)
        if user is None:
            return None
        if own:
            return lower_role(granter.role or "viewer", user.role)
        check_covers_role(granter, user.role)
        return user.role

    async def sees(self, principal: Principal, key: ApiKey) -> bool:
        """Whether the principal may know of the key: its own, or with `keys:admin` one that reaches no more containers."""
        return _owns(principal, key) or (principal.may("keys:admin") and await self.covers(principal, key))

    async def check_may_revoke(self, principal: Principal, key: ApiKey) -> None:
        """Refuses to revoke another's key with more rights: otherwise an administrator could lock the operator out."""
        if not _owns(principal, key):
            check_permissions(key.permissions, principal)
            await self.check_manages(principal, key)

    async def covers(self, granter: Principal, key: ApiKey) -> bool:
        """Whether the principal reaches every container that the key reaches; the key of a deleted user reaches none."""
        try:
            check_reach(await self._reach(key, granter), granter)
        except ContainerForbidden:
            return False
        except NotFound:
            return True
        return True

    async def _reach(self, key: ApiKey, granter: Principal) -> tuple[str, ...] | None:
        """Returns the containers that the key will reach; for a user's key at first those of the user.

        The patterns of a key for another user count in full, because that user may be bound to more containers later.
        """
        if key.user_id is None:
            return key.containers
        user = await self._store.accounts(key.tenant_id).users.get(key.user_id)
        if user is None:
            raise not_found("User", key.user_id)
        own = (granter.tenant_id, granter.user_id) == (key.tenant_id, key.user_id)
        return await self.bound(user, key.containers) if own or key.containers is None else key.containers

    async def ensure_default_tenant(self) -> None:
        """Requests without authentication belong to the default tenant, so it always exists."""
        if await self._store.directory.get_tenant(DEFAULT_TENANT) is None:
            now = self._clock()
            tenant = Tenant(tenant_id=DEFAULT_TENANT, slug="default", name="Default", created_at=now, updated_at=now)
            await self._store.directory.add_tenant(tenant)

    async def _install(self, text: Secret) -> None:
        key = keys.parse_key(text.reveal())
        if key is None:
            raise ConfigInvalid("AVM_ADMIN_KEY is not a key, or has a typo. Create one with: avm key new")
        row = await self._store.directory.find_key(key.key_id)
        if row is None:
            await self._add_operator(key.key_id, text, "operator", FROM_ENVIRONMENT)
        else:
            self._check_operator(*row, text)
        for other in await self._store.accounts(DEFAULT_TENANT).keys.list():
            # Changing AVM_ADMIN_KEY, perhaps after a leak, must not leave the old key valid.
            if other.created_by == FROM_ENVIRONMENT and other.key_id != key.key_id and other.revoked_at is None:
                logger.warning("former_admin_key_revoked", key_id=other.key_id)
                await self.revoke(DEFAULT_TENANT, other.key_id)

    def _check_operator(self, key: ApiKey, stored: bytes, text: Secret) -> None:
        if not keys.matches(self._pepper, text, stored):
            raise ConfigInvalid(
                "AVM_ADMIN_KEY was installed under another server key. Start with that server key "
                "(AVM_SERVER_KEY, or the file in the data directory), or create a new admin key with: avm key new"
            )
        if key.revoked_at is not None or not EVERYTHING <= set(key.permissions) or key.user_id is not None:
            raise ConfigInvalid("AVM_ADMIN_KEY was revoked, or is not an operator's key. Create another with: avm key new")

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


def _is_operator(key: ApiKey, now: int) -> bool:
    """Whether a key of the tenant `default` is valid, can make others, and may do everything in all tenants."""
    return _OPERATORS <= set(key.permissions) and key.user_id is None and key.containers is None and key.is_valid(now)


def _owns(principal: Principal, key: ApiKey) -> bool:
    return principal.user_id is not None and (key.tenant_id, key.user_id) == (principal.tenant_id, principal.user_id)
