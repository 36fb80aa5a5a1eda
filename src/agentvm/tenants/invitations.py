"""Invitations — a link that makes one user of a tenant, who gets a key or signs in at the identity provider from then on.

The link holds 256 random bits; the store holds a digest of it under the server's pepper. It is used up by the user that it
makes, and ends when it expires or is revoked.
"""

from agentvm.errors import AgentVMError, Conflict, Unauthenticated
from agentvm.model.account import Invitation, User, UserRole
from agentvm.model.ids import Clock, InvitationId, NewId, TenantId, UserId
from agentvm.model.principal import Principal
from agentvm.model.secret import Secret
from agentvm.storage.sql.store import Store
from agentvm.tenants import keys
from agentvm.tenants.keys import RandomBits, random_text
from agentvm.tenants.rights import DEFAULT_PERMISSIONS, first_containers

PREFIX = "avmin_"

_SECRET_CHARACTERS = 43
"""62 ** 43 is more than 2 ** 256."""
_DAY_MS = 24 * 3600 * 1000
_ENDED = {
    "accepted": "This invitation was used already; a link makes one user",
    "expired": "This invitation has expired; ask for another",
    "revoked": "This invitation was revoked; ask for another",
    "unknown": "This link is not an invitation of this server; check that the link was copied completely",
}


class Invitations:
    """The invitations of all tenants. Which role may be given is for the caller to check."""

    def __init__(self, store: Store, pepper: bytes, clock: Clock, random_bits: RandomBits, new_id: NewId) -> None:
        self._store, self._pepper, self._clock = store, pepper, clock
        self._random_bits, self._new_id = random_bits, new_id

    async def add(
        self,
        tenant_id: TenantId,
        created_by: str,
        *,
        role: UserRole,
        external_id: str | None,
        display_name: str | None,
        days: int,
    ) -> tuple[Invitation, Secret]:
        """Returns a new invitation, and the secret of its link to be shown once."""
        now = self._clock()
        invitation = Invitation(
            invitation_id=InvitationId(self._new_id("inv")),
            tenant_id=tenant_id,
            role=role,
            external_id=external_id,
            display_name=display_name,
            created_by=created_by,
            created_at=now,
            expires_at=now + days * _DAY_MS,
        )
        token = Secret(PREFIX + random_text(self._random_bits, _SECRET_CHARACTERS))
        await self._store.accounts(tenant_id).invitations.add(invitation, keys.digest(self._pepper, token))
        return invitation, token

    async def find(self, token: str) -> Invitation:
        """Returns the invitation of a link; `Unauthenticated` with the reason for one that cannot be accepted."""
        invitation = None
        if token.startswith(PREFIX) and len(token) == len(PREFIX) + _SECRET_CHARACTERS:
            invitation = await self._store.directory.find_invitation(keys.digest(self._pepper, Secret(token)))
        tenant = None if invitation is None else await self._store.directory.get_tenant(invitation.tenant_id)
        if invitation is None or tenant is None or tenant.status != "active":
            raise _refusal("unknown")
        if invitation.accepted_at is not None or invitation.revoked_at is not None:
            raise _refusal("revoked" if invitation.accepted_at is None else "accepted")
        if invitation.expires_at <= self._clock():
            raise _refusal("expired")
        return invitation

    async def accept(self, invitation: Invitation, external_id: str, identity: tuple[str, str] | None = None) -> User:
        """Adds the user of an invitation, and the account of `identity` (issuer, subject) to them.

        `Conflict` when the name is taken or the account belongs to another user; the invitation can be accepted again then.
        """
        now, accounts = self._clock(), self._store.accounts(invitation.tenant_id)
        user = User(
            user_id=UserId(self._new_id("usr")),
            tenant_id=invitation.tenant_id,
            external_id=external_id,
            display_name=invitation.display_name,
            role=invitation.role,
            created_at=now,
            updated_at=now,
        )
        if identity is not None and await self._store.directory.find_identity(*identity) is not None:
            raise Conflict("This account at the identity provider belongs to a user already: sign in with it")
        if not await accounts.invitations.accept(invitation.invitation_id, user.user_id, now):
            raise _refusal("accepted")
        try:
            await accounts.users.add(user, first_containers(user))
        except AgentVMError:
            await accounts.invitations.release(invitation.invitation_id, user.user_id)
            raise
        if identity is not None:
            await accounts.identities.add(user.user_id, *identity)
        return user

    @staticmethod
    def owner(user: User) -> Principal:
        """Returns the new user as the creator of their own first key."""
        return Principal(
            tenant_id=user.tenant_id,
            user_id=user.user_id,
            role=user.role,
            permissions=DEFAULT_PERMISSIONS[user.role],
        )


def _refusal(reason: str) -> Unauthenticated:
    return Unauthenticated(_ENDED[reason], details={"reason": f"invitation_{reason}"})
