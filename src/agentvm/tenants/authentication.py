"""Authentication — turns a credential into a `Principal`, and is the only place that does.

A credential is an API key, the cookie of a browser session, a ticket for one WebSocket, or a token of the operator's identity
provider. A caller that proves to hold a credential which was valid once is told why it is not any more. Every other caller
gets the same error for every reason; the reason is logged, with the id of the key and never with the credential.

A valid credential is cached for half a minute, so that not every request asks the database: a change by another process is
noticed after that time at the latest. Code that ends a right in this process calls `end`: the cache is cleared, and the server
closes the affected sockets.
"""

import secrets
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Literal

from msgspec.structs import replace

from agentvm.errors import Conflict, Refused, Unauthenticated
from agentvm.log import get_logger
from agentvm.model.account import ApiKey, User
from agentvm.model.ids import BrowserSessionId, Clock, KeyId, TenantId, UserId, id_factory
from agentvm.model.principal import EVERYTHING, Principal
from agentvm.model.secret import Secret
from agentvm.sharing.cache import Cache
from agentvm.storage.sql.store import Store
from agentvm.storage.sql.tickets import TicketStore
from agentvm.tenants import browser_sessions, keys, tickets
from agentvm.tenants.browser_sessions import BrowserSessions
from agentvm.tenants.invitations import Invitations
from agentvm.tenants.keys import ParsedKey, RandomBits
from agentvm.tenants.rights import CAPS, DEFAULT_PERMISSIONS, first_containers, lower_role, reachable_patterns
from agentvm.tenants.tickets import Tickets

if TYPE_CHECKING:
    from agentvm.tenants.oidc import Claims, Oidc  # It costs 0.1 s, and few servers need it.

logger = get_logger(__name__)

REFUSED = "Provide a valid API key: 'Authorization: Bearer <key>'"
UNKNOWN = "This API key is not valid; check that it was copied completely, or ask an administrator for one (avm key create)"
REASONS: dict[str, tuple[str, str]] = {
    "revoked": ("revoked", "This API key was revoked; use another, or ask an administrator for one (avm key create)"),
    "expired": ("expired", "These credentials have expired; use others, or ask an administrator for a key (avm key create)"),
    "tenant_suspended": ("suspended", "The tenant of these credentials is suspended; ask the operator of the server"),
    "session_idle": ("expired", "This session was not used for 14 days; sign in again"),
    "signed_out": ("signed_out", "You were signed out on this device; sign in again"),
    "user_suspended": ("suspended", "The user of these credentials is suspended; ask an administrator of the tenant"),
}
"""The code for programs and the text, by reason. Only for callers that hold the credential: a stranger learns nothing."""

CREDENTIAL_MAX = 16_384
RECENT_MS = 30_000
RECENT_MAX = 10_000
"""Valid credentials that are cached, and for how long."""
READ_ATTEMPTS_MAX = 5
"""Attempts to read a credential while the rights of its tenant change."""

Why = Literal["revoked", "suspended"]
Named = Callable[[Principal], bool]
Ended = Callable[[Named, Why], None]
"""Receives the principals whose rights have ended, and the reason. Must not wait."""

Matches = Callable[[bytes, Secret, bytes], bool]

_NO_DIGEST = bytes(keys.DIGEST_BYTES)


@dataclass(frozen=True, slots=True)
class Verified:
    """A valid credential. `digest` is that of the key, which is itself nowhere kept. A ticket has no name and is not cached."""

    principal: Principal
    name: str | None = None
    digest: bytes = b""


@dataclass(frozen=True, slots=True)
class _RefusedCredential:
    reason: str


class Authentication:
    """Authenticates credentials. `ended` is called when rights end; `matches` is a parameter so that a test can count its
    calls."""

    def __init__(
        self,
        store: Store,
        *,
        pepper: bytes,
        clock: Clock,
        random_bits: RandomBits = secrets.randbits,
        oidc: "Oidc | None" = None,
        ended: Ended = lambda named, why: None,
        matches: Matches = keys.matches,
        recent: Cache[str, Verified] | None = None,
        shared_tickets: TicketStore | None = None,
    ) -> None:
        self._store, self._pepper, self._clock, self._oidc = store, pepper, clock, oidc
        self._ended, self._matches = ended, matches
        self._random_bits = random_bits
        self._new_id = id_factory(clock, random_bits)
        self._recent = Cache[str, Verified](RECENT_MAX, age_ms=RECENT_MS) if recent is None else recent
        self._tickets, self._shared_tickets = Tickets(pepper, clock, random_bits), shared_tickets
        self.browser_sessions = BrowserSessions(store, pepper, clock, random_bits, self._new_id)
        self.invitations = Invitations(store, pepper, clock, random_bits, self._new_id)
        self._used: dict[KeyId, tuple[TenantId, int]] = {}
        self._ending: dict[KeyId, tuple[TenantId, int]] = {}
        self._changes = 0
        self._changed: dict[TenantId, int] = {}

    async def authenticate(self, credential: str) -> Principal:
        """Returns the principal; `Unauthenticated` with the reason for the holder, `Refused` when rights change faster than
        they are read."""
        for _ in range(READ_ATTEMPTS_MAX):
            changes = self._changes
            examined = await self._examine(credential)
            # Rights of the tenant that ended during the read may make the result out of date: read again. Changes of other
            # tenants do not count, or one that changes its rights without end would keep all others out.
            if isinstance(examined, _RefusedCredential) or self._changed.get(examined.principal.tenant_id, 0) <= changes:
                break
        else:
            raise Refused("The rights of this tenant are being changed; try again in a moment")
        if isinstance(examined, Verified) and _has_ended(examined.principal, self._clock()):
            examined = _RefusedCredential("expired")
        if isinstance(examined, _RefusedCredential):
            key = keys.parse_key(credential)
            logger.info("authentication_refused", reason=examined.reason, key_id=key and key.key_id)
            word, text = REASONS.get(examined.reason, (None, UNKNOWN))
            raise Unauthenticated(text, details=None if word is None else {"reason": word})
        self._remember(examined)
        return examined.principal

    async def invited(self, token: str) -> Principal:
        """Returns the person who has the link of an invitation: a principal without rights. `Unauthenticated` for no link."""
        invitation = await self.invitations.find(token)
        return Principal(tenant_id=invitation.tenant_id, invitation_id=invitation.invitation_id, containers=())

    async def ws_token(self, principal: Principal) -> str:
        """A credential for one WebSocket within a minute, with the same rights; `Refused` when too many are outstanding."""
        if self._shared_tickets is not None:
            return await self._tickets.issue_shared(principal, self._shared_tickets)
        return self._tickets.issue(principal)

    async def _redeem(self, ticket: str) -> Principal | None:
        if self._shared_tickets is None:
            return self._tickets.redeem(ticket)
        owner = await self._tickets.redeem_shared(ticket, self._shared_tickets)
        # Another node may have ended or narrowed the rights since it was issued.
        now = None if owner is None else await self.recall(owner.tenant_id, owner.user_id, owner.key_id)
        if owner is None or now is None or not await self._is_signed_in(owner):
            return None
        if owner.key_id is None:
            # The role may be that of a provider's token, which no store has.
            return owner if owner.user_id is None else replace(owner, containers=now.containers)
        permissions = owner.permissions & now.permissions
        return replace(now, permissions=permissions, browser_session_id=owner.browser_session_id)

    async def _is_signed_in(self, owner: Principal) -> bool:
        """Whether the browser of a principal, if it is one, is still signed in."""
        if owner.browser_session_id is None:
            return True
        sessions = self._store.accounts(owner.tenant_id).browser_sessions
        signed_in = await sessions.list(owner.user_id, owner.key_id, idle_since=0, now=self._clock())
        return any(session.browser_session_id == owner.browser_session_id for session in signed_in)

    def end(self, tenant_id: TenantId, named: Named, why: Why = "revoked") -> None:
        """Forgets everything of them, and lets the server close their sockets. To be called when the store knows it."""
        self.forget(tenant_id, named)
        self._tickets.drop(named)
        self._ended(named, why)

    def forget(self, tenant_id: TenantId, named: Named) -> None:
        """Drops the cached credentials that `named` selects; open sockets stay."""
        self._changes += 1
        self._changed[tenant_id] = self._changes
        self._recent.drop_if(lambda _, recent: named(recent.principal))

    def end_later(self, tenant_id: TenantId, key_id: KeyId, at: int) -> None:
        """Marks a key that ends at that time: its sockets were opened before, so `flush_used` closes them afterwards."""
        self._ending[key_id] = (tenant_id, at)
        self.forget(tenant_id, of_key(key_id))

    async def flush_used(self) -> None:
        """Housekeeping: writes the last use of keys and browser sessions, and ends the keys whose grace period is over.

        After a failure the rest is written the next time.
        """
        now = self._clock()
        for key_id, (tenant_id, at) in tuple(self._ending.items()):
            if at <= now:
                del self._ending[key_id]
                self.end(tenant_id, of_key(key_id))
        await self.browser_sessions.flush()
        by_tenant: dict[TenantId, list[tuple[KeyId, int]]] = defaultdict(list)
        for key_id, (tenant_id, at) in self._used.items():
            by_tenant[tenant_id].append((key_id, at))
        for tenant_id, used in by_tenant.items():
            await self._store.accounts(tenant_id).keys.touch(used)
            for key_id, at in used:
                if self._used.get(key_id) == (tenant_id, at):
                    del self._used[key_id]

    async def bound(self, user: User, patterns: tuple[str, ...] | None = None) -> tuple[str, ...]:
        """Returns the containers of a user as patterns, limited to those that match the patterns of their key.

        No container is bound here: a user who was unbound from the last one must stay out.
        """
        return reachable_patterns(await self._store.accounts(user.tenant_id).users.bound(user.user_id), patterns)

    async def add_user(self, user: User) -> None:
        """Adds a user together with their first container. `Conflict` when the id or the external id is taken.

        A user with the external id of a deleted user gets another container, so that nothing is inherited.
        """
        await self._store.accounts(user.tenant_id).users.add(user, first_containers(user))

    async def _examine(self, credential: str) -> Verified | _RefusedCredential:
        if (key := keys.parse_key(credential)) is not None:
            return await self._by_key(key)
        if len(credential) > CREDENTIAL_MAX:
            return _RefusedCredential("too_long")
        if credential.startswith(browser_sessions.PREFIX):
            return await self._by_cookie(credential)
        if credential.startswith(tickets.PREFIX):
            owner = await self._redeem(credential)
            return _RefusedCredential("ticket_unknown") if owner is None else Verified(owner)
        if self._oidc is not None and credential.count(".") == 2:
            return await self._by_token(self._oidc, credential)
        return _RefusedCredential("malformed")

    async def _by_key(self, key: ParsedKey) -> Verified | _RefusedCredential:
        """An unknown id takes the same path as a wrong secret, so that the response time tells nothing about ids."""
        recent = self._recent.get(key.key_id, self._clock())
        matched = self._matches(self._pepper, key.secret, _NO_DIGEST if recent is None else recent.digest)
        if matched and recent is not None:
            return Verified(recent.principal)
        row = await self._store.directory.find_key(key.key_id)
        record, stored = (None, _NO_DIGEST) if row is None else row
        right = self._matches(self._pepper, key.secret, stored)
        if record is None:
            return _RefusedCredential("key_unknown")
        if not right:
            return _RefusedCredential("secret_wrong")
        owner = await self._owner(record)
        return owner if isinstance(owner, _RefusedCredential) else Verified(owner, key.key_id, stored)

    async def recall(self, tenant_id: TenantId, user_id: UserId | None, key_id: KeyId | None) -> Principal | None:
        """Returns a principal of earlier with the rights that it has now, without its credentials; None if they have ended."""
        if key_id is not None:
            row = await self._store.directory.find_key(key_id)
            key = None if row is None else row[0]
            if key is None or (key.expires_at is not None and key.expires_at <= self._clock()):
                return None
            owner = await self._owner(key)
            return None if isinstance(owner, _RefusedCredential) else owner
        tenant = await self._store.directory.get_tenant(tenant_id)
        if tenant is None or tenant.status != "active":
            return None
        if user_id is None:
            # Authentication was off.
            return Principal(tenant_id=tenant_id, permissions=EVERYTHING)
        user = await self._store.accounts(tenant_id).users.get(user_id)
        if user is None or user.status != "active":
            return None
        containers, permissions = await self.bound(user), DEFAULT_PERMISSIONS[user.role]
        return Principal(tenant_id=tenant_id, user_id=user_id, role=user.role, permissions=permissions, containers=containers)

    async def _by_cookie(self, cookie: str) -> Verified | _RefusedCredential:
        digest = self.browser_sessions.digest(cookie)
        if (recent := self._recent.get(digest.hex(), self._clock())) is not None:
            return Verified(recent.principal)
        session = await self.browser_sessions.find(digest)
        row = None if session is None else await self._store.directory.find_key(session.key_id)
        if session is None or row is None:
            return _RefusedCredential("signed_out")
        if self.browser_sessions.is_idle(session):
            return _RefusedCredential("session_idle")
        owner = await self._owner(row[0])
        if isinstance(owner, _RefusedCredential):
            return owner
        return Verified(replace(owner, browser_session_id=session.browser_session_id), digest.hex())

    async def _owner(self, key: ApiKey) -> Principal | _RefusedCredential:
        if key.revoked_at is not None:
            return _RefusedCredential("revoked")
        tenant = await self._store.directory.get_tenant(key.tenant_id)
        if tenant is None or tenant.status != "active":
            return _RefusedCredential("tenant_unknown" if tenant is None else "tenant_suspended")
        containers, permissions, role = key.containers, frozenset(key.permissions), None
        if key.user_id is not None:
            user = await self._store.accounts(tenant.tenant_id).users.get(key.user_id)
            if user is None or user.status != "active":
                return _RefusedCredential("user_unknown" if user is None else "user_suspended")
            # A promotion of the user does not promote the holders of older keys.
            role = lower_role(key.role or "viewer", user.role)
            permissions &= CAPS[role]
            containers = await self.bound(user, containers)
        return Principal(
            tenant_id=tenant.tenant_id,
            user_id=key.user_id,
            role=role,
            key_id=key.key_id,
            permissions=permissions,
            containers=containers,
            expires_at=key.expires_at,
        )

    async def _by_token(self, oidc: "Oidc", token: str) -> Verified | _RefusedCredential:
        name = sha256(token.encode("utf-8", "surrogatepass")).hexdigest()
        if (recent := self._recent.get(name, self._clock())) is not None:
            return Verified(recent.principal)
        claims = await oidc.verify(token)
        if isinstance(claims, str):
            return _RefusedCredential(claims)
        tenant = await self._store.directory.find_tenant(claims.tenant)
        if tenant is None or tenant.status != "active":
            return _RefusedCredential("tenant_unknown" if tenant is None else "tenant_suspended")
        user = await self._user_of(tenant.tenant_id, claims)
        if user.status != "active":
            return _RefusedCredential("user_suspended")
        principal = Principal(
            tenant_id=tenant.tenant_id,
            user_id=user.user_id,
            # The role that the provider states holds for this token; the stored role stays for the user's keys.
            role=claims.role or user.role,
            permissions=DEFAULT_PERMISSIONS[claims.role or user.role],
            containers=await self.bound(user),
            expires_at=claims.expires_at,
        )
        return Verified(principal, name)

    async def user_of_claims(self, claims: "Claims") -> User | None:
        """Returns the user that a provider's claims name; None where there is no such tenant. A new user is added."""
        tenant = await self._store.directory.find_tenant(claims.tenant)
        return None if tenant is None else await self._user_of(tenant.tenant_id, claims)

    async def _user_of(self, tenant_id: TenantId, claims: "Claims") -> User:
        """Adds the user at first sight: a user that the provider vouches for needs no other invitation."""
        users = self._store.accounts(tenant_id).users
        while (user := await users.find(claims.user)) is None:
            now = self._clock()
            user = User(
                user_id=UserId(self._new_id("usr")),
                tenant_id=tenant_id,
                external_id=claims.user,
                role=claims.role or "member",
                created_at=now,
                updated_at=now,
            )
            try:
                await self.add_user(user)
            except Conflict:
                continue  # Two requests were their first.
            logger.info("user_first_seen", tenant_id=tenant_id, user_id=user.user_id)
            break
        return user

    def _remember(self, examined: Verified) -> None:
        now = self._clock()
        if examined.name is not None:
            self._recent.put(examined.name, examined, now)
        if examined.principal.key_id is not None:
            self._used[examined.principal.key_id] = (examined.principal.tenant_id, now)
        self.browser_sessions.note_use(examined.principal)


def of_key(key_id: KeyId) -> Named:
    return lambda principal: principal.key_id == key_id


def of_browser_session(session_id: BrowserSessionId) -> Named:
    return lambda principal: principal.browser_session_id == session_id


def _has_ended(principal: Principal, now: int) -> bool:
    return principal.expires_at is not None and principal.expires_at <= now
