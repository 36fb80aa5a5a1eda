"""Quarantine — sessions that are set aside, because the server did not survive them or could not read them.

They accept no messages until they are released, and can still be read. There are few, so all are in memory.
"""

from agentvm.errors import SessionQuarantined
from agentvm.log import get_logger
from agentvm.model.ids import Clock, ContainerId, SessionId, TenantId
from agentvm.model.session import Session
from agentvm.storage.sql.store import Store

logger = get_logger(__name__)


class Quarantine:
    """The sessions that are set aside, and why."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._reasons: dict[tuple[TenantId, SessionId], str] = {}

    def __len__(self) -> int:
        return len(self._reasons)

    async def load(self) -> None:
        for tenant_id, session in await self._store.list_quarantined():
            self._reasons[tenant_id, session.session_id] = session.quarantine or ""
            logger.warning("session_in_quarantine", session_id=session.session_id, reason=session.quarantine)

    async def refresh(self, tenant_id: TenantId, session_id: SessionId) -> None:
        """Looks at a session that another node has set aside, or released."""
        quarantined = {
            (tenant, session.session_id): session.quarantine or "" for tenant, session in await self._store.list_quarantined()
        }
        self._reasons.pop((tenant_id, session_id), None)
        if (tenant_id, session_id) in quarantined:
            self._reasons[tenant_id, session_id] = quarantined[tenant_id, session_id]

    def check(self, tenant_id: TenantId, session_id: SessionId) -> None:
        reason = self._reasons.get((tenant_id, session_id))
        if reason is not None:
            raise SessionQuarantined(f"The session is set aside: {reason}. Release it with session_release to continue")

    async def put(self, tenant_id: TenantId, container_id: ContainerId, session_id: SessionId, reason: str) -> None:
        logger.error("session_quarantined", session_id=session_id, container_id=container_id, reason=reason)
        self._reasons[tenant_id, session_id] = reason
        log = self._store.tenant(tenant_id).container(container_id).log(session_id)
        await log.set_quarantine(reason, self._clock())

    async def release(self, tenant_id: TenantId, container_id: ContainerId, session_id: SessionId) -> Session | None:
        log = self._store.tenant(tenant_id).container(container_id).log(session_id)
        session = await log.set_quarantine(None, self._clock())
        if self._reasons.pop((tenant_id, session_id), None) is not None:
            logger.info("session_released", session_id=session_id)
        return session
