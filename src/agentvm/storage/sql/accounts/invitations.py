"""InvitationStore — the invitations of one tenant. Of a link only its digest is here."""

from agentvm.errors import Conflict
from agentvm.model.account import Invitation
from agentvm.model.ids import InvitationId, UserId
from agentvm.storage.sql.connection import Connection
from agentvm.storage.sql.records import Columns, TenantScope
from agentvm.storage.sql.rows import refuse_deleted

INVITATIONS_MAX = 500
"""Invitations of one tenant that can still be accepted."""
LISTED_MAX = 1_000
"""Invitations that are kept; the oldest of those that cannot be accepted any more go for new ones."""

_INVITATION, _STORED = Columns(Invitation, without=("tenant_id",)), Columns(Invitation)
# Over all tenants: the link is all that an invited person has, and the row names the tenant.
FIND_INVITATION = f"SELECT {_STORED.text} FROM invitations WHERE digest = ?"
decode_invitation = _STORED.decode
_OPEN = "accepted_at IS NULL AND revoked_at IS NULL AND expires_at > ?"
_COUNT = f"SELECT count(*) FROM invitations WHERE tenant_id = ? AND {_OPEN}"
_ADD = f"INSERT INTO invitations (tenant_id, digest, {_INVITATION.text}) VALUES (?, ?, {_INVITATION.marks})"
_TRIM = f"""
DELETE FROM invitations WHERE tenant_id = ?1 AND NOT (accepted_at IS NULL AND revoked_at IS NULL AND expires_at > ?2)
AND position NOT IN (SELECT position FROM invitations WHERE tenant_id = ?1 ORDER BY position DESC LIMIT {LISTED_MAX})
"""
_LIST = f"SELECT {_STORED.text} FROM invitations WHERE tenant_id = ? ORDER BY position DESC LIMIT {LISTED_MAX}"
_ACCEPT = f"UPDATE invitations SET accepted_at = ?, user_id = ? WHERE tenant_id = ? AND invitation_id = ? AND {_OPEN}"
_RELEASE = "UPDATE invitations SET accepted_at = NULL, user_id = NULL WHERE tenant_id = ? AND invitation_id = ? AND user_id = ?"
_REVOKE = f"UPDATE invitations SET revoked_at = ? WHERE tenant_id = ? AND invitation_id = ? AND {_OPEN}"


class InvitationStore(TenantScope):
    """The invitations of one tenant."""

    async def add(self, invitation: Invitation, digest: bytes) -> None:
        """`Conflict` when too many wait to be accepted."""

        def write(connection: Connection) -> None:
            refuse_deleted(connection, self._tenant_id)
            if connection.fetch(_COUNT, (self._tenant_id, invitation.created_at))[0][0] >= INVITATIONS_MAX:
                raise Conflict(f"{INVITATIONS_MAX} invitations wait to be accepted; revoke some of them first")
            connection.execute(_ADD, (self._tenant_id, digest, *_INVITATION.encode(invitation)))
            connection.execute(_TRIM, (self._tenant_id, invitation.created_at))

        await self._database.write(write)

    async def list(self) -> tuple[Invitation, ...]:
        """Newest first, with those that cannot be accepted any more."""
        return await self._all(_STORED.decode, _LIST, (self._tenant_id,))

    async def accept(self, invitation_id: InvitationId, user_id: UserId, now: int) -> bool:
        """Uses it up for a user who is about to be added; False when it cannot be accepted any more."""
        return await self._execute(_ACCEPT, (now, user_id, self._tenant_id, invitation_id, now))

    async def release(self, invitation_id: InvitationId, user_id: UserId) -> None:
        """Makes it usable again after the user could not be added."""
        await self._execute(_RELEASE, (self._tenant_id, invitation_id, user_id))

    async def revoke(self, invitation_id: InvitationId, now: int) -> bool:
        """False when there is none that can still be accepted."""
        return await self._execute(_REVOKE, (now, self._tenant_id, invitation_id, now))
