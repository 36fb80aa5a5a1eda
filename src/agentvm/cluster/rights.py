"""Rights — ends connections whose rights were ended on another node: a key was revoked, a user or a tenant suspended."""

from collections.abc import Callable, Iterable

from agentvm.cluster.membership import Membership
from agentvm.errors import AgentVMError
from agentvm.log import get_logger
from agentvm.model.ids import KeyId, TenantId, UserId
from agentvm.model.principal import Principal
from agentvm.tenants.authentication import Authentication

logger = get_logger(__name__)

CHECKED_MAX = 50
"""Principals that are looked at after each beat, in turn."""

Whom = tuple[TenantId, UserId | None, KeyId | None]


class RightsWatch:
    """Looks at the rights of those who are connected to this node."""

    def __init__(self, membership: Membership, access: Authentication, connected: Callable[[], Iterable[Principal]]) -> None:
        self._membership = membership
        self._access = access
        self._connected = connected
        self._waiting: list[Whom] = []

    async def run(self) -> None:
        """Looks after each beat, until cancelled."""
        while True:
            await self._membership.wait_beat()
            try:
                await self.look()
            except AgentVMError as error:
                logger.warning("rights_not_checked", code=error.code, error=str(error))

    async def look(self) -> None:
        """Ends the rights of some of those who are connected, if they have ended in the database."""
        if not self._waiting:
            self._waiting = [*dict.fromkeys(map(_whom, self._connected()))]
        checked, self._waiting = self._waiting[:CHECKED_MAX], self._waiting[CHECKED_MAX:]
        for whom in checked:
            if await self._access.recall(*whom) is None:
                logger.info("rights_ended_elsewhere", tenant_id=whom[0], user_id=whom[1], key_id=whom[2])
                self._access.end(whom[0], lambda principal, ended=whom: _whom(principal) == ended)  # type: ignore[misc]


def _whom(principal: Principal) -> Whom:
    return principal.tenant_id, principal.user_id, principal.key_id
